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

func (e *writer) emitTables() {
	words := func(f func(i uint32) uint32) {
		for i := range uint32(16) {
			e.a.Data(binary.LittleEndian.AppendUint32(nil, f(i))...)
		}
	}
	longs := func(v ...uint64) {
		for i := range 8 {
			e.a.Data(binary.LittleEndian.AppendUint64(nil, v[i%len(v)])...)
		}
	}
	same := func(v uint32) { words(func(uint32) uint32 { return v }) }
	e.a.Align(partBytes)
	e.a.Bind(e.tables.tableLabel(e.a))
	for n := range tableDoubles + len(doubles) {
		switch n {
		case tableNaN:
			same(0x7fffffff)
		case tableEven:
			words(func(i uint32) uint32 { return 2 * i })
		case tableOdd:
			words(func(i uint32) uint32 { return 2*i + 1 })
		case tableCount:
			words(func(i uint32) uint32 { return i })
		case tableCountOn:
			words(func(i uint32) uint32 { return 16 + i })
		case tableQuarters:
			words(func(i uint32) uint32 { return i%8*4 + i/8 })
		case tableHalves:
			words(func(i uint32) uint32 { return i%8*4 + i/8 + 2 })
		case tableEvenLong:
			longs(0, 2, 4, 6, 8, 10, 12, 14)
		case tableOddLong:
			longs(1, 3, 5, 7, 9, 11, 13, 15)
		case tablePairsLow:
			longs(0, 1, 8, 9, 2, 3, 10, 11)
		case tablePairsHigh:
			longs(4, 5, 12, 13, 6, 7, 14, 15)
		case tableSign:
			same(1 << 31)
		case tableExponent:
			same(0x7f800000)
		case tableOnes:
			same(^uint32(0))
		case tableOne:
			same(1)
		case tableOneF32:
			same(0x3f800000)
		case tableTwo31F32:
			same(0x4f000000)
		case tableTwo31F64:
			longs(0x41e0000000000000)
		case tableOneF64:
			longs(0x3ff0000000000000)
		case tableLow16:
			same(0xffff)
		case tableLow8:
			same(0xff)
		case table7fff:
			same(0x7fff)
		case tableLastLane:
			same(warpLanes - 1)
		case tableSign64:
			longs(1 << 63)
		case tableByteOnes:
			same(0x01010101)
		case tableHalfOnes:
			same(0x00010001)
		case tableExp2Bound:
			same(math.Float32bits(float.Exp2Bound))
		case tableTurnBound:
			same(math.Float32bits(float.TurnBound))
		default:
			if k := n - tableLongSteps; n < tableWordSteps {
				var steps [8]uint64
				for i := range steps {
					steps[i] = uint64(k%4*8+i) << (k / 4)
				}
				longs(steps[:]...)
				continue
			}
			if k := n - tableWordSteps; n < tableDoubles {
				words(func(i uint32) uint32 { return (uint32(k%2*16) + i) << (k / 2) })
				continue
			}
			longs(math.Float64bits(doubles[n-tableDoubles]))
		}
	}
}
