// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"math"
	"sync"
)

// halfFormat is a type of 16 bits. The numbers of both such types fit into float32.
type halfFormat struct {
	decode func(uint16) float32
	encode func(float32) uint16 // to nearest, ties to even; any NaN becomes 0x7fff
}

var (
	float16  = halfFormat{fromFloat16, toFloat16}
	bfloat16 = halfFormat{fromBFloat16, toBFloat16}
)

// halfRow makes the row of a 16-bit type. A sum of two is rounded to float32 and then to the
// type, which is the same as rounding once: 24 bits are at least 2·11+2. A product is exact
// in float64, but not in float32 for small numbers of bfloat16.
func halfRow(sum func(dst, a, b []uint16), f *halfFormat) [reductions]combiner {
	nan := notANumber[float32]()
	return makeRow(
		typedCombiner(sum),
		typedCombiner(func(dst, a, b []uint16) {
			for i := range dst {
				dst[i] = f.encode(narrowFloat(float64(f.decode(a[i])) * float64(f.decode(b[i]))))
			}
		}),
		typedCombiner(func(dst, a, b []uint16) {
			for i := range dst {
				dst[i] = f.encode(largerNumber(f.decode(a[i]), f.decode(b[i]), nan))
			}
		}),
		typedCombiner(func(dst, a, b []uint16) {
			for i := range dst {
				dst[i] = f.encode(smallerNumber(f.decode(a[i]), f.decode(b[i]), nan))
			}
		}),
	)
}

// float16s is the value of each code: 256 KiB that stay in the cache, and twice as fast as a
// computation.
var float16s = sync.OnceValue(func() *[1 << 16]float32 {
	var all [1 << 16]float32
	for h := range all {
		all[h] = fromFloat16(uint16(h))
	}
	return &all
})

func sumFloat16(dst, a, b []uint16) {
	a, b = a[:len(dst)], b[:len(dst)]
	value := float16s()
	for i := range dst {
		s := value[a[i]] + value[b[i]]
		u := math.Float32bits(s)
		if n := u & math.MaxInt32; n-leastNormal16 < infinity16-leastNormal16 {
			dst[i] = uint16(u>>16&0x8000) | roundNormal16(n)
		} else {
			dst[i] = toFloat16(s)
		}
	}
}

func sumBFloat16(dst, a, b []uint16) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = toBFloat16(fromBFloat16(a[i]) + fromBFloat16(b[i]))
	}
}

// narrowFloat rounds x to float32 so that a second rounding, to a type with at least two bits
// less at every exponent, comes out as if it were the only one: an inexact result becomes
// the odd neighbour, which is no tie of the shorter type.
func narrowFloat(x float64) float32 {
	y := float32(x)
	if float64(y) == x || isNaN(x) {
		return y
	}
	bits := math.Float32bits(y)
	if math.Abs(float64(y)) > math.Abs(x) {
		bits-- // towards zero; infinity becomes the largest number
	}
	return math.Float32frombits(bits | 1)
}

// fromFloat16 widens a binary16: the exponent's bias changes from 15 to 127, and the
// multiplication makes subnormals right too.
func fromFloat16(h uint16) float32 {
	const rebias = 1 << (127 - 15) // 2^112
	sign := uint32(h&0x8000) << 16
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(sign | 0x7f800000 | uint32(h&0x3ff)<<13)
	}
	x := math.Float32frombits(uint32(h&0x7fff)<<13) * rebias
	return math.Float32frombits(math.Float32bits(x) | sign)
}

// Magnitudes, as float32.
const (
	leastNormal16 = 0x38800000 // 2^-14, the smallest normal number of binary16
	infinity16    = 0x477ff000 // 65520, halfway from its largest number to the number that would be next
)

// roundNormal16 rounds a magnitude from leastNormal16 to below infinity16.
func roundNormal16(u uint32) uint16 {
	return uint16((u + 0xfff + u>>13&1 - 112<<23) >> 13)
}

// toFloat16 rounds to binary16.
func toFloat16(x float32) uint16 {
	u := math.Float32bits(x)
	sign := uint16(u >> 16 & 0x8000)
	u &= math.MaxInt32
	switch {
	case u > 0x7f800000:
		return 0x7fff
	case u >= infinity16:
		return sign | 0x7c00
	case u < leastNormal16: // adding 0.5 leaves multiples of 2^-24 in the low bits
		return sign | uint16(math.Float32bits(math.Float32frombits(u)+0.5)-0x3f000000)
	}
	return sign | roundNormal16(u)
}

func fromBFloat16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// toBFloat16 rounds to bfloat16.
func toBFloat16(x float32) uint16 {
	u := math.Float32bits(x)
	if u&math.MaxInt32 > 0x7f800000 {
		return 0x7fff
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}
