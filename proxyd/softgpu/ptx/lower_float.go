// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// elementType returns the type of an element of a packed type.
func elementType(t types.Type) types.Type {
	switch t {
	case types.F16x2:
		return types.F16
	case types.BF16x2:
		return types.BF16
	}
	return t
}

// roundingOf is the rounding mode that an instruction asks for.
func roundingOf(in *syntax.Instruction) float.Rounding {
	for name, mode := range roundings {
		if in.HasModifier(name) {
			return mode
		}
	}
	return float.RN
}

var roundings = map[string]float.Rounding{"rn": float.RN, "rz": float.RZ, "rm": float.RM, "rp": float.RP, "rna": float.RNA}

// lowerFloat is for add, sub, mul, fma, mad, div, rcp, sqrt, and by other functions min,
// max, abs, neg.
func lowerFloat(l *lowerer) {
	t, name := l.lastType(), l.in.Op
	switch name {
	case "min", "max":
		lowerMinMax(l)
		return
	case "abs", "neg":
		lowerSign(l)
		return
	}
	if l.hasModifier("oob") {
		l.refuseInstruction("out-of-bounds handling is not supported")
	}
	o := &float.Operation{Name: name, Type: elementType(t), Mode: roundingOf(l.in), FTZ: l.hasModifier("ftz") && t != types.F64, Saturate: l.hasModifier("sat"), ReLU: l.hasModifier("relu")}
	if float.Formats[o.Type] == nil || o.Type == types.TF32 {
		l.failSyntax("not for type %s", t)
	}
	n := map[string]int{"fma": 3, "mad": 3, "rcp": 1, "sqrt": 1}[name]
	if n == 0 {
		n = 2
	}
	l.checkArgs(n + 1)
	if name == "mad" {
		o.Name = "fma"
	}
	src := make([]ref, n)
	for i := range src {
		src[i] = l.sourceRef(i+1, t)
	}
	emitFloat(l, o, t, l.resultRef(t), src)
}

// emitFloat emits an operation on numbers of type t, or on packs of numbers.
func emitFloat(l *lowerer, o *float.Operation, t types.Type, d ref, src []ref) {
	key := floatKey(o)
	if _, ok := alu[key]; ok {
		l.emitOperation(key, d, src...)
		return
	}
	f := o.Compute
	if t != o.Type {
		f = onHalves(f)
	}
	l.emitLanes(t, d, f, []types.Type{t, t, t}, src...).key = key
}

func lowerFma(l *lowerer) {
	if l.hasModifier("f32x2") {
		lowerPackedFloat(l)
		return
	}
	lowerFloat(l)
}

// lowerPackedFloat is add, sub, mul and fma of two f32 in a register of 64 bits: two operations on f32.
func lowerPackedFloat(l *lowerer) {
	o := &float.Operation{Name: l.in.Op, Type: types.F32, Mode: roundingOf(l.in), FTZ: l.hasModifier("ftz")}
	if l.hasModifier("sat") || l.hasModifier("relu") {
		l.failSyntax("no such form of f32x2")
	}
	n := 2
	if o.Name == "fma" {
		n = 3
	}
	l.checkArgs(n + 1)
	var halves [2]ref
	sources := make([]ref, n)
	for half := range halves {
		for i := range sources {
			sources[i] = l.newReg(types.Class32)
			whole := l.sourceRef(i+1, types.B64)
			if half == 1 {
				upper := l.newReg(types.Class64)
				l.emitOperation("shr.u64", upper, whole, l.wordConstant(32))
				whole = upper
			}
			l.emitOperation("cvt.u32.u64", sources[i], whole)
		}
		halves[half] = l.newReg(types.Class32)
		emitFloat(l, o, types.F32, halves[half], sources)
	}
	lower, upper := l.newReg(types.Class64), l.newReg(types.Class64)
	l.emitOperation("cvt.u64.u32", lower, halves[0])
	l.emitOperation("cvt.u64.u32", upper, halves[1])
	l.emitOperation("shl.u64", upper, upper, l.wordConstant(32))
	l.emitOperation("or.u64", l.resultRef(types.B64), lower, upper)
}

// floatKey is the key of an operation of f32 or f64. Machine code has no operations of other types, with saturation or
// with .relu: their key is "".
func floatKey(o *float.Operation) string {
	if o.Type != types.F32 && o.Type != types.F64 || o.Saturate || o.ReLU {
		return ""
	}
	key := o.Name
	for name, mode := range roundings {
		if mode == o.Mode && mode != float.RN {
			key += "." + name
		}
	}
	if o.FTZ {
		key += ".ftz"
	}
	return key + "." + o.Type.String()
}

// lowerApprox is for the instructions that exist in approximate forms only.
func lowerApprox(l *lowerer) {
	t, name := l.lastType(), l.in.Op
	l.checkArgs(2)
	ftz := l.hasModifier("ftz")
	if t == types.F32 {
		key := name
		if ftz {
			key += ".ftz"
		}
		l.emitOperation(key+".f32", l.resultRef(t), l.sourceRef(1, t))
		return
	}
	math1 := map[string]func(float64) float64{
		"rsqrt": func(a float64) float64 { return 1 / math.Sqrt(a) }, "sin": math.Sin, "cos": math.Cos,
		"ex2": math.Exp2, "lg2": math.Log2, "tanh": math.Tanh,
	}[name]
	e := elementType(t)
	if float.Formats[e] == nil || e == types.TF32 {
		l.failSyntax("not for type %s", t)
	}
	o := &float.Operation{Type: e, FTZ: ftz && e != types.F64}
	f := func(a, _, _ uint64) uint64 {
		return float.Encode(e, o.Flush(float.Formats[e].Round(math1(o.Flush(float.Decode(e, a))), float.RN)))
	}
	if e != t {
		f = onHalves(f)
	}
	l.emitLanes(t, l.resultRef(t), f, []types.Type{t}, l.sourceRef(1, t))
}

// lowerMinMax is min and max of floating-point types.
func lowerMinMax(l *lowerer) {
	t, isMin := l.lastType(), l.in.Op == "min"
	l.checkArgs(3, 4)
	ftz, nan, xorsign := l.hasModifier("ftz"), l.hasModifier("NaN"), l.hasModifier("xorsign")
	if (t == types.F32 || t == types.F64) && !ftz && !nan && !xorsign && len(l.in.Args) == 3 {
		l.emitOperation(l.in.Op+"."+t.String(), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
		return
	}
	e := elementType(t)
	o := &float.Operation{Type: e, FTZ: ftz}
	one := func(ab, bb uint64) uint64 {
		a, b := o.Flush(float.Decode(e, ab)), o.Flush(float.Decode(e, bb))
		if nan && (a != a || b != b) {
			return float.Encode(e, math.NaN())
		}
		sign := math.Signbit(a) != math.Signbit(b)
		if xorsign {
			a, b = math.Abs(a), math.Abs(b)
		}
		v := maxNum(a, b)
		if isMin {
			v = minNum(a, b)
		}
		if xorsign && sign {
			v = -v
		}
		return float.Encode(e, v)
	}
	f := func(a, b, _ uint64) uint64 { return one(a, b) }
	ts := []types.Type{t, t, t}
	src := []ref{l.sourceRef(1, t), l.sourceRef(2, t)}
	if len(l.in.Args) == 4 {
		f = func(a, b, c uint64) uint64 { return one(one(a, b), c) }
		src = append(src, l.sourceRef(3, t))
	}
	if e != t {
		f = onHalves(f)
	}
	l.emitLanes(t, l.resultRef(t), f, ts, src...)
}

// lowerSign is abs and neg: the sign's bits, and subnormals with .ftz.
func lowerSign(l *lowerer) {
	t, abs := l.lastType(), l.in.Op == "abs"
	l.checkArgs(2)
	if t == types.F64 {
		l.emitOperation(l.in.Op+".f64", l.resultRef(t), l.sourceRef(1, t))
		return
	}
	mask := map[types.Type]uint64{types.F32: 1 << 31, types.F16: 1 << 15, types.BF16: 1 << 15, types.F16x2: 1<<31 | 1<<15, types.BF16x2: 1<<31 | 1<<15}[t]
	if mask == 0 {
		l.failSyntax("not for type %s", t)
	}
	if t == types.F32 && !l.hasModifier("ftz") {
		key, c := "xor.u32", uint32(1<<31)
		if abs {
			key, c = "and.u32", 1<<31-1
		}
		l.emitOperation(key, l.resultRef(t), l.sourceRef(1, t), l.wordConstant(c))
		return
	}
	o := &float.Operation{Type: elementType(t), FTZ: l.hasModifier("ftz")}
	flush := func(a, _, _ uint64) uint64 {
		if v := float.Decode(o.Type, a); o.FTZ && o.Flush(v) == 0 {
			return float.Encode(o.Type, o.Flush(v))
		}
		return a
	}
	if t != o.Type {
		flush = onHalves(flush)
	}
	l.emitLanes(t, l.resultRef(t), func(a, b, c uint64) uint64 {
		a = flush(a, b, c)
		if abs {
			return a &^ mask
		}
		return a ^ mask
	}, []types.Type{t}, l.sourceRef(1, t))
}

func lowerDivRem(l *lowerer) {
	if l.lastType().IsFloat() {
		lowerFloat(l)
		return
	}
	lowerInt2(l)
}

// lowerRootRcp is rcp and sqrt, exact or approximate: both are rounded correctly.
func lowerRootRcp(l *lowerer) { lowerFloat(l) }

// lowerCopysign is for copysign.
func lowerCopysign(l *lowerer) {
	t := l.lastType()
	mask := uint64(1) << (t.Size()*8 - 1)
	l.emitLanes2(t, func(a, b, _ uint64) uint64 { return b&^mask | a&mask })
}

// lowerTestp is for testp: of which kind a number is.
func lowerTestp(l *lowerer) {
	t := l.lastType()
	l.checkArgs(2)
	least := float.Formats[t].Least
	kind := ""
	for _, k := range []string{"finite", "infinite", "number", "notanumber", "normal", "subnormal"} {
		if l.hasModifier(k) {
			kind = k
		}
	}
	test := map[string]func(v float64) bool{
		"finite":     func(v float64) bool { return v == v && !math.IsInf(v, 0) },
		"infinite":   func(v float64) bool { return math.IsInf(v, 0) },
		"number":     func(v float64) bool { return v == v },
		"notanumber": func(v float64) bool { return v != v },
		"normal":     func(v float64) bool { return v == v && !math.IsInf(v, 0) && math.Abs(v) >= least },
		"subnormal":  func(v float64) bool { return v != 0 && math.Abs(v) < least },
	}[kind]
	if test == nil {
		l.failSyntax("what to test for is missing")
	}
	l.emitLanes(types.Pred, l.resultRef(types.Pred), func(a, _, _ uint64) uint64 {
		if test(float.Decode(t, a)) {
			return 1
		}
		return 0
	}, []types.Type{t}, l.sourceRef(1, t))
}
