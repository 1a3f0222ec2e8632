// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"

// unsignedKey names the generated form of an operation that is the same for signed and unsigned integers.
func unsignedKey(op string, t types.Type) string {
	return op + "." + [...]string{2: "u16", 4: "u32", 8: "u64"}[t.Size()]
}

// signedKey names the generated form of an operation that differs for signed and unsigned integers.
func signedKey(op string, t types.Type) string {
	if t.IsSigned() {
		return op + "." + [...]string{2: "s16", 4: "s32", 8: "s64"}[t.Size()]
	}
	return unsignedKey(op, t)
}

func (l *lowerer) mustInt(t types.Type) {
	if !t.IsIntegral() || t.Size() < 2 || t.Size() > 8 {
		l.failSyntax("not for type %s", t)
	}
}

// onHalves applies f to both 16-bit halves.
func onHalves(f func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		return f(a&0xffff, b&0xffff, c&0xffff)&0xffff | f(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)&0xffff<<16
	}
}

func lowerAdd(l *lowerer) {
	if l.hasModifier("f32x2") {
		lowerPackedFloat(l)
		return
	}
	t, op := l.lastType(), l.in.Op
	if t == types.U16x2 || t == types.S16x2 {
		l.emitLanes2(t, onHalves(func(a, b, _ uint64) uint64 {
			if op == "sub" {
				return a - b
			}
			return a + b
		}))
		return
	}
	if t.IsFloat() {
		lowerFloat(l)
		return
	}
	l.mustInt(t)
	l.checkArgs(3)
	if l.hasModifier("cc") || op == "addc" || op == "subc" {
		l.emitCarry(t, l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t), op[:3] == "sub", len(op) == 4, l.hasModifier("cc"))
		return
	}
	if l.hasModifier("sat") {
		l.emitOperation(op+".sat."+t.String(), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
		return
	}
	l.emitOperation(unsignedKey(op, t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
}

// emitCarry emits an addition or subtraction with the carry flag.
func (l *lowerer) emitCarry(t types.Type, d, a, b ref, sub, in, out bool) {
	if l.cc == 0 {
		l.cc = l.newReg(types.ClassPred)
	}
	fn, c := opCarry32, types.Class32
	if t.Size() == 8 {
		fn, c = opCarry64, types.Class64
	} else if t.Size() != 4 {
		l.failSyntax("not for type %s", t)
	}
	m := l.emitMicro(fn, shape{d: defOperand(c), e: modPred, a: useOperand(c), b: useOperand(c)}, d, l.cc, a, b, 0)
	if sub {
		m.imm |= 1
	}
	if in {
		m.imm |= 2
	}
	if out {
		m.imm |= 4
	}
}

func lowerMul(l *lowerer) {
	if l.hasModifier("f32x2") {
		lowerPackedFloat(l)
		return
	}
	t := l.lastType()
	if t.IsFloat() {
		lowerFloat(l)
		return
	}
	l.mustInt(t)
	l.checkArgs(3)
	switch {
	case l.hasModifier("wide"):
		l.emitOperation(signedKey("mul.wide", t), l.resultRef(widenType(t)), l.sourceRef(1, t), l.sourceRef(2, t))
	case l.hasModifier("hi"):
		l.emitOperation(signedKey("mul.hi", t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
	default:
		l.emitOperation(unsignedKey("mul.lo", t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
	}
}

func widenType(t types.Type) types.Type {
	switch t {
	case types.U16:
		return types.U32
	case types.S16:
		return types.S32
	case types.S32:
		return types.S64
	default:
		return types.U64
	}
}

func lowerMad(l *lowerer) {
	t := l.lastType()
	if t.IsFloat() {
		lowerFloat(l)
		return
	}
	l.mustInt(t)
	l.checkArgs(4)
	half := "mul.lo"
	if l.hasModifier("hi") {
		half = "mul.hi"
	}
	switch {
	case l.hasModifier("cc") || l.in.Op == "madc":
		p := l.newReg(t.Class())
		a, b, c := l.sourceRef(1, t), l.sourceRef(2, t), l.sourceRef(3, t)
		if half == "mul.lo" {
			l.emitOperation(unsignedKey(half, t), p, a, b)
		} else {
			l.emitOperation(signedKey(half, t), p, a, b)
		}
		l.emitCarry(t, l.resultRef(t), p, c, false, l.in.Op == "madc", l.hasModifier("cc"))
	case l.hasModifier("wide"):
		l.emitOperation(signedKey("mad.wide", t), l.resultRef(widenType(t)), l.sourceRef(1, t), l.sourceRef(2, t), l.sourceRef(3, widenType(t)))
	case l.hasModifier("hi") && l.hasModifier("sat"):
		p := l.newReg(types.Class32)
		l.emitOperation(signedKey("mul.hi", t), p, l.sourceRef(1, t), l.sourceRef(2, t))
		l.emitOperation("add.sat.s32", l.resultRef(t), p, l.sourceRef(3, t))
	case l.hasModifier("hi"):
		l.emitOperation(signedKey("mad.hi", t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t), l.sourceRef(3, t))
	default:
		l.emitOperation(unsignedKey("mad.lo", t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t), l.sourceRef(3, t))
	}
}

// multiply24Bit returns the 48-bit product of two 24-bit numbers.
func multiply24Bit(a, b uint64, signed bool) uint64 {
	if signed {
		return uint64(int64(int32(uint32(a)<<8)>>8) * int64(int32(uint32(b)<<8)>>8))
	}
	return (a & 0xffffff) * (b & 0xffffff)
}

func lowerMul24(l *lowerer) {
	t := l.lastType()
	hi, signed, sat := l.hasModifier("hi"), t.IsSigned(), l.hasModifier("sat")
	f := func(a, b, c uint64) uint64 {
		p := multiply24Bit(a, b, signed)
		if hi {
			p = uint64(uint32(int64(p) >> 16))
		}
		if sat {
			return uint64(uint32(clampS32(int64(int32(p)) + int64(int32(c)))))
		}
		return uint64(uint32(p + c))
	}
	if l.in.Op == "mul24" {
		l.checkArgs(3)
		l.emitLanes(t, l.resultRef(t), f, []types.Type{t, t}, l.sourceRef(1, t), l.sourceRef(2, t))
		return
	}
	l.checkArgs(4)
	l.emitLanes(t, l.resultRef(t), f, []types.Type{t, t, t}, l.sourceRef(1, t), l.sourceRef(2, t), l.sourceRef(3, t))
}

// lowerInt2 is for operations with two operands and a sign: div, rem, min, max.
func lowerInt2(l *lowerer) {
	t, op := l.lastType(), l.in.Op
	if t.IsFloat() {
		lowerFloat(l)
		return
	}
	if t == types.U16x2 || t == types.S16x2 || l.hasModifier("relu") {
		relu := l.hasModifier("relu")
		g := func(a, b, _ uint64) uint64 {
			x, y := int64(a), int64(b)
			switch t {
			case types.S16x2:
				x, y = int64(int16(a)), int64(int16(b))
			case types.S32:
				x, y = int64(int32(a)), int64(int32(b))
			}
			r := max(x, y)
			if op == "min" {
				r = min(x, y)
			}
			if relu {
				r = max(r, 0)
			}
			return uint64(r)
		}
		if t != types.S32 {
			g = onHalves(g)
		}
		l.emitLanes2(t, g)
		return
	}
	l.mustInt(t)
	l.checkArgs(3)
	l.emitOperation(signedKey(op, t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
}

func lowerSad(l *lowerer) {
	t := l.lastType()
	l.mustInt(t)
	l.checkArgs(4)
	l.emitOperation(signedKey("sad", t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t), l.sourceRef(3, t))
}

func lowerAbsNeg(l *lowerer) {
	t, op := l.lastType(), l.in.Op
	if t.IsFloat() {
		lowerFloat(l)
		return
	}
	l.mustInt(t)
	l.checkArgs(2)
	if op == "abs" {
		l.emitOperation("abs."+t.String(), l.resultRef(t), l.sourceRef(1, t))
		return
	}
	l.emitOperation(unsignedKey("neg", t), l.resultRef(t), l.sourceRef(1, t))
}
