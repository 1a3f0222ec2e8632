// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package float

import (
	"math"
	"math/big"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Operation is a floating-point instruction with all its modifiers.
type Operation struct {
	Name     string
	Type     types.Type // of an element
	Mode     Rounding
	FTZ      bool
	Saturate bool
	ReLU     bool
}

// Flush makes a subnormal number zero. Only f32 and f16 flush to zero.
func (o *Operation) Flush(v float64) float64 {
	if o.FTZ && math.Abs(v) < Formats[o.Type].Least {
		return math.Copysign(0, v)
	}
	return v
}

// Compute is the operation on elements of o.Type.
func (o *Operation) Compute(ab, bb, cb uint64) uint64 {
	t := o.Type
	a, b, c := o.Flush(Decode(t, ab)), o.Flush(Decode(t, bb)), o.Flush(Decode(t, cb))
	var v float64
	switch t {
	case types.F64:
		v = o.computeDouble(a, b, c)
	case types.F32:
		v = o.Flush(float64(roundToSingle(o.roundedToOdd(a, b, c), o.Mode)))
		if v == 0 && o.Mode == RM {
			v = o.zeroSign(v, a, b, c)
		}
	default:
		v = o.Flush(Formats[t].Round(o.roundedToOdd(a, b, c), o.Mode))
		if v == 0 && o.Mode == RM {
			v = o.zeroSign(v, a, b, c)
		}
	}
	if o.Saturate {
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
	if o.ReLU && v <= 0 {
		v = 0
	}
	return Encode(t, v)
}

// FMADown32 is fma.rm.f32.
func FMADown32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	if s := p + float64(c); s == 0 || s-s != 0 {
		o := Operation{Name: "fma", Type: types.F32, Mode: RM}
		return From32(o.Compute(Bits32(a), Bits32(b), Bits32(c)))
	}
	return roundToSingle(AddOdd(p, float64(c)), RM)
}

// roundedToOdd computes the operation in float64, rounded to odd, or exactly.
func (o *Operation) roundedToOdd(a, b, c float64) float64 {
	switch o.Name {
	case "add":
		return AddOdd(a, b)
	case "sub":
		return AddOdd(a, -b)
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
		return AddOdd(p, c)
	}
}

// zeroSign corrects the sign of an exact zero of a sum when rounding down.
func (o *Operation) zeroSign(v, a, b, c float64) float64 {
	switch o.Name {
	case "add", "sub":
	case "fma", "mad":
	default:
		return v
	}
	op := o.Name
	if op == "mad" {
		op = "fma"
	}
	if o.roundedToOdd(a, b, c) == 0 && !zeroTerms(op, a, b, c) {
		return math.Copysign(0, -1)
	}
	return v
}

func (o *Operation) computeDouble(a, b, c float64) float64 {
	if o.Name == "rcp" {
		a, b = 1, a
	}
	if o.Mode != RN {
		op := o.Name
		if op == "mad" {
			op = "fma"
		}
		return computeDirected(op, a, b, c, o.Mode)
	}
	switch o.Name {
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

// computeDirected computes an f64 operation with a rounding other than to nearest.
func computeDirected(op string, a, b, c float64, mode Rounding) float64 {
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
		if mode == RM && (op == "add" || op == "sub" || op == "fma") && !(near == 0 && !math.Signbit(near) && zeroTerms(op, a, b, c)) {
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
