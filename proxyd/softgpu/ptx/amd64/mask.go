// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package amd64

// vexOp is an instruction with a VEX prefix.
type vexOp struct {
	space, prefix byte // the opcode map, and 1, 2, 3 for 66, F3, F2
	wide, long    bool
	opcode        byte
}

// masks adds the instructions of mask registers, and the other instructions with a VEX prefix.
type masks struct{ scalars }

// emitVex emits a prefix and an opcode. v is the middle operand, 0 if the instruction has no such operand.
func (a *masks) emitVex(o vexOp, reg, v, index, base uint8) {
	p1 := o.space
	for i, r := range []uint8{reg, index, base} {
		if r&8 == 0 {
			p1 |= 0x80 >> i
		}
	}
	p2 := ^v&15<<3 | o.prefix
	if o.wide {
		p2 |= 0x80
	}
	if o.long {
		p2 |= 4
	}
	if o.space == map0F && !o.wide && (index|base)&8 == 0 {
		a.emitBytes(0xc5, p1&0x80|p2, o.opcode) // the short form
		return
	}
	a.emitBytes(0xc4, p1, p2, o.opcode)
}

func (a *masks) emitMasks(o vexOp, d, s uint8) {
	a.emitVex(o, d, 0, 0, s)
	a.emitBytes(0xc0 | d&7<<3 | s&7)
}

// MaskFrom is the 32 bits of a register as a mask.
func (a *masks) MaskFrom(d Mask, s Reg) {
	a.emitMasks(vexOp{1, 3, false, false, 0x92}, uint8(d), uint8(s))
}

// MaskTo is the 32 bits of a mask in a register.
func (a *masks) MaskTo(d Reg, s Mask) {
	a.emitMasks(vexOp{1, 3, false, false, 0x93}, uint8(d), uint8(s))
}

// MaskMove is d = s, 32 bits.
func (a *masks) MaskMove(d, s Mask) {
	a.emitMasks(vexOp{1, 1, true, false, 0x90}, uint8(d), uint8(s))
}

// MaskShift is d = s >> n, 32 bits.
func (a *masks) MaskShift(d, s Mask, n uint8) {
	a.emitMasks(vexOp{3, 1, false, false, 0x31}, uint8(d), uint8(s))
	a.emitBytes(n)
}

// TestMasks16 sets the flags for the low 16 bits of x | y: Equal if there is no bit, Below if all are ones.
func (a *masks) TestMasks16(x, y Mask) {
	a.emitMasks(vexOp{1, 0, false, false, 0x98}, uint8(x), uint8(y))
}

// TestMasks8 sets the flags for the low 8 bits of x | y, as TestMasks16 does.
func (a *masks) TestMasks8(x, y Mask) {
	a.emitMasks(vexOp{1, 1, false, false, 0x98}, uint8(x), uint8(y))
}

// DropLowest32 is d = s without its lowest bit that is set.
func (a *masks) DropLowest32(d, s Reg) {
	a.emitVex(vexOp{space: map0F38, opcode: 0xf3}, 1, uint8(d), 0, uint8(s))
	a.emitBytes(0xc8 | byte(s&7))
}
