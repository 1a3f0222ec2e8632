// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"
)

var integral = map[string]rounding{"rni": rn, "rzi": rz, "rmi": rm, "rpi": rp}

// toIntegral rounds to an integral value.
func toIntegral(f float64, mode rounding) float64 {
	switch mode {
	case rz:
		return math.Trunc(f)
	case rm:
		return math.Floor(f)
	case rp:
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
	ts := l.typeList()
	if len(ts) != 2 {
		l.failSyntax("two types are needed")
	}
	dt, st := ts[0], ts[1]
	if dt == E4M3x2 || dt == E5M2x2 || dt == F16x2 || dt == BF16x2 {
		lowerCvtPacked(l, dt, st)
		return
	}
	l.checkArgs(2)
	if dt.Size() == 0 || st == E4M3x2 || st == E5M2x2 || dt == Pred || st == Pred {
		l.failSyntax("no such form")
	}
	signs := func(t Type) Type {
		switch t {
		case B8, B16, B32, B64:
			return U8 + t - B8
		}
		return t
	}
	dt, st = signs(dt), signs(st)
	plain := len(l.in.mods) == 2 || len(l.in.mods) == 3 && (l.hasModifier("rn") || l.hasModifier("rzi") || l.hasModifier("rni") || l.hasModifier("rmi"))
	if toInt := len(l.in.mods) == 3 && !l.hasModifier("rn"); plain && (!dt.isFloat() || !st.isFloat() || !toInt) {
		key := "cvt."
		if len(l.in.mods) == 3 && !l.hasModifier("rn") {
			key += l.in.mods[0] + "."
		}
		if op, ok := alu[key+dt.String()+"."+st.String()]; ok {
			l.emit(op.fn, op.shape, l.resultRef(dt), 0, l.sourceRef(1, st), 0, 0)
			return
		}
	}
	if dt == F32 && st == F32 && len(l.in.mods) == 3 && l.hasModifier("sat") {
		l.alu("cvt.sat.f32.f32", l.resultRef(dt), l.sourceRef(1, st))
		return
	}
	l.emitLanes(dt, l.resultRef(dt), l.conversionOf(dt, st), []Type{st}, l.sourceRef(1, st))
}

// conversionOf returns the conversion of a value.
func (l *lowerer) conversionOf(dt, st Type) func(a, b, c uint64) uint64 {
	mode, sat, ftz, relu := l.rounding(), l.hasModifier("sat"), l.hasModifier("ftz"), l.hasModifier("relu")
	toInt, isInt := rn, false
	for name, m := range integral {
		if l.hasModifier(name) {
			toInt, isInt = m, true
		}
	}
	if st.isFloat() && st != F16 && st != BF16 && st != F32 && st != F64 {
		l.failSyntax("no such form")
	}
	switch {
	case !dt.isFloat() && !st.isFloat():
		return func(a, _, _ uint64) uint64 { return castInt(a, dt, st, sat) }
	case !dt.isFloat():
		if !isInt {
			if mode, toInt = l.rounding(), rz; mode != rn {
				toInt = mode
			}
		}
		return func(a, _, _ uint64) uint64 {
			v := decode(st, a)
			if ftz && st == F32 {
				v = float64(flushed(uint32(a)))
			}
			return floatToInt(toIntegral(v, toInt), dt)
		}
	case !st.isFloat():
		return func(a, _, _ uint64) uint64 {
			return encode(dt, clampUnit(intToFloat(a, st, dt, mode), sat))
		}
	}
	satfinite := l.hasModifier("satfinite")
	return func(a, _, _ uint64) uint64 {
		v := decode(st, a)
		if ftz && st == F32 {
			v = float64(flushed(uint32(a)))
		}
		if st == F64 && dt == F64 && !isInt {
			return a
		}
		if isInt {
			v = math.Copysign(toIntegral(v, toInt), v)
		}
		if v != v {
			if satfinite || dt != TF32 {
				if sat {
					return 0
				}
			}
			if dt == F64 {
				return nan64
			}
			return encode(dt, v)
		}
		v = formats[dt].roundTo(v, mode)
		if satfinite && math.IsInf(v, 0) {
			v = math.Copysign(formats[dt].max, v)
		}
		if ftz && dt == F32 {
			v = float64(flush32(float32(v)))
		}
		if relu && v <= 0 {
			v = 0
		}
		return encode(dt, clampUnit(v, sat))
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
func castInt(a uint64, dt, st Type, sat bool) uint64 {
	drop := 64 - 8*st.Size()
	neg := false
	if st.isSigned() {
		a = uint64(int64(a<<drop) >> drop)
		neg = int64(a) < 0
	} else {
		a = a << drop >> drop
	}
	if sat {
		bits := 8 * dt.Size()
		switch {
		case dt.isSigned() && neg:
			a = uint64(max(int64(a), math.MinInt64>>(64-bits)))
		case dt.isSigned():
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
		if dt.isSigned() {
			return uint64(uint32(int64(a<<s) >> s))
		}
		return a << s >> s
	}
	return a
}

// floatToInt converts an integral value, clamped; NaN becomes 0.
func floatToInt(v float64, dt Type) uint64 {
	if v != v {
		return 0
	}
	n := 8 * dt.Size()
	if dt.isSigned() {
		lo, hi := -math.Ldexp(1, int(n)-1), math.Ldexp(1, int(n)-1)
		switch {
		case v < lo:
			v = lo
		case v >= hi:
			return math.MaxUint64 >> (65 - n)
		}
		return castInt(uint64(int64(v)), dt, S64, false)
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
func intToFloat(a uint64, st, dt Type, mode rounding) float64 {
	a = castInt(a, map[bool]Type{true: S64, false: U64}[st.isSigned()], st, false)
	neg := st.isSigned() && int64(a) < 0
	if neg {
		a = -a
	}
	if a == 0 {
		return 0
	}
	return formats[dt].roundParts(neg, a, 0, false, mode)
}

// lowerCvtPacked is for results of two elements: the first source is the upper element.
func lowerCvtPacked(l *lowerer, dt, st Type) {
	mode, relu, satfinite := l.rounding(), l.hasModifier("relu"), l.hasModifier("satfinite")
	fp8 := dt == E4M3x2 || dt == E5M2x2
	if st == E4M3x2 || st == E5M2x2 {
		l.checkArgs(2)
		if dt != F16x2 {
			l.failSyntax("no such form")
		}
		half := func(v uint64) uint64 {
			f := decode8(st, uint8(v))
			if relu && f <= 0 {
				f = 0
			}
			return encode(F16, f)
		}
		l.emitLanes(B32, l.resultRef(B32), func(a, _, _ uint64) uint64 { return half(a) | half(a>>8)<<16 }, []Type{B16}, l.sourceRef(1, B16))
		return
	}
	pack := func(v float64) uint64 {
		if relu && v <= 0 {
			v = 0
		}
		if fp8 {
			return uint64(encode8(dt, v))
		}
		e := scalar(dt)
		if v == v {
			v = formats[e].roundTo(v, mode)
			if satfinite && math.IsInf(v, 0) {
				v = math.Copysign(formats[e].max, v)
			}
		}
		return encode(e, v)
	}
	width, rt := 16, B32
	if fp8 {
		width, rt = 8, B16
	}
	switch st {
	case F32:
		l.checkArgs(3)
		l.emitLanes(rt, l.resultRef(rt), func(a, b, _ uint64) uint64 { return pack(decode(F32, a))<<width | pack(decode(F32, b)) },
			[]Type{F32, F32}, l.sourceRef(1, F32), l.sourceRef(2, F32))
	case F16x2, BF16x2:
		l.checkArgs(2)
		e := scalar(st)
		l.emitLanes(rt, l.resultRef(rt), func(a, _, _ uint64) uint64 { return pack(decode(e, a>>16))<<width | pack(decode(e, a&0xffff)) },
			[]Type{B32}, l.sourceRef(1, B32))
	default:
		l.failSyntax("no such form")
	}
}

// encode8 rounds to an fp8 format; what is too large becomes the largest finite number.
func encode8(t Type, v float64) uint8 {
	f := formats[t]
	mant := f.prec - 1
	if v != v {
		return 0x7f
	}
	sign := uint8(0)
	if math.Signbit(v) {
		sign = 0x80
	}
	v = math.Abs(f.roundTo(math.Max(math.Min(v, f.max), -f.max), rn))
	if v == 0 {
		return sign
	}
	_, e := math.Frexp(v)
	e = max(e-1, f.emin)
	q := uint64(math.Ldexp(v, mant-e)) // with the hidden bit, if any
	if q>>mant == 0 {
		return sign | uint8(q)
	}
	return sign | uint8(e-f.emin+1)<<mant | uint8(q&(1<<mant-1))
}

// decode8 reads an fp8 number.
func decode8(t Type, b uint8) float64 {
	f := formats[t]
	mant := f.prec - 1
	e, m := int(b&0x7f)>>mant, int(b)&(1<<mant-1)
	var v float64
	switch {
	case t == E4M3x2 && b&0x7f == 0x7f, t == E5M2x2 && e == 31 && m != 0:
		return math.NaN()
	case t == E5M2x2 && e == 31:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(float64(m), f.emin-mant)
	default:
		v = math.Ldexp(float64(m+1<<mant), e-1+f.emin-mant)
	}
	if b&0x80 != 0 {
		v = -v
	}
	return v
}

// lowerCvtPack is cvt.pack.sat: two or more integers, clamped, into a single register.
func lowerCvtPack(l *lowerer) {
	ts := l.typeList()
	l.checkArgs(3, 4)
	if len(ts) < 2 || ts[1] != S32 {
		l.failSyntax("no such form")
	}
	var width uint32
	clamp := func(a uint64, t Type) uint64 { return castInt(a, t, S32, true) & sizeMask(t.Size()) }
	dt := ts[0]
	// The sub-byte types are no types elsewhere.
	if dt == U16 || dt == S16 {
		width = 16
		l.emitLanes(B32, l.resultRef(B32), func(a, b, _ uint64) uint64 { return clamp(a, dt)<<width | clamp(b, dt) },
			[]Type{S32, S32}, l.sourceRef(1, S32), l.sourceRef(2, S32))
		return
	}
	if dt != U8 && dt != S8 || len(l.in.args) != 4 {
		l.refuseInstruction("sub-byte packing is not supported")
	}
	l.emitLanes(B32, l.resultRef(B32), func(a, b, c uint64) uint64 {
		return uint64(uint32(c<<16)) | clamp(a, dt)<<8 | clamp(b, dt)
	}, []Type{S32, S32, B32}, l.sourceRef(1, S32), l.sourceRef(2, S32), l.sourceRef(3, B32))
}
