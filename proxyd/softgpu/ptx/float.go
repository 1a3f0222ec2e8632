// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"
	"math/big"
	"math/bits"
)

// rounding is a rounding mode.
type rounding uint8

const (
	rn  rounding = iota // to nearest, ties to even
	rz                  // towards zero
	rm                  // towards minus infinity
	rp                  // towards plus infinity
	rna                 // to nearest, ties away from zero
)

// format is a binary floating-point format.
type format struct {
	prec  int     // bits of the significand, with the hidden bit
	emin  int     // exponent of the smallest normal number
	max   float64 // largest finite number
	least float64 // smallest positive normal number
	inf   bool    // has infinities
}

var formats = [Pred + 1]*format{
	F16:    {prec: 11, emin: -14, least: 0x1p-14, max: 65504, inf: true},
	BF16:   {prec: 8, emin: -126, least: 0x1p-126, max: 0x1.fep127, inf: true},
	TF32:   {prec: 11, emin: -126, least: 0x1p-126, max: 0x1.ffcp127, inf: true},
	F32:    {prec: 24, emin: -126, least: 0x1p-126, max: math.MaxFloat32, inf: true},
	F64:    {prec: 53, emin: -1022, least: 0x1p-1022, max: math.MaxFloat64, inf: true},
	E4M3x2: {prec: 4, emin: -6, least: 0x1p-6, max: 448},
	E5M2x2: {prec: 3, emin: -14, least: 0x1p-14, max: 57344, inf: true},
}

// nan32 is the NaN that every f32 operation gives.
var nan32 = math.Float32frombits(0x7fffffff)

const nan64 = 0x7ff8000000000000 // and f64

func f32from(b uint64) float32 { return math.Float32frombits(uint32(b)) }
func f64from(b uint64) float64 { return math.Float64frombits(b) }
func f32bits(f float32) uint64 { return uint64(math.Float32bits(f)) }

// roundParts rounds the number ±(mant + a sticky bit)·2^exp, mant not 0, to format f. The
// result is exact in float64.
func (f *format) roundParts(neg bool, mant uint64, exp int, sticky bool, mode rounding) float64 {
	// Bring mant to 64 bits, then cut.
	lz := bits.LeadingZeros64(mant)
	mant <<= lz
	exp -= lz
	drop := 64 - f.prec
	if top := exp + 63; top < f.emin {
		drop += f.emin - top
	}
	var q, rest, half uint64
	switch {
	case drop < 64:
		q, rest, half = mant>>drop, mant<<(64-drop), 1<<63
	case drop == 64:
		rest, half = mant, 1<<63
	default:
		// Less than half of the last place.
		rest, half, sticky = 1, 1<<63, true
	}
	up := false
	switch mode {
	case rn:
		up = rest > half || rest == half && (sticky || q&1 != 0)
	case rna:
		up = rest >= half
	case rm:
		up = neg && (rest != 0 || sticky)
	case rp:
		up = !neg && (rest != 0 || sticky)
	}
	if up {
		q++
	}
	v := math.Ldexp(float64(q), exp+drop)
	if v > f.max {
		if mode == rz || mode == rm && !neg || mode == rp && neg {
			v = f.max
		} else {
			v = math.Inf(1)
		}
	}
	if neg {
		v = -v
	}
	return v
}

// roundTo rounds v. v stands for itself or, if odd, for a number whose rounding to odd is v.
func (f *format) roundTo(v float64, mode rounding) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	m, e := math.Frexp(math.Abs(v))
	return f.roundParts(v < 0, uint64(math.Ldexp(m, 53)), e-53, false, mode)
}

// round32 is formats[F32].round, quickly: of v, not NaN, that is exact or rounded to odd.
func round32(v float64, mode rounding) float32 {
	f := float32(v)
	switch w := float64(f); {
	case mode == rn || w == v:
	case mode == rna:
		return float32(formats[F32].roundTo(v, mode))
	case w > v && (mode == rm || mode == rz && v > 0):
		return math.Nextafter32(f, float32(math.Inf(-1)))
	case w < v && (mode == rp || mode == rz && v < 0):
		return math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// roundBig rounds an exact or sufficiently precise number to float64.
func roundBig(x *big.Float, mode rounding) float64 {
	if x.IsInf() || x.Sign() == 0 {
		v, _ := x.Float64()
		return v
	}
	var mant big.Float
	e := x.MantExp(&mant)
	mant.Abs(&mant)
	mant.SetMantExp(&mant, 64)
	u, acc := mant.Uint64()
	return formats[F64].roundParts(x.Sign() < 0, u, e-64, acc != big.Exact, mode)
}

// toOdd corrects s, the rounded value of a sum whose error is err, to the rounding to
// odd. A second rounding to a format of at most 51 bits is then the only rounding.
func toOdd(s, err float64) float64 {
	u := math.Float64bits(s)
	if err == 0 || u&1 != 0 || math.IsInf(s, 0) {
		return s
	}
	if (err > 0) == (s > 0) {
		return math.Float64frombits(u | 1)
	}
	return math.Float64frombits(u - 1)
}

// addOdd is a+b rounded to odd.
func addOdd(a, b float64) float64 {
	s := a + b
	bb := s - a
	return toOdd(s, (a-(s-bb))+(b-bb))
}

// divOdd is a/b rounded to odd, for operands far from float64's limits.
func divOdd(a, b float64) float64 {
	q := a / b
	if q == 0 || math.IsInf(q, 0) || math.IsNaN(q) {
		return q
	}
	r := math.FMA(-q, b, a)
	if b < 0 {
		r = -r
	}
	return toOdd(q, r)
}

// sqrtOdd is √a rounded to odd.
func sqrtOdd(a float64) float64 {
	q := math.Sqrt(a)
	if q == 0 || math.IsInf(q, 0) || math.IsNaN(q) {
		return q
	}
	return toOdd(q, math.FMA(-q, q, a))
}

// fma32 is the fused multiply-add of float32, the hard cases included.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	switch {
	case s != s:
		return nan32
	case s == 0 || math.IsInf(s, 0):
		return float32(s)
	}
	return float32(addOdd(p, float64(c)))
}

// directed64 computes an f64 operation with a rounding other than to nearest.
func directed64(op string, a, b, c float64, mode rounding) float64 {
	var near float64
	switch op {
	case "add":
		near = a + b
	case "sub":
		near = a - b
	case "mul":
		near = a * b
	case "div", "rcp":
		near = a / b
	case "sqrt":
		near = math.Sqrt(a)
	default:
		near = math.FMA(a, b, c)
	}
	finite := func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
	if !finite(a) || !finite(b) || !finite(c) || math.IsNaN(near) || (op == "div" || op == "rcp") && b == 0 {
		return near
	}
	exact := func(f float64) *big.Float { return new(big.Float).SetPrec(4400).SetFloat64(f) }
	x, y := exact(a), exact(b)
	switch op {
	case "add":
		x.Add(x, y)
	case "sub":
		x.Sub(x, y)
	case "mul":
		x.Mul(x, y)
	case "div", "rcp":
		x.SetPrec(256).SetMode(big.ToZero).Quo(x, y)
	case "sqrt":
		x.SetPrec(256).Sqrt(x)
	default:
		x.Mul(x, y).Add(x, exact(c))
	}
	if x.Sign() == 0 {
		// An exact zero of a sum is -0 when rounding down, unless both terms were +0.
		if mode == rm && (op == "add" || op == "sub" || op == "fma") && !(near == 0 && !math.Signbit(near) && zeroTerms(op, a, b, c)) {
			return math.Copysign(0, -1)
		}
		return near
	}
	return roundBig(x, mode)
}

// zeroTerms reports whether both terms of a sum are +0, so that the sum is in any mode.
func zeroTerms(op string, a, b, c float64) bool {
	pos := func(f float64) bool { return f == 0 && !math.Signbit(f) }
	switch op {
	case "add":
		return pos(a) && pos(b)
	case "sub":
		return pos(a) && pos(-b)
	default:
		return pos(a*b) && pos(c)
	}
}

// floatBits encodes f, rounded to nearest, as type t.
func floatBits(t Type, f float64) uint64 {
	switch t {
	case F64, B64:
		return math.Float64bits(f)
	case F16:
		return uint64(encode16(formats[F16].roundTo(f, rn)))
	case BF16:
		return uint64(encodeBF16(formats[BF16].roundTo(f, rn)))
	default:
		return f32bits(float32(f))
	}
}

// encode16 encodes a number that f16 represents exactly.
func encode16(f float64) uint16 {
	u := math.Float64bits(f)
	sign := uint16(u >> 48 & 0x8000)
	switch {
	case f != f:
		return 0x7fff
	case math.IsInf(f, 0):
		return sign | 0x7c00
	case f == 0:
		return sign
	}
	e := int(u>>52&0x7ff) - 1023
	m := u&(1<<52-1) | 1<<52
	if e < -14 {
		return sign | uint16(m>>(42+(-14-e)))
	}
	return sign | uint16((e+14)<<10) + uint16(m>>42)
}

func encodeBF16(f float64) uint16 {
	if f != f {
		return 0x7fff
	}
	return uint16(math.Float32bits(float32(f)) >> 16)
}

// f16to32 decodes an f16.
func f16to32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	e, m := uint32(h>>10&31), uint32(h&0x3ff)
	switch {
	case e == 31 && m != 0:
		return nan32
	case e == 31:
		return math.Float32frombits(sign | 0x7f800000)
	case e == 0 && m == 0:
		return math.Float32frombits(sign)
	case e == 0:
		f := float32(m) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	}
	return math.Float32frombits(sign | (e+112)<<23 | m<<13)
}

// f16from32 rounds to nearest.
func f16from32(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u >> 16 & 0x8000)
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		return 0x7fff
	case u >= 0x477ff000: // half way from the largest f16 to the next
		return sign | 0x7c00
	case u >= 0x38800000: // normal
		u += 0xfff + u>>13&1
		return sign | uint16((u-0x38000000)>>13)
	case u < 0x33000000: // less than half of the smallest
		return sign
	}
	shift := 126 - u>>23
	m := u&0x7fffff | 0x800000
	q, rest, half := m>>shift, m&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > half || rest == half && q&1 != 0 {
		q++
	}
	return sign | uint16(q)
}

func bf16to32(h uint16) float32 {
	f := math.Float32frombits(uint32(h) << 16)
	if f != f {
		return nan32
	}
	return f
}

// bf16from32 rounds to nearest.
func bf16from32(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return 0x7fff
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// flushed decodes an f32; a subnormal number is a zero of its sign.
func flushed(u uint32) float32 {
	if u&0x7f800000 == 0 {
		u &= 0x80000000
	}
	return math.Float32frombits(u)
}

// flush32 makes a subnormal result a zero of its sign.
func flush32(f float32) float32 {
	if u := math.Float32bits(f); u&0x7f800000 == 0 {
		return math.Float32frombits(u & 0x80000000)
	}
	return f
}
