// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package float

import "math"

// Sin and Cos compute in float64 and round the result to f32. Machine code (package native) has the same steps over
// vectors.

// TurnBound bounds the numbers of which Sin and Cos take quarters of a turn away by two constants.
const TurnBound = 1 << 20

// HalfPiHi and HalfPiLo are half of pi in two parts.
const (
	HalfPiHi = 1.57079632679489655800e+00
	HalfPiLo = 6.12323399573676603587e-17
)

// The coefficients of polynomials for sine and cosine up to an eighth of a turn, the highest first (Cephes): of z^2, times z^3,
// and times z^4.
var (
	SinTerms = [...]float64{
		1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
		-1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1,
	}
	CosTerms = [...]float64{
		-1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
		2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2,
	}
)

// Sin is the sine of x.
func Sin(x float32) float32 {
	v := math.Abs(float64(x))
	if !(v <= TurnBound) {
		return float32(math.Sin(float64(x)))
	}
	r := float32(sinOfTurns(v, 0))
	return math.Float32frombits(math.Float32bits(r) ^ math.Float32bits(x)&(1<<31))
}

// Cos is the cosine of x.
func Cos(x float32) float32 {
	v := math.Abs(float64(x))
	if !(v <= TurnBound) {
		return float32(math.Cos(float64(x)))
	}
	return float32(sinOfTurns(v, 1))
}

// sinOfTurns is the sine of v and more quarters of a turn.
func sinOfTurns(v float64, more int64) float64 {
	k := math.RoundToEven(v * (2 / math.Pi))
	z := math.FMA(-k, HalfPiLo, math.FMA(-k, HalfPiHi, v))
	zz := z * z
	quarters := int64(k) + more
	var r float64
	if quarters&1 == 0 {
		r = math.FMA(polynomialOf(SinTerms[:], zz), z*zz, z)
	} else {
		r = math.FMA(math.FMA(polynomialOf(CosTerms[:], zz), zz, -0.5), zz, 1)
	}
	if quarters&2 != 0 {
		r = -r
	}
	return r
}

// polynomialOf is the polynomial with the coefficients c, the highest first.
func polynomialOf(c []float64, x float64) float64 {
	p := c[0]
	for _, v := range c[1:] {
		p = math.FMA(p, x, v)
	}
	return p
}
