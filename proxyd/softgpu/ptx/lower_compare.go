// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// comparisons are the names of all.
var comparisons = map[string]bool{
	"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "lo": true, "ls": true, "hi": true, "hs": true,
	"equ": true, "neu": true, "ltu": true, "leu": true, "gtu": true, "geu": true, "num": true, "nan": true,
}

// compareFloats decides a floating-point comparison.
func compareFloats(op string, a, b float64) bool {
	unordered := a != a || b != b
	switch op {
	case "num":
		return !unordered
	case "nan":
		return unordered
	}
	if unordered {
		return len(op) == 3
	}
	switch op[:2] {
	case "eq":
		return a == b
	case "ne":
		return a != b
	case "lt":
		return a < b
	case "le":
		return a <= b
	case "gt":
		return a > b
	default:
		return a >= b
	}
}

// emitComparison emits a comparison of operands 1 and 2 into predicate d, and into e for the
// upper halves of packed types.
func (l *lowerer) emitComparison(t types.Type, d, e ref) {
	op := ""
	for _, m := range l.in.Mods {
		if comparisons[m] {
			op = m
			break
		}
	}
	if op == "" {
		l.failSyntax("the comparison is missing")
	}
	a, b := l.sourceRef(1, t), l.sourceRef(2, t)
	if !t.IsFloat() {
		l.mustInt(t)
		op = strings.NewReplacer("lo", "lt", "ls", "le", "hi", "gt", "hs", "ge").Replace(op)
		l.emitOperation(signedKey("setp."+op, t), d, a, b)
		return
	}
	if (t == types.F32 || t == types.F64) && !l.hasModifier("ftz") {
		l.emitOperation("setp."+op+"."+t.String(), d, a, b)
		return
	}
	o := &float.Operation{Type: elementType(t), FTZ: l.hasModifier("ftz")}
	test := func(shift uint) func(a, b, c uint64) uint64 {
		return func(a, b, _ uint64) uint64 {
			if compareFloats(op, o.Flush(float.Decode(o.Type, a>>shift)), o.Flush(float.Decode(o.Type, b>>shift))) {
				return 1
			}
			return 0
		}
	}
	if e != 0 {
		l.emitLanes(types.Pred, e, test(16), []types.Type{t, t}, a, b)
	}
	m := l.emitLanes(types.Pred, d, test(0), []types.Type{t, t}, a, b)
	if t == types.F32 {
		m.key = "setp." + op + ".ftz.f32"
	}
}

func (l *lowerer) boolOp() uint64 {
	for i, m := range []string{"and", "or", "xor"} {
		if l.hasModifier(m) {
			return uint64(i + 1)
		}
	}
	return 0
}

// lowerSetp is setp: p|q = (a op b) bool c.
func lowerSetp(l *lowerer) {
	t := l.lastType()
	op := l.boolOp()
	if op == 0 {
		l.checkArgs(3)
	} else {
		l.checkArgs(4)
	}
	packed := t == types.F16x2 || t == types.BF16x2
	p := l.resultRef(types.Pred)
	q := ref(0)
	if pair := l.in.Args[0].Pair; pair != nil {
		q = l.refForResult(*pair, types.Pred)
	} else if packed {
		q = l.newReg(types.ClassPred)
	}
	if op == 0 && q == 0 {
		l.emitComparison(t, p, 0)
		return
	}
	low, high := l.newReg(types.ClassPred), ref(0)
	if packed {
		high = l.newReg(types.ClassPred)
	}
	l.emitComparison(t, low, high)
	c := alwaysTrue
	if op != 0 {
		// c may be a result.
		c = l.newReg(types.ClassPred)
		emitFlagMove(l, c, l.sourceRef(3, types.Pred))
	} else {
		op = 1
	}
	logic := func(d, a ref) {
		emitFlagLogic(l, op, d, a, c)
	}
	logic(p, low)
	switch {
	case packed:
		logic(q, high)
	case q != 0:
		logic(q, low^1)
	}
}

// lowerSet is set: all ones or 1.0 for true.
func lowerSet(l *lowerer) {
	ts := typesOf(l.in)
	if len(ts) != 2 {
		l.failSyntax("two types are needed")
	}
	dt, st := ts[0], ts[1]
	op := l.boolOp()
	low, high := l.newReg(types.ClassPred), ref(0)
	packed := st == types.F16x2 || st == types.BF16x2
	if packed {
		high = l.newReg(types.ClassPred)
	}
	l.emitComparison(st, low, high)
	if op != 0 {
		l.checkArgs(4)
		c := l.sourceRef(3, types.Pred)
		for _, p := range []ref{low, high} {
			if p != 0 {
				emitFlagLogic(l, op, p, p, c)
			}
		}
	} else {
		l.checkArgs(3)
	}
	yes := types.SizeMask(elementType(dt).Size())
	if dt.IsFloat() {
		yes = float.Bits(elementType(dt), 1)
	}
	if packed && dt.Size() == 4 {
		if !dt.IsFloat() {
			yes = 0xffff
		}
		l.emitLanes(types.B32, l.resultRef(dt), func(a, b, _ uint64) uint64 { return a*yes | b*yes<<16 }, []types.Type{types.Pred, types.Pred}, low, high)
		return
	}
	l.emitOperation(unsignedKey("selp", dt), l.resultRef(dt), l.constantRef(dt.Class(), yes), l.constantRef(dt.Class(), 0), low)
}

func lowerSelp(l *lowerer) {
	t := l.lastType()
	l.checkArgs(4)
	l.emitOperation(unsignedKey("selp", t), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t), l.sourceRef(3, types.Pred))
}

func lowerSlct(l *lowerer) {
	ts := typesOf(l.in)
	l.checkArgs(4)
	if len(ts) != 2 || ts[1] != types.S32 && ts[1] != types.F32 {
		l.failSyntax("no such form")
	}
	p := l.newReg(types.ClassPred)
	c := l.sourceRef(3, ts[1])
	switch {
	case ts[1] == types.S32:
		l.emitOperation("setp.ge.s32", p, c, l.wordConstant(0))
	case l.hasModifier("ftz"):
		l.emitLanes(types.Pred, p, func(a, _, _ uint64) uint64 {
			if float.Flushed(uint32(a)) >= 0 {
				return 1
			}
			return 0
		}, []types.Type{types.F32}, c)
	default:
		l.emitOperation("setp.ge.f32", p, c, l.wordConstant(0))
	}
	l.emitOperation(unsignedKey("selp", ts[0]), l.resultRef(ts[0]), l.sourceRef(1, ts[0]), l.sourceRef(2, ts[0]), p)
}
