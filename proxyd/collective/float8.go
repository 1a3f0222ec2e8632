// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"math"
	"sync"
)

// quarterFormat is a type of 8 bits.
type quarterFormat struct {
	fraction int     // number of bits
	least    int     // exponent of the smallest normal number
	largest  float64 // finite number
	top      byte    // its code
	special  byte    // the first code above top that is infinity, or 0 if the type has no infinity

	once   sync.Once
	values [256]float64
	tables [4][1 << 16]byte // ∘ by [a<<8 | b], for Sum, Prod, Max, Min
}

var (
	e4m3 = quarterFormat{fraction: 3, least: -6, largest: 448, top: 0x7e}
	e5m2 = quarterFormat{fraction: 2, least: -14, largest: 57344, top: 0x7b, special: 0x7c}
)

// decodeByte is exact.
func (f *quarterFormat) decodeByte(c byte) float64 {
	sign := 1.0
	if c&0x80 != 0 {
		sign = math.Copysign(1, -1)
	}
	switch c &= 0x7f; {
	case f.special != 0 && c == f.special:
		return math.Inf(int(sign))
	case c > f.top:
		return math.NaN()
	}
	exponent, bits := int(c)>>f.fraction, int(c)&(1<<f.fraction-1)
	if exponent > 0 {
		bits, exponent = bits|1<<f.fraction, exponent-1
	}
	return sign * math.Ldexp(float64(bits), exponent+f.least-f.fraction)
}

// encodeFloat rounds to nearest, ties to even. A number that is too large, infinity included,
// becomes the largest number, as in CUDA's conversions; any NaN becomes 0x7f.
func (f *quarterFormat) encodeFloat(x float64) byte {
	if isNaN(x) {
		return 0x7f
	}
	var sign byte
	if math.Signbit(x) {
		sign, x = 0x80, -x
	}
	if x >= f.largest {
		return sign | f.top
	}
	exponent := f.least
	if x > 0 {
		exponent = max(exponent, math.Ilogb(x))
	}
	bits := math.RoundToEven(math.Ldexp(x, f.fraction-exponent))
	return sign | byte(int(bits)+(exponent-f.least)<<f.fraction)
}

// fillTables computes the tables, the first time.
func (f *quarterFormat) fillTables() {
	f.once.Do(func() {
		for c := range f.values {
			f.values[c] = f.decodeByte(byte(c))
		}
		pick := func(winner, x float64, a, b byte) byte {
			switch {
			case isNaN(winner):
				return 0x7f
			case math.Float64bits(winner) == math.Float64bits(x):
				return a
			}
			return b
		}
		nan := math.NaN()
		for a := range 256 {
			for b := range 256 {
				x, y, at := f.values[a], f.values[b], a<<8|b
				f.tables[Sum][at] = f.encodeFloat(x + y)
				f.tables[Prod][at] = f.encodeFloat(x * y)
				f.tables[Max][at] = pick(largerNumber(x, y, nan), x, byte(a), byte(b))
				f.tables[Min][at] = pick(smallerNumber(x, y, nan), x, byte(a), byte(b))
			}
		}
	})
}

// quarterRow makes the row of an 8-bit type: there are 65536 pairs, so all are computed once.
func quarterRow(f *quarterFormat) [reductions]combiner {
	by := func(r Reduction) combiner {
		return func(dst, a, b []byte) {
			f.fillTables()
			table := &f.tables[r]
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = table[int(a[i])<<8|int(b[i])]
			}
		}
	}
	return makeRow(by(Sum), by(Prod), by(Max), by(Min))
}
