// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

var integral = map[string]float.Rounding{"rni": float.RN, "rzi": float.RZ, "rmi": float.RM, "rpi": float.RP}

// toIntegral rounds to an integral value.
func toIntegral(f float64, mode float.Rounding) float64 {
	switch mode {
	case float.RZ:
		return math.Trunc(f)
	case float.RM:
		return math.Floor(f)
	case float.RP:
		return math.Ceil(f)
	default:
		return math.RoundToEven(f)
	}
}

// lowerCvt is cvt in all its forms.
func lowerCvt(l *lowerer) {
	l.loose = true
	if l.hasModifier("pack") {
		lowerCvtPack(l)
		return
	}
	ts := typesOf(l.in)
	if len(ts) != 2 {
		l.failSyntax("two types are needed")
	}
	dt, st := ts[0], ts[1]
	if dt == types.E4M3x2 || dt == types.E5M2x2 || dt == types.F16x2 || dt == types.BF16x2 {
		lowerCvtPacked(l, dt, st)
		return
	}
	l.checkArgs(2)
	if dt.Size() == 0 || st == types.E4M3x2 || st == types.E5M2x2 || dt == types.Pred || st == types.Pred {
		l.failSyntax("no such form")
	}
	signs := func(t types.Type) types.Type {
		switch t {
		case types.B8, types.B16, types.B32, types.B64:
			return types.U8 + t - types.B8
		}
		return t
	}
	dt, st = signs(dt), signs(st)
	plain := len(l.in.Mods) == 2 || len(l.in.Mods) == 3 && (l.hasModifier("rn") || l.hasModifier("rzi") || l.hasModifier("rni") || l.hasModifier("rmi"))
	if toInt := len(l.in.Mods) == 3 && !l.hasModifier("rn"); plain && (!dt.IsFloat() || !st.IsFloat() || !toInt) {
		key := "cvt."
		if len(l.in.Mods) == 3 && !l.hasModifier("rn") {
			key += l.in.Mods[0] + "."
		}
		if key += dt.String() + "." + st.String(); alu[key].fn != nil {
			l.emitOperation(key, l.resultRef(dt), l.sourceRef(1, st))
			return
		}
	}
	if dt == types.F32 && st == types.F32 && len(l.in.Mods) == 3 && l.hasModifier("sat") {
		l.emitOperation("cvt.sat.f32.f32", l.resultRef(dt), l.sourceRef(1, st))
		return
	}
	l.emitLanes(dt, l.resultRef(dt), l.conversionOf(dt, st), []types.Type{st}, l.sourceRef(1, st))
}

// conversion are the modifiers of a cvt.
type conversion struct {
	mode                      float.Rounding
	sat, ftz, relu, satfinite bool
	// A result that is to be integral is rounded by toInt.
	isInt bool
	toInt float.Rounding
}

// readConversion reads the modifiers of a cvt.
func readConversion(l *lowerer) conversion {
	c := conversion{
		mode: roundingOf(l.in), sat: l.hasModifier("sat"), ftz: l.hasModifier("ftz"), relu: l.hasModifier("relu"),
		satfinite: l.hasModifier("satfinite"), toInt: float.RN,
	}
	for name, m := range integral {
		if l.hasModifier(name) {
			c.toInt, c.isInt = m, true
		}
	}
	return c
}

// conversionOf returns the conversion of a value.
func (l *lowerer) conversionOf(dt, st types.Type) func(a, b, c uint64) uint64 {
	form := readConversion(l)
	if st.IsFloat() && st != types.F16 && st != types.BF16 && st != types.F32 && st != types.F64 {
		l.failSyntax("no such form")
	}
	switch {
	case !dt.IsFloat() && !st.IsFloat():
		return func(a, _, _ uint64) uint64 { return castInt(a, dt, st, form.sat) }
	case !dt.IsFloat():
		return form.floatToInteger(dt, st)
	case !st.IsFloat():
		return func(a, _, _ uint64) uint64 {
			return float.Encode(dt, clampUnit(intToFloat(a, st, dt, form.mode), form.sat))
		}
	}
	return form.floatToFloat(dt, st)
}

// floatToInteger returns the conversion of a floating-point number to an integer.
func (form conversion) floatToInteger(dt, st types.Type) func(a, b, c uint64) uint64 {
	toInt := form.toInt
	if !form.isInt {
		if toInt = float.RZ; form.mode != float.RN {
			toInt = form.mode
		}
	}
	return func(a, _, _ uint64) uint64 {
		v := float.Decode(st, a)
		if form.ftz && st == types.F32 {
			v = float64(float.Flushed(uint32(a)))
		}
		return floatToInt(toIntegral(v, toInt), dt, st)
	}
}

// floatToFloat returns the conversion of a floating-point number to another type.
func (form conversion) floatToFloat(dt, st types.Type) func(a, b, c uint64) uint64 {
	return func(a, _, _ uint64) uint64 {
		v := float.Decode(st, a)
		if form.ftz && st == types.F32 {
			v = float64(float.Flushed(uint32(a)))
		}
		if st == types.F64 && dt == types.F64 && !form.isInt {
			return a
		}
		if form.isInt {
			v = math.Copysign(toIntegral(v, form.toInt), v)
		}
		if v != v {
			if form.satfinite || dt != types.TF32 {
				if form.sat {
					return 0
				}
			}
			if dt == types.F64 {
				return float.NaN64
			}
			return float.Encode(dt, v)
		}
		v = float.Formats[dt].Round(v, form.mode)
		if form.satfinite && math.IsInf(v, 0) {
			v = math.Copysign(float.Formats[dt].Max, v)
		}
		if form.ftz && dt == types.F32 {
			v = float64(float.Flush32(float32(v)))
		}
		if form.relu && v <= 0 {
			v = 0
		}
		return float.Encode(dt, clampUnit(v, form.sat))
	}
}

// clampUnit is .sat of floating-point results.
func clampUnit(v float64, sat bool) float64 {
	if !sat {
		return v
	}
	if v != v || v <= 0 {
		return 0
	}
	return min(v, 1)
}

// castInt converts between integer types, and clamps if sat.
func castInt(a uint64, dt, st types.Type, sat bool) uint64 {
	drop := 64 - 8*st.Size()
	neg := false
	if st.IsSigned() {
		a = uint64(int64(a<<drop) >> drop)
		neg = int64(a) < 0
	} else {
		a = a << drop >> drop
	}
	if sat {
		bits := 8 * dt.Size()
		switch {
		case dt.IsSigned() && neg:
			a = uint64(max(int64(a), math.MinInt64>>(64-bits)))
		case dt.IsSigned():
			a = min(a, math.MaxInt64>>(64-bits))
		case neg:
			a = 0
		default:
			a = min(a, math.MaxUint64>>(64-bits))
		}
	}
	// Wider registers see the value extended to 32 bits by the type's sign.
	if dt.Size() < 4 {
		s := 64 - 8*dt.Size()
		if dt.IsSigned() {
			return uint64(uint32(int64(a<<s) >> s))
		}
		return a << s >> s
	}
	return a
}

// floatToInt converts an integral value of type st, clamped. A NaN becomes 0, but as an integer of 64 bits, or of f64, the
// highest bit of the integer's type alone.
func floatToInt(v float64, dt, st types.Type) uint64 {
	n := 8 * dt.Size()
	switch {
	case v != v && (st == types.F64 || n == 64):
		return castInt(1<<(n-1), dt, types.U64, false)
	case v != v:
		return 0
	}
	if dt.IsSigned() {
		lo, hi := -math.Ldexp(1, int(n)-1), math.Ldexp(1, int(n)-1)
		switch {
		case v < lo:
			v = lo
		case v >= hi:
			return math.MaxUint64 >> (65 - n)
		}
		return castInt(uint64(int64(v)), dt, types.S64, false)
	}
	switch {
	case v <= 0:
		return 0
	case v >= math.Ldexp(1, int(n)):
		return math.MaxUint64 >> (64 - n)
	}
	return uint64(v)
}

// intToFloat converts with a single rounding; the result is exact in float64.
func intToFloat(a uint64, st, dt types.Type, mode float.Rounding) float64 {
	a = castInt(a, map[bool]types.Type{true: types.S64, false: types.U64}[st.IsSigned()], st, false)
	neg := st.IsSigned() && int64(a) < 0
	if neg {
		a = -a
	}
	if a == 0 {
		return 0
	}
	return float.Formats[dt].RoundParts(neg, a, 0, false, mode)
}

// lowerCvtPacked is for results of two elements: the first source is the upper element.
func lowerCvtPacked(l *lowerer, dt, st types.Type) {
	mode, relu, satfinite := roundingOf(l.in), l.hasModifier("relu"), l.hasModifier("satfinite")
	fp8 := dt == types.E4M3x2 || dt == types.E5M2x2
	if st == types.E4M3x2 || st == types.E5M2x2 {
		l.checkArgs(2)
		if dt != types.F16x2 {
			l.failSyntax("no such form")
		}
		half := func(v uint64) uint64 {
			f := decodeFP8(st, uint8(v))
			if relu && f <= 0 {
				f = 0
			}
			return float.Encode(types.F16, f)
		}
		l.emitLanes(types.B32, l.resultRef(types.B32), func(a, _, _ uint64) uint64 { return half(a) | half(a>>8)<<16 }, []types.Type{types.B16}, l.sourceRef(1, types.B16))
		return
	}
	pack := func(v float64) uint64 {
		if relu && v <= 0 {
			v = 0
		}
		if fp8 {
			return uint64(encodeFP8(dt, v))
		}
		e := elementType(dt)
		if v == v {
			v = float.Formats[e].Round(v, mode)
			if satfinite && math.IsInf(v, 0) {
				v = math.Copysign(float.Formats[e].Max, v)
			}
		}
		return float.Encode(e, v)
	}
	width, rt := 16, types.B32
	if fp8 {
		width, rt = 8, types.B16
	}
	switch st {
	case types.F32:
		l.checkArgs(3)
		l.emitLanes(rt, l.resultRef(rt), func(a, b, _ uint64) uint64 {
			return pack(float.Decode(types.F32, a))<<width | pack(float.Decode(types.F32, b))
		},
			[]types.Type{types.F32, types.F32}, l.sourceRef(1, types.F32), l.sourceRef(2, types.F32))
	case types.F16x2, types.BF16x2:
		l.checkArgs(2)
		e := elementType(st)
		l.emitLanes(rt, l.resultRef(rt), func(a, _, _ uint64) uint64 {
			return pack(float.Decode(e, a>>16))<<width | pack(float.Decode(e, a&0xffff))
		},
			[]types.Type{types.B32}, l.sourceRef(1, types.B32))
	default:
		l.failSyntax("no such form")
	}
}

// encodeFP8 rounds to an fp8 format; a number that is too large becomes the largest finite number.
func encodeFP8(t types.Type, v float64) uint8 {
	f := float.Formats[t]
	mant := f.Prec - 1
	if v != v {
		return 0x7f
	}
	sign := uint8(0)
	if math.Signbit(v) {
		sign = 0x80
	}
	v = math.Abs(f.Round(math.Max(math.Min(v, f.Max), -f.Max), float.RN))
	if v == 0 {
		return sign
	}
	_, e := math.Frexp(v)
	e = max(e-1, f.MinExp)
	q := uint64(math.Ldexp(v, mant-e)) // with the hidden bit, if any
	if q>>mant == 0 {
		return sign | uint8(q)
	}
	return sign | uint8(e-f.MinExp+1)<<mant | uint8(q&(1<<mant-1))
}

// decodeFP8 reads an fp8 number.
func decodeFP8(t types.Type, b uint8) float64 {
	f := float.Formats[t]
	mant := f.Prec - 1
	e, m := int(b&0x7f)>>mant, int(b)&(1<<mant-1)
	var v float64
	switch {
	case t == types.E4M3x2 && b&0x7f == 0x7f, t == types.E5M2x2 && e == 31 && m != 0:
		return math.NaN()
	case t == types.E5M2x2 && e == 31:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(float64(m), f.MinExp-mant)
	default:
		v = math.Ldexp(float64(m+1<<mant), e-1+f.MinExp-mant)
	}
	if b&0x80 != 0 {
		v = -v
	}
	return v
}

// lowerCvtPack is cvt.pack.sat: two or more integers, clamped, into a single register.
func lowerCvtPack(l *lowerer) {
	ts := typesOf(l.in)
	l.checkArgs(3, 4)
	if len(ts) < 2 || ts[1] != types.S32 {
		l.failSyntax("no such form")
	}
	var width uint32
	clamp := func(a uint64, t types.Type) uint64 { return castInt(a, t, types.S32, true) & types.SizeMask(t.Size()) }
	dt := ts[0]
	// The sub-byte types are no types elsewhere.
	if dt == types.U16 || dt == types.S16 {
		width = 16
		l.emitLanes(types.B32, l.resultRef(types.B32), func(a, b, _ uint64) uint64 { return clamp(a, dt)<<width | clamp(b, dt) },
			[]types.Type{types.S32, types.S32}, l.sourceRef(1, types.S32), l.sourceRef(2, types.S32))
		return
	}
	if dt != types.U8 && dt != types.S8 || len(l.in.Args) != 4 {
		l.refuseInstruction("sub-byte packing is not supported")
	}
	l.emitLanes(types.B32, l.resultRef(types.B32), func(a, b, c uint64) uint64 {
		return uint64(uint32(c<<16)) | clamp(a, dt)<<8 | clamp(b, dt)
	}, []types.Type{types.S32, types.S32, types.B32}, l.sourceRef(1, types.S32), l.sourceRef(2, types.S32), l.sourceRef(3, types.B32))
}
