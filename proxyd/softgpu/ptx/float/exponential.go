// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package float

import "math"

// Exp2 and Log2 compute in float64 and round the result to f32. Machine code (package native) has the same steps over
// vectors, so each step is rounded as it is written here: the compiler must not fuse two of them. Log2 has the steps of
// math.Log2. Exp2 has fewer than math.Exp2, and no division.

// Exp2Bound bounds Exp2's operands: an operand further away from 0 gives 0 or an infinity.
const Exp2Bound = 200

// Exp2Terms are the coefficients of a polynomial that is 2^t - 1 for t from -0.5 to 0.5, divided by t, the highest first. It
// meets 2^t at the zeros of a Chebyshev polynomial; with exact coefficients it is off by less than 2^-53 of 2^t.
var Exp2Terms = [...]float64{
	4.4549605981865186e-10,
	7.072585949269223e-09,
	1.0178062445845774e-07,
	1.321544258792169e-06,
	1.525273382983612e-05,
	0.0001540353044173605,
	0.0013333558146416936,
	0.009618129107606888,
	0.0555041086648216,
	0.24022650695910097,
	0.6931471805599453,
}

// The constants of Log2.
const (
	Ln2Hi  = 6.93147180369123816490e-01
	Ln2Lo  = 1.90821492927058770002e-10
	Log2L1 = 6.666666666666735130e-01
	Log2L2 = 3.999999999940941908e-01
	Log2L3 = 2.857142874366239149e-01
	Log2L4 = 2.222219843214978396e-01
	Log2L5 = 1.818357216161805012e-01
	Log2L6 = 1.531383769920937332e-01
	Log2L7 = 1.479819860511658591e-01
)

// Exp2 is 2 to the power of x.
func Exp2(x float32) float32 {
	if x != x {
		return x
	}
	v := float64(min(max(x, -Exp2Bound), Exp2Bound))
	k := math.RoundToEven(v)
	t := v - k
	p := Exp2Terms[0]
	for _, c := range Exp2Terms[1:] {
		p = math.FMA(p, t, c)
	}
	p = math.FMA(p, t, 1)
	return float32(p * math.Float64frombits(uint64(int64(k)+1023)<<52))
}

// Log2 is the logarithm to base 2 of x.
func Log2(x float32) float32 {
	switch {
	case x != x || x > math.MaxFloat32:
		return x
	case x == 0:
		return float32(math.Inf(-1))
	case x < 0:
		return NaN32
	}
	b := math.Float64bits(float64(x))
	exponent := float64(int64(b>>52) - 1022)
	fraction := math.Float64frombits(b&(1<<52-1) | 1022<<52) // at least 0.5, below 1
	k := 0.0
	f := fraction
	if f < math.Sqrt2/2 {
		f, k = 2*f, -1
	}
	f--
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	t1 := float64(Log2L5 + float64(s4*Log2L7))
	t1 = float64(Log2L3 + float64(s4*t1))
	t1 = float64(Log2L1 + float64(s4*t1))
	t2 := float64(Log2L4 + float64(s4*Log2L6))
	t2 = float64(Log2L2 + float64(s4*t2))
	r := float64(s2*t1) + float64(s4*t2)
	half := float64(float64(0.5*f) * f)
	ln := float64(k*Ln2Hi) - ((half - (float64(s*(half+r)) + float64(k*Ln2Lo))) - f)
	if fraction == 0.5 {
		return float32(exponent - 1)
	}
	return float32(float64(ln*(1/math.Ln2)) + exponent)
}
