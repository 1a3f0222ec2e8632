// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"encoding/binary"
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
)

// tables are vectors of constants behind the code.
type tables struct {
	at    amd64.Label
	known bool
}

func (t *tables) tableLabel(a *amd64.Assembler) amd64.Label {
	if !t.known {
		t.at, t.known = a.NewLabel(), true
	}
	return t.at
}

// The tables: constants in all lanes, and patterns.
const (
	tableNaN       = iota // 0x7fffffff in each lane of 32 bits; also the highest integer
	tableEven             // 0, 2, 4 ... of 16 lanes
	tableOdd              // 1, 3, 5 ...
	tableCount            // 0, 1, 2 ...
	tableCountOn          // 16, 17, 18 ...
	tableQuarters         // 0, 4 ... 28, 1, 5 ... 29
	tableHalves           // 2, 6 ... 30, 3, 7 ... 31
	tableEvenLong         // 0, 2 ... 14 of 8 lanes
	tableOddLong          // 1, 3 ... 15
	tablePairsLow         // of v2: 0, 1, 8, 9, 2, 3, 10, 11
	tablePairsHigh        // 4, 5, 12, 13, 6, 7, 14, 15
	tableSign             // the sign of f32
	tableExponent         // the exponent of f32
	tableOnes             // all bits
	tableOne              // 1
	tableOneF32           // 1.0
	tableTwo31F32         // 2^31
	tableTwo31F64
	tableOneF64
	tableLow16    // 0xffff
	tableLow8     // 0xff
	table7fff     // 0x7fff
	tableLastLane // 31
	tableSign64   // the sign of f64
	tableByteOnes // 1 in each byte
	tableHalfOnes // 1 in each half of a word
	tableExp2Bound
	tableTurnBound
	tableLongSteps // the bytes from the first lane's element to each lane's: 4 for each size of an element

	tableWordSteps = tableLongSteps + 4*4 // 2 for each size
	tableDoubles   = tableWordSteps + 4*2 // the first of doubles
)

func (e *writer) tableAt(n int) amd64.Mem { return amd64.At(regTables, int32(n)*partBytes) }

// constantTables are the contents of the tables before tableLongSteps.
var constantTables = [tableLongSteps][]byte{
	tableNaN:       sameWords(0x7fffffff),
	tableEven:      makeWords(func(i uint32) uint32 { return 2 * i }),
	tableOdd:       makeWords(func(i uint32) uint32 { return 2*i + 1 }),
	tableCount:     makeWords(func(i uint32) uint32 { return i }),
	tableCountOn:   makeWords(func(i uint32) uint32 { return 16 + i }),
	tableQuarters:  makeWords(func(i uint32) uint32 { return i%8*4 + i/8 }),
	tableHalves:    makeWords(func(i uint32) uint32 { return i%8*4 + i/8 + 2 }),
	tableEvenLong:  makeLongs(0, 2, 4, 6, 8, 10, 12, 14),
	tableOddLong:   makeLongs(1, 3, 5, 7, 9, 11, 13, 15),
	tablePairsLow:  makeLongs(0, 1, 8, 9, 2, 3, 10, 11),
	tablePairsHigh: makeLongs(4, 5, 12, 13, 6, 7, 14, 15),
	tableSign:      sameWords(1 << 31),
	tableExponent:  sameWords(0x7f800000),
	tableOnes:      sameWords(^uint32(0)),
	tableOne:       sameWords(1),
	tableOneF32:    sameWords(0x3f800000),
	tableTwo31F32:  sameWords(0x4f000000),
	tableTwo31F64:  makeLongs(0x41e0000000000000),
	tableOneF64:    makeLongs(0x3ff0000000000000),
	tableLow16:     sameWords(0xffff),
	tableLow8:      sameWords(0xff),
	table7fff:      sameWords(0x7fff),
	tableLastLane:  sameWords(warpLanes - 1),
	tableSign64:    makeLongs(1 << 63),
	tableByteOnes:  sameWords(0x01010101),
	tableHalfOnes:  sameWords(0x00010001),
	tableExp2Bound: sameWords(math.Float32bits(float.Exp2Bound)),
	tableTurnBound: sameWords(math.Float32bits(float.TurnBound)),
}

// makeWords returns a table of 16 words.
func makeWords(word func(i uint32) uint32) []byte {
	var table []byte
	for i := range uint32(16) {
		table = binary.LittleEndian.AppendUint32(table, word(i))
	}
	return table
}

// sameWords returns a table with the same word in all lanes.
func sameWords(v uint32) []byte { return makeWords(func(uint32) uint32 { return v }) }

// makeLongs returns a table of 8 longs, which repeats v.
func makeLongs(v ...uint64) []byte {
	var table []byte
	for i := range 8 {
		table = binary.LittleEndian.AppendUint64(table, v[i%len(v)])
	}
	return table
}

// tableContents returns the bytes of a table.
func tableContents(n int) []byte {
	switch {
	case n < tableLongSteps:
		return constantTables[n]
	case n < tableWordSteps:
		k := n - tableLongSteps
		var steps [8]uint64
		for i := range steps {
			steps[i] = uint64(k%4*8+i) << (k / 4)
		}
		return makeLongs(steps[:]...)
	case n < tableDoubles:
		k := n - tableWordSteps
		return makeWords(func(i uint32) uint32 { return (uint32(k%2*16) + i) << (k / 2) })
	}
	return makeLongs(math.Float64bits(doubles[n-tableDoubles]))
}

// emitTables emits all tables behind the code.
func (e *writer) emitTables() {
	e.a.Align(partBytes)
	e.a.Bind(e.tables.tableLabel(e.a))
	for n := range tableDoubles + len(doubles) {
		e.a.Data(tableContents(n)...)
	}
}
