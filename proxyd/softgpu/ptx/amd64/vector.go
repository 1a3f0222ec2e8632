// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package amd64

// Op is a vector instruction of 512 bits.
type Op struct {
	space, prefix byte // the opcode map, and 1, 2, 3 for the prefixes 66, F3, F2
	wide          bool // W
	opcode        byte
	digit         byte  // instead of a register: extends the opcode
	unit          uint8 // the factor of a displacement of a byte; 0: 64
}

// Rounding is how a floating-point instruction rounds.
type Rounding uint8

// The roundings. AsSet is the rounding of the processor's control register: to nearest.
const (
	AsSet Rounding = iota
	Nearest
	Down
	Up
	ToZero
)

// Options are the optional parts of an instruction of three operands.
type Options struct {
	Mask  Mask     // lanes that are computed; 0: all
	Zero  bool     // the other lanes become zero, instead of being kept
	Round Rounding // only without an operand in memory
}

// Source is a vector register, or a place in memory.
type Source struct {
	Vec    Vec
	Mem    Mem
	Memory bool
}

// Register is a vector register as a Source.
func Register(v Vec) Source { return Source{Vec: v} }

// Memory is a place in memory as a Source.
func Memory(m Mem) Source { return Source{Mem: m, Memory: true} }

// emitEvex emits the EVEX prefix and the opcode.
func (a *Assembler) emitEvex(o Op, reg, v uint8, s Source, opts Options) {
	inverted := func(r, bit uint8) byte { return ^r >> bit & 1 }
	x, b, high := byte(0), byte(0), inverted(v, 4)
	switch {
	case !s.Memory:
		x, b = inverted(uint8(s.Vec), 4), inverted(uint8(s.Vec), 3)
	case s.Mem.Indexed:
		x, b = inverted(uint8(s.Mem.Vector), 3), inverted(uint8(s.Mem.Base), 3)
		high = inverted(uint8(s.Mem.Vector), 4)
	default:
		x, b = inverted(uint8(s.Mem.Index), 3), inverted(uint8(s.Mem.Base), 3)
	}
	p1 := inverted(reg, 3)<<7 | x<<6 | b<<5 | inverted(reg, 4)<<4 | o.space
	p2 := ^v&15<<3 | 4 | o.prefix
	if o.wide {
		p2 |= 0x80
	}
	p3 := byte(2)<<5 | high<<3 | byte(opts.Mask)
	if opts.Round != AsSet {
		p3 = byte(opts.Round-Nearest)<<5 | 1<<4 | high<<3 | byte(opts.Mask)
	}
	if opts.Zero {
		p3 |= 0x80
	}
	a.emitBytes(0x62, p1, p2, p3, o.opcode)
}

func (a *Assembler) emitVector(o Op, reg, v uint8, s Source, opts Options) {
	a.emitEvex(o, reg, v, s, opts)
	if !s.Memory {
		a.emitBytes(0xc0 | reg&7<<3 | byte(s.Vec&7))
		return
	}
	unit := int32(o.unit)
	if unit == 0 {
		unit = 64
	}
	a.emitMemory(reg, s.Mem, unit)
}

// Op3 is an instruction of three operands: d = x op y.
func (a *Assembler) Op3(o Op, d, x Vec, y Source, opts Options) {
	a.emitVector(o, uint8(d), uint8(x), y, opts)
}

// Op3Imm is Op3 with a constant.
func (a *Assembler) Op3Imm(o Op, d, x Vec, y Source, imm byte, opts Options) {
	a.emitVector(o, uint8(d), uint8(x), y, opts)
	a.emitBytes(imm)
}

// Op2 is an instruction of two operands: d = op y.
func (a *Assembler) Op2(o Op, d Vec, y Source, opts Options) { a.emitVector(o, uint8(d), 0, y, opts) }

// Op2Imm is Op2 with a constant.
func (a *Assembler) Op2Imm(o Op, d Vec, y Source, imm byte, opts Options) {
	a.emitVector(o, uint8(d), 0, y, opts)
	a.emitBytes(imm)
}

// ShiftImm shifts or rotates y by a constant into d.
func (a *Assembler) ShiftImm(o Op, d Vec, y Source, imm byte, opts Options) {
	a.emitVector(o, o.digit, uint8(d), y, opts)
	a.emitBytes(imm)
}

// Compare compares x and y in all lanes of opts.Mask into a mask; the other lanes give 0.
func (a *Assembler) Compare(o Op, d Mask, x Vec, y Source, predicate byte, opts Options) {
	a.emitVector(o, uint8(d), uint8(x), y, opts)
	a.emitBytes(predicate)
}

// TestLanes makes the mask of lanes in which x & y is not 0 (VPTESTM) or is 0 (VPTESTNM).
func (a *Assembler) TestLanes(o Op, d Mask, x Vec, y Source, opts Options) {
	a.emitVector(o, uint8(d), uint8(x), y, opts)
}

// Store is an instruction that writes a vector register to memory, or a part of each lane.
func (a *Assembler) Store(o Op, m Mem, s Vec, opts Options) {
	a.emitVector(o, uint8(s), 0, Memory(m), opts)
}

// NarrowTo is an instruction with the result in the position of the source: d = op s.
func (a *Assembler) NarrowTo(o Op, d, s Vec, imm []byte, opts Options) {
	a.emitVector(o, uint8(s), 0, Register(d), opts)
	a.emitBytes(imm...)
}

// BroadcastReg is d = the general register s in all lanes.
func (a *Assembler) BroadcastReg(o Op, d Vec, s Reg, opts Options) {
	a.emitVector(o, uint8(d), 0, Register(Vec(s)), opts)
}

// MoveLow32 is d = the lowest 32 bits of s.
func (a *Assembler) MoveLow32(d Reg, s Vec) {
	// EVEX.128.66.0F.W0 7E /r, with the vector register in the position of the result.
	a.moveLow(Op{space: 1, prefix: 1, opcode: 0x7e}, d, s)
}

// MoveLow64 is d = the lowest 64 bits of s.
func (a *Assembler) MoveLow64(d Reg, s Vec) {
	a.moveLow(Op{space: 1, prefix: 1, wide: true, opcode: 0x7e}, d, s)
}

func (a *Assembler) moveLow(o Op, d Reg, s Vec) {
	at := len(a.code)
	a.emitEvex(o, uint8(s), 0, Register(Vec(d)), Options{})
	a.code[at+3] &^= 0x60
	a.emitBytes(0xc0 | byte(s&7)<<3 | byte(d&7))
}
