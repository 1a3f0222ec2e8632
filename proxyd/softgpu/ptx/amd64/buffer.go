// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package amd64

import (
	"encoding/binary"
	"fmt"
)

// Reg is a general register of 64 bits.
type Reg uint8

// The general registers. R14 holds Go's goroutine and RBP its frame pointer: code that Go calls leaves both alone.
const (
	RAX Reg = iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
)

// Vec is a vector register of 512 bits, 0 to 31.
type Vec uint8

// Mask is a mask register, 0 to 7. As the mask of a vector instruction, 0 means no mask.
type Mask uint8

// Mem is a place in memory: Base + Disp, with a vector of indices for gathers and scatters.
type Mem struct {
	Base    Reg
	Disp    int32
	Index   Reg // if Scale is not 0
	Scale   uint8
	Vector  Vec // if Indexed: instead of Index
	Indexed bool
}

// At is the place disp bytes behind the address in a register.
func At(base Reg, disp int32) Mem { return Mem{Base: base, Disp: disp} }

// Label is a place in the code, which may be used before Bind gives it its place.
type Label int

type fixup struct {
	at    int // of the displacement; it counts from its end
	label Label
}

// Assembler collects code. The zero value is empty. Its instructions are in three files, and so in three types.
type Assembler struct{ masks }

// buffer is the code of an Assembler.
type buffer struct {
	code   []byte
	places []int // of labels; -1 until bound
	fixups []fixup
}

// Len is the number of bytes so far.
func (a *buffer) Len() int { return len(a.code) }

// NewLabel makes a label without a place.
func (a *buffer) NewLabel() Label {
	a.places = append(a.places, -1)
	return Label(len(a.places) - 1)
}

// Bind gives a label its place: here. A label is bound once.
func (a *buffer) Bind(l Label) { a.places[l] = len(a.code) }

// Place is where a bound label is.
func (a *buffer) Place(l Label) int { return a.places[l] }

// Align adds bytes until the length is a multiple of n.
func (a *buffer) Align(n int) {
	for len(a.code)%n != 0 {
		a.code = append(a.code, 0xcc) // int3: never reached
	}
}

// Data adds bytes that are no code.
func (a *buffer) Data(b ...byte) { a.code = append(a.code, b...) }

// Finish fills in all displacements and returns the code. It is an error if a used label was never bound.
func (a *buffer) Finish() ([]byte, error) {
	for _, f := range a.fixups {
		at := a.places[f.label]
		if at < 0 {
			return nil, fmt.Errorf("label %d has no place", f.label)
		}
		binary.LittleEndian.PutUint32(a.code[f.at:], uint32(int32(at-f.at-4)))
	}
	return a.code, nil
}

func (a *buffer) emitBytes(b ...byte) { a.code = append(a.code, b...) }

func (a *buffer) emit32(v uint32) { a.code = binary.LittleEndian.AppendUint32(a.code, v) }

func (a *buffer) emitLabel(l Label) {
	a.fixups = append(a.fixups, fixup{len(a.code), l})
	a.emit32(0)
}

// emitMemory emits the ModRM byte, the SIB byte and the displacement of a place in memory. scale is the factor of a
// displacement of a single byte.
func (a *buffer) emitMemory(reg uint8, m Mem, scale int32) {
	mod, short := byte(0x80), int32(0)
	switch {
	case m.Disp == 0 && m.Base&7 != RBP:
		mod = 0
	case m.Disp%scale == 0 && m.Disp/scale >= -128 && m.Disp/scale <= 127:
		mod, short = 0x40, m.Disp/scale
	}
	indexed := m.Indexed || m.Scale != 0
	if !indexed && m.Base&7 != RSP {
		a.emitBytes(mod | reg&7<<3 | byte(m.Base&7))
	} else {
		index := byte(4) // 4: no index
		switch {
		case m.Indexed:
			index = byte(m.Vector & 7)
		case m.Scale != 0:
			index = byte(m.Index & 7)
		}
		a.emitBytes(mod|reg&7<<3|4, logTwo(m.Scale)<<6|index<<3|byte(m.Base&7))
	}
	switch mod {
	case 0x40:
		a.emitBytes(byte(short))
	case 0x80:
		a.emit32(uint32(m.Disp))
	}
}

func logTwo(scale uint8) byte {
	switch scale {
	case 2:
		return 1
	case 4:
		return 2
	case 8:
		return 3
	}
	return 0
}
