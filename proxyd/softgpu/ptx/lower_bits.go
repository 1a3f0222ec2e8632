// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

func lowerLogic(l *lowerer) {
	t, op := l.lastType(), l.in.Op
	if t == types.Pred {
		l.checkArgs(3)
		emitFlagLogic(l, map[string]uint64{"and": 1, "or": 2, "xor": 3}[op], l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
		return
	}
	l.mustInt(t)
	l.checkArgs(3)
	l.emitOperation(unsignedKey(op, t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
}

func lowerNot(l *lowerer) {
	t := l.lastType()
	l.checkArgs(2)
	switch {
	case l.in.Op == "cnot":
		l.mustInt(t)
		l.emitLanes(t, l.resultRef(t), func(a, _, _ uint64) uint64 {
			if a&types.SizeMask(t.Size()) == 0 {
				return 1
			}
			return 0
		}, []types.Type{t}, l.sourceRef(1, t))
	case t == types.Pred:
		emitFlagMove(l, l.resultRef(t), l.sourceRef(1, t)^1)
	default:
		l.mustInt(t)
		l.emitOperation(unsignedKey("not", t), l.resultRef(t), l.sourceRef(1, t))
	}
}

func lowerShift(l *lowerer) {
	t := l.lastType()
	l.mustInt(t)
	l.checkArgs(3)
	key := signedKey(l.in.Op, t)
	if l.in.Op == "shl" {
		key = unsignedKey("shl", t)
	}
	l.emitOperation(key, l.resultRef(t), l.sourceRef(1, t), l.shiftBy(2))
}

// shiftBy reads an amount, which is of type u32 but may be given in a wider literal.
func (l *lowerer) shiftBy(i int) ref {
	l.loose = true
	defer func() { l.loose = false }()
	return l.sourceRef(i, types.U32)
}

func lowerShf(l *lowerer) {
	l.checkArgs(4)
	key := "shf.r"
	if l.hasModifier("l") {
		key = "shf.l"
	}
	if l.hasModifier("wrap") {
		key += ".wrap"
	}
	l.emitOperation(key, l.resultRef(types.B32), l.sourceRef(1, types.B32), l.sourceRef(2, types.B32), l.sourceRef(3, types.U32))
}

func lowerLop3(l *lowerer) {
	t := l.lastType()
	// lop3.BoolOp d|p, a, b, c, lut, q
	boolOp := ""
	for _, m := range []string{"or", "and"} {
		if l.hasModifier(m) {
			boolOp = m
		}
	}
	if boolOp == "" {
		l.checkArgs(5)
	} else {
		l.checkArgs(6)
	}
	if l.in.Args[4].Kind != syntax.ArgInt {
		l.failSyntax("the table is no number")
	}
	table := l.in.Args[4].Num & 255
	d := l.resultRef(t)
	m := l.emitOperation(unsignedKey("lop3", t), d, l.sourceRef(1, t), l.sourceRef(2, t), l.sourceRef(3, t))
	m.imm = table
	if boolOp == "" {
		return
	}
	if l.in.Args[0].Pair == nil {
		l.failSyntax("a predicate is missing")
	}
	p := l.refForResult(*l.in.Args[0].Pair, types.Pred)
	m = l.emitOperation(unsignedKey("setp.ne", t), p, d, l.constantRef(t.Class(), 0))
	m.c = l.sourceRef(5, types.Pred)
	m.shape.c = usePred
	m.imm = map[string]uint64{"and": 1, "or": 2}[boolOp]
}

func lowerBits1(l *lowerer) {
	t, op := l.lastType(), l.in.Op
	l.checkArgs(2)
	switch op {
	case "brev":
		l.emitOperation(unsignedKey(op, t), l.resultRef(t), l.sourceRef(1, t))
	case "popc", "clz":
		l.emitOperation(unsignedKey(op, t), l.resultRef(types.U32), l.sourceRef(1, t))
	case "bfind":
		shift := l.hasModifier("shiftamt")
		l.emitLanes(types.U32, l.resultRef(types.U32), func(a, _, _ uint64) uint64 {
			n := int(t.Size()) * 8
			if t.IsSigned() && a>>(n-1)&1 != 0 {
				a = ^a & types.SizeMask(t.Size())
			}
			if a == 0 {
				return 0xffffffff
			}
			msb := 63 - bits.LeadingZeros64(a)
			if shift {
				msb = n - 1 - msb
			}
			return uint64(msb)
		}, []types.Type{t}, l.sourceRef(1, t))
	}
}

func lowerBfe(l *lowerer) {
	t := l.lastType()
	l.checkArgs(4)
	l.emitOperation(signedKey("bfe", t), l.resultRef(t), l.sourceRef(1, t), l.shiftBy(2), l.shiftBy(3))
}

func lowerBfi(l *lowerer) {
	t := l.lastType()
	l.checkArgs(5)
	// Position and length travel together.
	pos := l.shiftBy(3)
	n := l.shiftBy(4)
	both := l.newReg(types.Class64)
	l.emitLanes(types.U64, both, func(a, b, _ uint64) uint64 { return a&255 | b&255<<8 }, []types.Type{types.U32, types.U32}, pos, n)
	width := t.Size() * 8
	l.emitLanes(t, l.resultRef(t), func(a, b, c uint64) uint64 { return bfi(a, b, uint32(c), uint32(c>>8), width) },
		[]types.Type{t, t, types.U64}, l.sourceRef(1, t), l.sourceRef(2, t), both)
}

func lowerBmsk(l *lowerer) {
	wrap := l.hasModifier("wrap")
	l.emitLanes2(types.B32, func(a, b, _ uint64) uint64 {
		if wrap {
			a, b = a&31, b&31
		}
		if a >= 32 {
			return 0
		}
		b = min(b, 32)
		return uint64(uint32((1<<b - 1) << a))
	})
}

func lowerSzext(l *lowerer) {
	t, wrap := l.lastType(), l.hasModifier("wrap")
	l.emitLanes2(t, func(a, b, _ uint64) uint64 {
		if wrap {
			b &= 31
		}
		b = min(b, 32)
		if b == 0 {
			return 0
		}
		if t.IsSigned() {
			return uint64(uint32(int32(uint32(a)<<(32-b)) >> (32 - b)))
		}
		return a & (1<<b - 1)
	})
}

// findNthSet finds the n-th set bit from base on, downwards if n is negative.
func findNthSet(mask, base uint32, n int32) uint32 {
	switch {
	case n == 0:
		if base < 32 && mask>>base&1 != 0 {
			return base
		}
	case n > 0:
		for i := base; i < 32; i++ {
			if mask>>i&1 != 0 {
				if n--; n == 0 {
					return i
				}
			}
		}
	default:
		for i := int64(base); i >= 0; i-- {
			if i < 32 && mask>>uint(i)&1 != 0 {
				if n++; n == 0 {
					return uint32(i)
				}
			}
		}
	}
	return 0xffffffff
}

func lowerFns(l *lowerer) {
	l.checkArgs(4)
	l.emitLanes(types.B32, l.resultRef(types.B32), func(a, b, c uint64) uint64 { return uint64(findNthSet(uint32(a), uint32(b), int32(c))) },
		[]types.Type{types.B32, types.B32, types.S32}, l.sourceRef(1, types.B32), l.sourceRef(2, types.B32), l.sourceRef(3, types.S32))
}

func lowerPrmt(l *lowerer) {
	l.checkArgs(4)
	for _, mode := range []string{"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"} {
		if l.hasModifier(mode) {
			l.emitLanes(types.B32, l.resultRef(types.B32), func(a, b, c uint64) uint64 {
				return uint64(prmtMode(mode, uint32(a), uint32(b), uint32(c)))
			}, []types.Type{types.B32, types.B32, types.B32}, l.sourceRef(1, types.B32), l.sourceRef(2, types.B32), l.sourceRef(3, types.B32))
			return
		}
	}
	l.emitOperation("prmt", l.resultRef(types.B32), l.sourceRef(1, types.B32), l.sourceRef(2, types.B32), l.sourceRef(3, types.B32))
}

// lowerDp is dp4a and dp2a.
func lowerDp(l *lowerer) {
	l.checkArgs(4)
	ts := typesOf(l.in)
	if len(ts) != 2 {
		l.failSyntax("two types are needed")
	}
	at, bt := ts[0], ts[1]
	four, hi := l.in.Op == "dp4a", l.hasModifier("hi")
	ext := func(v uint64, size int, signed bool) int64 {
		s := 64 - size
		if signed {
			return int64(v<<s) >> s
		}
		return int64(v << s >> s)
	}
	f := func(a, b, c uint64) uint64 {
		sum := int64(int32(c))
		if four {
			for i := range 4 {
				sum += ext(a>>(8*i), 8, at.IsSigned()) * ext(b>>(8*i), 8, bt.IsSigned())
			}
			return uint64(uint32(sum))
		}
		if hi {
			b >>= 16
		}
		for i := range 2 {
			sum += ext(a>>(16*i), 16, at.IsSigned()) * ext(b>>(8*i), 8, bt.IsSigned())
		}
		return uint64(uint32(sum))
	}
	l.emitLanes(types.B32, l.resultRef(types.B32), f, []types.Type{types.B32, types.B32, types.B32}, l.sourceRef(1, types.B32), l.sourceRef(2, types.B32), l.sourceRef(3, types.B32))
}
