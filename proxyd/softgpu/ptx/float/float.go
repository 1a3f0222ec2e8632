// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package float is the floating-point arithmetic of PTX: every operation with a rounding mode is
// exact, then rounded once. Values of all formats are computed as float64, in which they are exact.
package float

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Rounding is a rounding mode.
type Rounding uint8

// The rounding modes, by their names in PTX.
const (
	RN  Rounding = iota // to nearest, ties to even
	RZ                  // towards zero
	RM                  // towards minus infinity
	RP                  // towards plus infinity
	RNA                 // to nearest, ties away from zero
)

// Format is a binary floating-point format.
type Format struct {
	Prec   int     // bits of the significand, with the hidden bit
	MinExp int     // exponent of the smallest normal number
	Max    float64 // largest finite number
	Least  float64 // smallest positive normal number
	inf    bool    // has infinities
}

// Formats has the format of each type that has one; of a packed type, the format of its elements.
var Formats = [types.Pred + 1]*Format{
	types.F16:    {Prec: 11, MinExp: -14, Least: 0x1p-14, Max: 65504, inf: true},
	types.BF16:   {Prec: 8, MinExp: -126, Least: 0x1p-126, Max: 0x1.fep127, inf: true},
	types.TF32:   {Prec: 11, MinExp: -126, Least: 0x1p-126, Max: 0x1.ffcp127, inf: true},
	types.F32:    {Prec: 24, MinExp: -126, Least: 0x1p-126, Max: math.MaxFloat32, inf: true},
	types.F64:    {Prec: 53, MinExp: -1022, Least: 0x1p-1022, Max: math.MaxFloat64, inf: true},
	types.E4M3x2: {Prec: 4, MinExp: -6, Least: 0x1p-6, Max: 448},
	types.E5M2x2: {Prec: 3, MinExp: -14, Least: 0x1p-14, Max: 57344, inf: true},
}

// NaN32 is the NaN that every f32 operation gives.
var NaN32 = math.Float32frombits(0x7fffffff)

// FirstNaN returns the result of an f64 operation with two operands, of which the first that is a NaN is the result, as the
// processor has it.
func FirstNaN(result, a, b float64) float64 {
	switch {
	case !math.IsNaN(result):
		return result
	case math.IsNaN(a):
		return quietNaN(a)
	case math.IsNaN(b):
		return quietNaN(b)
	}
	return result
}

func quietNaN(v float64) float64 { return math.Float64frombits(math.Float64bits(v) | 1<<51) }

// NaN64 has the bits of the NaN that f64 operations give.
const NaN64 = 0x7ff8000000000000

// From32 is the f32 with the given bits.
func From32(b uint64) float32 { return math.Float32frombits(uint32(b)) }

// From64 is the f64 with the given bits.
func From64(b uint64) float64 { return math.Float64frombits(b) }

// Bits32 are the bits of an f32.
func Bits32(f float32) uint64 { return uint64(math.Float32bits(f)) }

// RoundParts rounds the number ±(mant + a sticky bit)·2^exp, mant not 0, to format f. The
// result is exact in float64.
func (f *Format) RoundParts(neg bool, mant uint64, exp int, sticky bool, mode Rounding) float64 {
	// Bring mant to 64 bits, then cut.
	lz := bits.LeadingZeros64(mant)
	mant <<= lz
	exp -= lz
	drop := 64 - f.Prec
	if top := exp + 63; top < f.MinExp {
		drop += f.MinExp - top
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
	case RN:
		up = rest > half || rest == half && (sticky || q&1 != 0)
	case RNA:
		up = rest >= half
	case RM:
		up = neg && (rest != 0 || sticky)
	case RP:
		up = !neg && (rest != 0 || sticky)
	}
	if up {
		q++
	}
	v := math.Ldexp(float64(q), exp+drop)
	if v > f.Max {
		if mode == RZ || mode == RM && !neg || mode == RP && neg {
			v = f.Max
		} else {
			v = math.Inf(1)
		}
	}
	if neg {
		v = -v
	}
	return v
}

// Round rounds v. v stands for itself or, if odd, for a number that rounds to odd as v.
func (f *Format) Round(v float64, mode Rounding) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	m, e := math.Frexp(math.Abs(v))
	return f.RoundParts(v < 0, uint64(math.Ldexp(m, 53)), e-53, false, mode)
}

// roundToSingle is Formats[types.F32].Round, quickly: of v, not NaN, that is exact or rounded to odd.
func roundToSingle(v float64, mode Rounding) float32 {
	f := float32(v)
	switch w := float64(f); {
	case mode == RN || w == v:
	case mode == RNA:
		return float32(Formats[types.F32].Round(v, mode))
	case w > v && (mode == RM || mode == RZ && v > 0):
		return math.Nextafter32(f, float32(math.Inf(-1)))
	case w < v && (mode == RP || mode == RZ && v < 0):
		return math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// roundBig rounds an exact or sufficiently precise number to float64.
func roundBig(x *big.Float, mode Rounding) float64 {
	if x.IsInf() || x.Sign() == 0 {
		v, _ := x.Float64()
		return v
	}
	var mant big.Float
	e := x.MantExp(&mant)
	mant.Abs(&mant)
	mant.SetMantExp(&mant, 64)
	u, acc := mant.Uint64()
	return Formats[types.F64].RoundParts(x.Sign() < 0, u, e-64, acc != big.Exact, mode)
}

// toOdd corrects s, the rounded value of a sum, to the rounding to odd. err is the exact sum less
// s. A second rounding to a format of at most 51 bits is then the only rounding.
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

// AddOdd is a+b rounded to odd.
func AddOdd(a, b float64) float64 {
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

// FMA32 is the fused multiply-add of float32, the hard cases included.
func FMA32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	switch {
	case s != s:
		return NaN32
	case s == 0 || math.IsInf(s, 0):
		return float32(s)
	}
	return float32(AddOdd(p, float64(c)))
}

// Decode reads a floating-point value, exactly.
func Decode(t types.Type, v uint64) float64 {
	switch t {
	case types.F16:
		return float64(F16To32(uint16(v)))
	case types.BF16:
		return float64(BF16To32(uint16(v)))
	case types.F64:
		return From64(v)
	default:
		return float64(From32(v))
	}
}

// Encode writes a value that t represents exactly, or a NaN, which becomes t's.
func Encode(t types.Type, v float64) uint64 {
	switch t {
	case types.F16:
		return uint64(EncodeF16(v))
	case types.BF16:
		return uint64(encodeBF16(v))
	case types.F64:
		return math.Float64bits(v)
	default:
		if v != v {
			return 0x7fffffff
		}
		return Bits32(float32(v))
	}
}

// Bits encodes f, rounded to nearest, as type t.
func Bits(t types.Type, f float64) uint64 {
	switch t {
	case types.F64, types.B64:
		return math.Float64bits(f)
	case types.F16:
		return uint64(EncodeF16(Formats[types.F16].Round(f, RN)))
	case types.BF16:
		return uint64(encodeBF16(Formats[types.BF16].Round(f, RN)))
	default:
		return Bits32(float32(f))
	}
}

// EncodeF16 encodes a number that f16 represents exactly.
func EncodeF16(f float64) uint16 {
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

// F16To32 decodes an f16.
func F16To32(h uint16) float32 {
	const infinity = 0x7c00 << 13
	u := uint32(h&0x7fff) << 13
	b := math.Float32bits(math.Float32frombits(u) * 0x1p112) // 112 is the difference of the exponents' biases
	switch {
	case u > infinity:
		return NaN32
	case u == infinity:
		b = 0x7f800000
	}
	return math.Float32frombits(b | uint32(h&0x8000)<<16)
}

// F16From32 rounds to nearest.
func F16From32(f float32) uint16 {
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

// BF16To32 decodes a bf16.
func BF16To32(h uint16) float32 {
	f := math.Float32frombits(uint32(h) << 16)
	if f != f {
		return NaN32
	}
	return f
}

// BF16From32 rounds to nearest.
func BF16From32(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return 0x7fff
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// Flushed decodes an f32; a subnormal number is a zero of its sign.
func Flushed(u uint32) float32 {
	if u&0x7f800000 == 0 {
		u &= 0x80000000
	}
	return math.Float32frombits(u)
}

// Flush32 makes a subnormal result a zero of its sign.
func Flush32(f float32) float32 {
	if u := math.Float32bits(f); u&0x7f800000 == 0 {
		return math.Float32frombits(u & 0x80000000)
	}
	return f
}
