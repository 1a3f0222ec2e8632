// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"sort"
	"sync"
)

// The oracle computes a single element at a time in rational numbers and rounds by searching a list
// of all values that a type has. The oracle shares no code with the tested package.

// layoutOf is the division of a short float's bits.
type layoutOf struct {
	exponent, fraction int
	infinities         bool // the highest exponent is for infinities and NaN, as in IEEE 754
	saturates          bool
}

var shortFloats = map[Type]layoutOf{
	Float16:    {5, 10, true, false},
	BFloat16:   {8, 7, true, false},
	Float8E4M3: {4, 3, false, true},
	Float8E5M2: {5, 2, true, true},
}

// value decodes by the definition of the fields.
func (l layoutOf) value(code uint16) float64 {
	bias := 1<<(l.exponent-1) - 1
	fraction := int(code) & (1<<l.fraction - 1)
	exponent := int(code) >> l.fraction & (1<<l.exponent - 1)
	sign := 1.0
	if code>>(l.exponent+l.fraction)&1 == 1 {
		sign = math.Copysign(1, -1)
	}
	highest := 1<<l.exponent - 1
	switch {
	case l.infinities && exponent == highest && fraction == 0:
		return math.Inf(int(sign))
	case l.infinities && exponent == highest, exponent == highest && fraction == 1<<l.fraction-1:
		return math.NaN()
	case exponent == 0:
		return sign * math.Ldexp(float64(fraction), 1-bias-l.fraction)
	}
	return sign * math.Ldexp(float64(fraction+1<<l.fraction), exponent-bias-l.fraction)
}

// numberList is all finite numbers of a type from +0 upwards.
type numberList struct {
	codes  []uint16
	floats []float64
	exact  []*big.Rat
}

var allNumbers = sync.OnceValue(func() *[types]numberList {
	var all [types]numberList
	for t, l := range shortFloats {
		n := &all[t]
		for c := range uint16(1) << (l.exponent + l.fraction) { // codes of positive numbers ascend
			if v := l.value(c); !isNaN(v) && !math.IsInf(v, 0) {
				n.codes = append(n.codes, c)
				n.floats = append(n.floats, v)
				n.exact = append(n.exact, new(big.Rat).SetFloat64(v))
			}
		}
	}
	return &all
})

func numbersOf(t Type) *numberList { return &allNumbers()[t] }

// roundToCode returns the code nearest to |v|, with the sign given.
func roundToCode(t Type, v *big.Rat, negative bool) uint16 {
	x := new(big.Rat).Abs(v)
	exact := numbersOf(t).exact
	return searchNearest(t, negative, func(i int) int { return exact[i].Cmp(x) }, func(below int) int {
		// Where the number lies between below and the next, which may not exist.
		if below == len(exact)-1 {
			limit := new(big.Rat).Sub(exact[below], exact[below-1])
			limit.Add(exact[below], limit.Quo(limit, big.NewRat(2, 1)))
			return x.Cmp(limit)
		}
		up, down := new(big.Rat).Sub(exact[below+1], x), new(big.Rat).Sub(x, exact[below])
		return down.Cmp(up)
	})
}

// roundExact is roundToCode for a float64 that is exact, and so short that its distances to
// numbers of the type are exact, too.
func roundExact(t Type, v float64) uint16 {
	x := math.Abs(v)
	of := numbersOf(t).floats
	return searchNearest(t, math.Signbit(v), func(i int) int { return cmp.Compare(of[i], x) }, func(below int) int {
		if below == len(of)-1 {
			return cmp.Compare(x, of[below]+(of[below]-of[below-1])/2)
		}
		return cmp.Compare(x-of[below], of[below+1]-x)
	})
}

// searchNearest finds the nearest number, of two that are equally near the even number.
func searchNearest(t Type, negative bool, compare, middle func(int) int) uint16 {
	l := shortFloats[t]
	list := numbersOf(t).codes
	var sign uint16
	if negative {
		sign = 1 << (l.exponent + l.fraction)
	}
	above := sort.Search(len(list), func(i int) bool { return compare(i) >= 0 })
	if above < len(list) && compare(above) == 0 {
		return sign | list[above]
	}
	side := middle(above - 1)
	if side < 0 || side == 0 && list[above-1]&1 == 0 || above == len(list) && l.saturates {
		return sign | list[above-1]
	}
	return sign | (list[above-1] + 1) // infinity if there is no next number
}

func loadCode(t Type, b []byte) uint64 {
	var wide [8]byte
	copy(wide[:], b[:t.Size()])
	return binary.LittleEndian.Uint64(wide[:])
}

func storeCode(t Type, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, v)[:t.Size()]
}

// floatOf is the element as a float64, for types that are floats.
func floatOf(t Type, v uint64) float64 {
	switch t {
	case Float32:
		return float64(math.Float32frombits(uint32(v)))
	case Float64:
		return math.Float64frombits(v)
	}
	return shortFloats[t].value(uint16(v))
}

// toFloat rounds the result of arithmetic to the type: ieee has the right special values and sign of
// zero, and is exact if exact is nil.
func toFloat(t Type, ieee float64, exact *big.Rat) uint64 {
	switch {
	case isNaN(ieee):
		return uint64(1)<<(8*t.Size()-1) - 1
	case t == Float32:
		return uint64(math.Float32bits(float32(ieee)))
	case t == Float64:
		return math.Float64bits(ieee)
	case exact != nil:
		return uint64(roundToCode(t, exact, math.Signbit(ieee)))
	}
	return uint64(roundExact(t, ieee))
}

// rationalOf returns x ∘ y where float64 cannot hold the result.
func rationalOf(t Type, x, y float64, f func(z, x, y *big.Rat) *big.Rat) *big.Rat {
	if _, short := shortFloats[t]; !short || math.IsInf(x, 0) || math.IsInf(y, 0) || isNaN(x) || isNaN(y) {
		return nil
	}
	return f(new(big.Rat), new(big.Rat).SetFloat64(x), new(big.Rat).SetFloat64(y))
}

func isFloat(t Type) bool { return t >= Float16 }

func isSigned(t Type) bool { return t == Int8 || t == Int32 || t == Int64 }

func bigOf(t Type, v uint64) *big.Int {
	z := new(big.Int).SetUint64(v)
	if bits := 8 * t.Size(); isSigned(t) && v>>(bits-1)&1 == 1 {
		z.Sub(z, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
	}
	return z
}

func wrapToType(t Type, z *big.Int) uint64 {
	mod := new(big.Int).Lsh(big.NewInt(1), uint(8*t.Size()))
	return z.Mod(z, mod).Uint64()
}

// oracleCombine returns a ∘ b for a single element.
func oracleCombine(t Type, r Reduction, a, b uint64) uint64 {
	if !isFloat(t) {
		x, y := bigOf(t, a), bigOf(t, b)
		switch {
		case r == Prod:
			return wrapToType(t, x.Mul(x, y))
		case r == Max && x.Cmp(y) < 0, r == Min && x.Cmp(y) > 0:
			return b
		case r == Max || r == Min:
			return a
		}
		return wrapToType(t, x.Add(x, y))
	}
	x, y := floatOf(t, a), floatOf(t, b)
	switch r {
	case Prod:
		if t == Float32 {
			return toFloat(t, float64(float32(x)*float32(y)), nil)
		}
		return toFloat(t, x*y, nil) // exact for all shorter types
	case Max, Min:
		if isNaN(x) && isNaN(y) {
			return toFloat(t, x, nil)
		}
		if isNaN(x) {
			return b
		}
		if isNaN(y) {
			return a
		}
		less := x < y || x == y && math.Signbit(x) && !math.Signbit(y)
		if less == (r == Min) {
			return a
		}
		return b
	}
	switch t {
	case Float32:
		return toFloat(t, float64(float32(x)+float32(y)), nil)
	case BFloat16:
		return toFloat(t, x+y, rationalOf(t, x, y, (*big.Rat).Add))
	}
	return toFloat(t, x+y, nil) // exact for all shorter types
}

// oracleDivide is the final division of Avg.
func oracleDivide(t Type, v uint64, n int) uint64 {
	if !isFloat(t) {
		z := bigOf(t, v)
		return wrapToType(t, z.Quo(z, big.NewInt(int64(n))))
	}
	x := floatOf(t, v)
	if t == Float32 {
		return toFloat(t, float64(float32(x)/float32(n)), nil)
	}
	return toFloat(t, x/float64(n), rationalOf(t, x, float64(n), (*big.Rat).Quo))
}

// oracleTree folds a single element of ranks lo … hi-1.
func oracleTree(t Type, r Reduction, leaves []uint64) uint64 {
	if len(leaves) == 1 {
		return leaves[0]
	}
	half := 1
	for half*2 < len(leaves) {
		half *= 2
	}
	return oracleCombine(t, r, oracleTree(t, r, leaves[:half]), oracleTree(t, r, leaves[half:]))
}

// oracleReduce returns the result of a whole reduction of vectors, one for each rank.
func oracleReduce(t Type, r Reduction, vectors, scales [][]byte) []byte {
	size := t.Size()
	var out []byte
	for i := 0; i < len(vectors[0]); i += size {
		leaves := make([]uint64, len(vectors))
		for rank, v := range vectors {
			leaves[rank] = loadCode(t, v[i:])
			if r == PreMulSum {
				leaves[rank] = oracleCombine(t, Prod, leaves[rank], loadCode(t, scales[rank]))
			}
		}
		v := oracleTree(t, r, leaves)
		if r == Avg && len(vectors) > 1 {
			v = oracleDivide(t, v, len(vectors))
		}
		out = append(out, storeCode(t, v)...)
	}
	return out
}
