// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"
)

// scalar is the type of an element of a packed type.
func scalar(t Type) Type {
	switch t {
	case F16x2:
		return F16
	case BF16x2:
		return BF16
	}
	return t
}

// decode reads a floating-point value, exactly.
func decode(t Type, v uint64) float64 {
	switch t {
	case F16:
		return float64(f16to32(uint16(v)))
	case BF16:
		return float64(bf16to32(uint16(v)))
	case F64:
		return f64from(v)
	default:
		return float64(f32from(v))
	}
}

// encode writes a value that t represents exactly, or a NaN, which becomes t's.
func encode(t Type, v float64) uint64 {
	switch t {
	case F16:
		return uint64(encode16(v))
	case BF16:
		return uint64(encodeBF16(v))
	case F64:
		return math.Float64bits(v)
	default:
		if v != v {
			return 0x7fffffff
		}
		return f32bits(float32(v))
	}
}

func (l *lowerer) rounding() rounding {
	for name, mode := range roundings {
		if l.hasModifier(name) {
			return mode
		}
	}
	return rn
}

var roundings = map[string]rounding{"rn": rn, "rz": rz, "rm": rm, "rp": rp, "rna": rna}

// floatOp is a floating-point instruction with all its modifiers.
type floatOp struct {
	op   string
	t    Type // of an element
	mode rounding
	ftz  bool
	sat  bool
	relu bool
}

// flush makes a subnormal number zero. Only f32 and f16 flush to zero.
func (o *floatOp) flush(v float64) float64 {
	if o.ftz && math.Abs(v) < formats[o.t].least {
		return math.Copysign(0, v)
	}
	return v
}

// compute is the operation on elements of o.t.
func (o *floatOp) compute(ab, bb, cb uint64) uint64 {
	t := o.t
	a, b, c := o.flush(decode(t, ab)), o.flush(decode(t, bb)), o.flush(decode(t, cb))
	var v float64
	switch t {
	case F64:
		v = o.exact64(a, b, c)
	case F32:
		v = o.flush(float64(round32(o.roundedToOdd(a, b, c), o.mode)))
		if v == 0 && o.mode == rm {
			v = o.zeroSign(v, a, b, c)
		}
	default:
		v = o.flush(formats[t].roundTo(o.roundedToOdd(a, b, c), o.mode))
		if v == 0 && o.mode == rm {
			v = o.zeroSign(v, a, b, c)
		}
	}
	if o.sat {
		switch {
		case v != v:
			v = 0
		default:
			v = min(max(v, 0), 1)
		}
		if v == 0 {
			v = 0
		}
	}
	if o.relu && v <= 0 {
		v = 0
	}
	return encode(t, v)
}

// fmaDown32 is fma.rm.f32.
func fmaDown32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	if s := p + float64(c); s == 0 || s-s != 0 {
		o := floatOp{op: "fma", t: F32, mode: rm}
		return f32from(o.compute(f32bits(a), f32bits(b), f32bits(c)))
	}
	return round32(addOdd(p, float64(c)), rm)
}

// roundedToOdd computes the operation in float64, rounded to odd, or exactly.
func (o *floatOp) roundedToOdd(a, b, c float64) float64 {
	switch o.op {
	case "add":
		return addOdd(a, b)
	case "sub":
		return addOdd(a, -b)
	case "mul":
		return a * b
	case "div":
		return divOdd(a, b)
	case "rcp":
		return divOdd(1, a)
	case "sqrt":
		return sqrtOdd(a)
	default:
		p := a * b
		if math.IsInf(p, 0) || math.IsInf(c, 0) || p != p || c != c {
			return p + c
		}
		return addOdd(p, c)
	}
}

// zeroSign corrects the sign of an exact zero of a sum when rounding down.
func (o *floatOp) zeroSign(v, a, b, c float64) float64 {
	switch o.op {
	case "add", "sub":
	case "fma", "mad":
	default:
		return v
	}
	op := o.op
	if op == "mad" {
		op = "fma"
	}
	if o.roundedToOdd(a, b, c) == 0 && !zeroTerms(op, a, b, c) {
		return math.Copysign(0, -1)
	}
	return v
}

func (o *floatOp) exact64(a, b, c float64) float64 {
	if o.op == "rcp" {
		a, b = 1, a
	}
	if o.mode != rn {
		op := o.op
		if op == "mad" {
			op = "fma"
		}
		return directed64(op, a, b, c, o.mode)
	}
	switch o.op {
	case "add":
		return a + b
	case "sub":
		return a - b
	case "mul":
		return a * b
	case "div", "rcp":
		return a / b
	case "sqrt":
		return math.Sqrt(a)
	default:
		return math.FMA(a, b, c)
	}
}

// lowerFloat is for add, sub, mul, fma, mad, div, rcp, sqrt, and by other functions min,
// max, abs, neg.
func lowerFloat(l *lowerer) {
	t, name := l.lastType(), l.in.op
	switch name {
	case "min", "max":
		lowerMinMax(l)
		return
	case "abs", "neg":
		lowerSign(l)
		return
	}
	if l.hasModifier("oob") {
		l.refuseInstruction("out-of-bounds handling is not for targets up to sm_80")
	}
	o := &floatOp{op: name, t: scalar(t), mode: l.rounding(), ftz: l.hasModifier("ftz"), sat: l.hasModifier("sat"), relu: l.hasModifier("relu")}
	if formats[o.t] == nil || o.t == TF32 {
		l.failSyntax("not for type %s", t)
	}
	n := map[string]int{"fma": 3, "mad": 3, "rcp": 1, "sqrt": 1}[name]
	if n == 0 {
		n = 2
	}
	l.checkArgs(n + 1)
	if name == "mad" {
		o.op = "fma"
	}
	src := make([]ref, n)
	for i := range src {
		src[i] = l.sourceRef(i+1, t)
	}
	if (t == F32 || t == F64) && o.mode == rn && !o.sat {
		key := o.op
		if o.ftz && t == F32 {
			key += ".ftz"
		}
		l.alu(key+"."+t.String(), l.resultRef(t), src...)
		return
	}
	if t == F32 && o.op == "fma" && o.mode == rm && !o.sat && !o.ftz {
		// exp, in the compilers' expansion.
		l.alu("fma.rm.f32", l.resultRef(t), src...)
		return
	}
	f := o.compute
	if t != o.t {
		f = onHalves(f)
	}
	l.emitLanes(t, l.resultRef(t), f, []Type{t, t, t}, src...)
}

// lowerApprox is for what exists in approximate forms only.
func lowerApprox(l *lowerer) {
	t, name := l.lastType(), l.in.op
	l.checkArgs(2)
	ftz := l.hasModifier("ftz")
	if t == F32 {
		key := name
		if ftz {
			key += ".ftz"
		}
		l.alu(key+".f32", l.resultRef(t), l.sourceRef(1, t))
		return
	}
	math1 := map[string]func(float64) float64{
		"rsqrt": func(a float64) float64 { return 1 / math.Sqrt(a) }, "sin": math.Sin, "cos": math.Cos,
		"ex2": math.Exp2, "lg2": math.Log2, "tanh": math.Tanh,
	}[name]
	e := scalar(t)
	if formats[e] == nil || e == TF32 {
		l.failSyntax("not for type %s", t)
	}
	o := &floatOp{t: e, ftz: ftz && e != F64}
	f := func(a, _, _ uint64) uint64 {
		return encode(e, o.flush(formats[e].roundTo(math1(o.flush(decode(e, a))), rn)))
	}
	if e != t {
		f = onHalves(f)
	}
	l.emitLanes(t, l.resultRef(t), f, []Type{t}, l.sourceRef(1, t))
}

// lowerMinMax is min and max of floating-point types.
func lowerMinMax(l *lowerer) {
	t, isMin := l.lastType(), l.in.op == "min"
	l.checkArgs(3, 4)
	ftz, nan, xorsign := l.hasModifier("ftz"), l.hasModifier("NaN"), l.hasModifier("xorsign")
	if (t == F32 || t == F64) && !ftz && !nan && !xorsign && len(l.in.args) == 3 {
		l.alu(l.in.op+"."+t.String(), l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, t))
		return
	}
	e := scalar(t)
	o := &floatOp{t: e, ftz: ftz}
	one := func(ab, bb uint64) uint64 {
		a, b := o.flush(decode(e, ab)), o.flush(decode(e, bb))
		if nan && (a != a || b != b) {
			return encode(e, math.NaN())
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
		return encode(e, v)
	}
	f := func(a, b, _ uint64) uint64 { return one(a, b) }
	ts := []Type{t, t, t}
	src := []ref{l.sourceRef(1, t), l.sourceRef(2, t)}
	if len(l.in.args) == 4 {
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
	t, abs := l.lastType(), l.in.op == "abs"
	l.checkArgs(2)
	if t == F64 {
		l.alu(l.in.op+".f64", l.resultRef(t), l.sourceRef(1, t))
		return
	}
	mask := map[Type]uint64{F32: 1 << 31, F16: 1 << 15, BF16: 1 << 15, F16x2: 1<<31 | 1<<15, BF16x2: 1<<31 | 1<<15}[t]
	if mask == 0 {
		l.failSyntax("not for type %s", t)
	}
	if t == F32 && !l.hasModifier("ftz") {
		key, c := "xor.u32", uint32(1<<31)
		if abs {
			key, c = "and.u32", 1<<31-1
		}
		l.alu(key, l.resultRef(t), l.sourceRef(1, t), l.const32(c))
		return
	}
	o := &floatOp{t: scalar(t), ftz: l.hasModifier("ftz")}
	flush := func(a, _, _ uint64) uint64 {
		if v := decode(o.t, a); o.ftz && o.flush(v) == 0 {
			return encode(o.t, o.flush(v))
		}
		return a
	}
	if t != o.t {
		flush = onHalves(flush)
	}
	l.emitLanes(t, l.resultRef(t), func(a, b, c uint64) uint64 {
		a = flush(a, b, c)
		if abs {
			return a &^ mask
		}
		return a ^ mask
	}, []Type{t}, l.sourceRef(1, t))
}

func lowerDivRem(l *lowerer) {
	if l.lastType().isFloat() {
		lowerFloat(l)
		return
	}
	lowerInt2(l)
}

// lowerRootRcp is rcp and sqrt, exact or approximate: both are rounded correctly.
func lowerRootRcp(l *lowerer) { lowerFloat(l) }
