// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/big"
	"math/rand/v2"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// layout is a binary format by its fields, for the oracle: the oracle and the code under test share no code.
type layout struct{ exp, mant uint }

var layouts = map[types.Type]layout{types.F16: {5, 10}, types.BF16: {8, 7}, types.F32: {8, 23}, types.F64: {11, 52}, types.E4M3x2: {4, 3}, types.E5M2x2: {5, 2}}

func (f layout) exponentBias() int { return 1<<(f.exp-1) - 1 }

// exactValue reads finite numbers; nan and inf are the rest.
func (f layout) exactValue(v uint64) (x *big.Rat, neg, inf, nan bool) {
	e, m := int(v>>f.mant&(1<<f.exp-1)), v&(1<<f.mant-1)
	neg = v>>(f.exp+f.mant)&1 != 0
	if e == 1<<f.exp-1 {
		return nil, neg, m == 0, m != 0
	}
	if e == 0 {
		e = 1
	} else {
		m |= 1 << f.mant
	}
	x = new(big.Rat).SetInt(new(big.Int).SetUint64(m))
	x = scaleBy(x, e-f.exponentBias()-int(f.mant))
	if neg {
		x.Neg(x)
	}
	return x, neg, false, false
}

func scaleBy(x *big.Rat, e int) *big.Rat {
	p := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(e, -e))))
	if e < 0 {
		return new(big.Rat).Quo(x, p)
	}
	return new(big.Rat).Mul(x, p)
}

// roundExact is the rounding of an exact, nonzero number, by trying out: the largest
// representable magnitude not above it, and the next.
func (f layout) roundExact(x *big.Rat, mode string) uint64 {
	neg := x.Sign() < 0
	a := new(big.Rat).Abs(x)
	// Magnitudes are ordered as their bits.
	lo, hi := uint64(0), uint64(1<<f.exp-1)<<f.mant
	val := func(v uint64) *big.Rat {
		if v == hi {
			// The value that the code of infinity would have if it were an ordinary number.
			return scaleBy(big.NewRat(1, 1), 1<<f.exp-1-f.exponentBias())
		}
		y, _, _, _ := f.exactValue(v)
		return y
	}
	l, h := lo, hi
	for h-l > 1 {
		if mid := (l + h) / 2; val(mid).Cmp(a) <= 0 {
			l = mid
		} else {
			h = mid
		}
	}
	var r uint64
	up := h
	switch c := val(l).Cmp(a); {
	case c == 0:
		r = l
	case val(hi).Cmp(a) <= 0:
		// Beyond the largest.
		r = hi
		if mode == "rz" || mode == "rm" && !neg || mode == "rp" && neg {
			r = hi - 1
		}
	case mode == "rz", mode == "rm" && !neg, mode == "rp" && neg:
		r = l
	case mode == "rm", mode == "rp":
		r = up
	default:
		mid := new(big.Rat).Add(val(l), val(up))
		mid.Mul(mid, big.NewRat(1, 2))
		switch c := a.Cmp(mid); {
		case c < 0, c == 0 && l&1 == 0:
			r = l
		default:
			r = up
		}
	}
	if neg {
		r |= 1 << (f.exp + f.mant)
	}
	return r
}

// floatEdges are special values of a format, and numbers around them.
func floatEdges(t types.Type) []uint64 {
	f := layouts[t]
	inf := uint64(1<<f.exp-1) << f.mant
	one := uint64(f.exponentBias()) << f.mant
	e := []uint64{0, 1, 2, 1<<f.mant - 1, 1 << f.mant, 1<<f.mant + 1, one - 1, one, one + 1, one + 1<<(f.mant-1), one + 1<<f.mant, inf - 1, inf, inf + 1,
		one + 1<<f.mant*uint64(f.mant), inf - 1<<f.mant}
	for _, v := range e {
		e = append(e, v|1<<(f.exp+f.mant))
	}
	return e
}

// floatOperands are edge cases, random bits, and numbers that nearly cancel.
func floatOperands(t types.Type, seed uint64, n int) [][3]uint64 {
	r := rand.New(rand.NewPCG(seed, 3))
	e := floatEdges(t)
	f := layouts[t]
	one := uint64(f.exponentBias()) << f.mant
	any := func() uint64 {
		switch r.IntN(4) {
		case 0:
			return e[r.IntN(len(e))]
		case 1:
			return r.Uint64() & types.SizeMask(t.Size())
		default:
			// About one, with few bits set: sums and products that are exact or ties.
			v := one + uint64(r.IntN(8))<<f.mant - 4<<f.mant
			for range r.IntN(4) {
				v ^= 1 << r.IntN(int(f.mant))
			}
			return v | r.Uint64()&1<<(f.exp+f.mant)
		}
	}
	var rows [][3]uint64
	for _, a := range e {
		for _, b := range e {
			rows = append(rows, [3]uint64{a, b, any()})
		}
	}
	for range n {
		rows = append(rows, [3]uint64{any(), any(), any()})
	}
	return rows
}

// ieeeResult is the result of an operation by the rules for special values, or rounded from the exact result. nan is
// true where the result is any NaN.
func ieeeResult(t types.Type, op, mode string, r [3]uint64) (bits uint64, nan bool) {
	f := layouts[t]
	sign := uint64(1) << (f.exp + f.mant)
	inf := uint64(1<<f.exp-1) << f.mant
	signed := func(v uint64, neg bool) uint64 {
		if neg {
			return v | sign
		}
		return v
	}
	x, xn, xi, xnan := f.exactValue(r[0])
	y, yn, yi, ynan := f.exactValue(r[1])
	z, zn, zi, znan := f.exactValue(r[2])
	if op == "sqrt" || op == "rcp" {
		y, yn, yi, ynan = nil, false, false, false
	}
	if op != "fma" {
		z, zn, zi, znan = new(big.Rat), false, false, false
	}
	if xnan || ynan || znan {
		return 0, true
	}
	sum := func(a *big.Rat, an, ai bool, b *big.Rat, bn, bi bool) (uint64, bool) {
		switch {
		case ai && bi && an != bn:
			return 0, true
		case ai:
			return signed(inf, an), false
		case bi:
			return signed(inf, bn), false
		}
		s := new(big.Rat).Add(a, b)
		if s.Sign() == 0 {
			if a.Sign() == 0 && an == bn {
				return signed(0, an), false
			}
			return signed(0, mode == "rm"), false
		}
		return f.roundExact(s, mode), false
	}
	switch op {
	case "add":
		return sum(x, xn, xi, y, yn, yi)
	case "sub":
		if y != nil {
			y = new(big.Rat).Neg(y)
		}
		return sum(x, xn, xi, y, !yn, yi)
	case "mul", "fma":
		pn := xn != yn
		if xi && !yi && y.Sign() == 0 || yi && !xi && x.Sign() == 0 {
			return 0, true
		}
		var p *big.Rat
		if !xi && !yi {
			p = new(big.Rat).Mul(x, y)
		}
		if op == "fma" {
			return sum(p, pn, xi || yi, z, zn, zi)
		}
		switch {
		case p == nil:
			return signed(inf, pn), false
		case p.Sign() == 0:
			return signed(0, pn), false
		}
		return f.roundExact(p, mode), false
	case "rcp":
		x, xn, xi, y, yn, yi = big.NewRat(1, 1), false, false, x, xn, xi
		fallthrough
	case "div":
		qn := xn != yn
		switch {
		case xi && yi || !xi && !yi && x.Sign() == 0 && y.Sign() == 0:
			return 0, true
		case xi || !yi && y.Sign() == 0:
			return signed(inf, qn), false
		case yi || x.Sign() == 0:
			return signed(0, qn), false
		}
		return f.roundExact(new(big.Rat).Quo(x, y), mode), false
	}
	// sqrt
	switch {
	case !xi && x.Sign() == 0:
		return r[0], false
	case xn:
		return 0, true
	case xi:
		return inf, false
	}
	// A root is exact or irrational: enough digits and a sticky one decide.
	n := new(big.Int).Mul(x.Num(), x.Denom())
	n.Lsh(n, 400)
	root := new(big.Int).Sqrt(n)
	exactRoot := new(big.Int).Mul(root, root).Cmp(n) == 0
	root.Lsh(root, 1)
	if !exactRoot {
		root.Or(root, big.NewInt(1))
	}
	s := new(big.Rat).SetFrac(root, x.Denom())
	return f.roundExact(scaleBy(s, -201), mode), false
}
