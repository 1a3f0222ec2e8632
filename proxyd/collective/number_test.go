// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// specialCodes are codes near every edge that a type has.
func specialCodes(t Type) []uint64 {
	bits := 8 * t.Size()
	top := uint64(1) << (bits - 1)
	var all []uint64
	add := func(v uint64) {
		for _, d := range []uint64{^uint64(0), 0, 1} {
			for _, sign := range []uint64{0, top} {
				all = append(all, (v+d)&(top<<1-1)^sign)
			}
		}
	}
	add(0)
	add(top - 1)
	one, half, infinity := uint64(1), uint64(2), uint64(100)
	switch t {
	case Float32:
		one, half, infinity = uint64(math.Float32bits(1)), uint64(math.Float32bits(0.5)), 0x7f800000
	case Float64:
		one, half, infinity = math.Float64bits(1), math.Float64bits(0.5), 0x7ff<<52
	case Float16:
		one, half, infinity = 0x3c00, 0x400, 0x7c00
	case BFloat16:
		one, half, infinity = 0x3f80, 0x80, 0x7f80
	}
	add(one)
	add(half)
	add(infinity)
	return all
}

func randomCode(t Type, rng *rand.Rand) uint64 {
	v := rng.Uint64()
	if isFloat(t) && rng.IntN(2) == 0 && t.Size() > 1 { // numbers that are near each other
		switch t {
		case Float32:
			return uint64(math.Float32bits(float32(rng.NormFloat64())))
		case Float64:
			return math.Float64bits(rng.NormFloat64())
		case Float16:
			return 0x3000 + v&0x8fff
		case BFloat16:
			return 0x3e00 + v&0x81ff
		}
	}
	return v & (1<<(8*t.Size()-1)<<1 - 1)
}

// pairsOf are the operands that are tried: all for 8 bits, else edges and random operands.
func pairsOf(t Type) (a, b []byte) {
	add := func(x, y uint64) { a, b = append(a, storeCode(t, x)...), append(b, storeCode(t, y)...) }
	if t.Size() == 1 {
		for x := range uint64(256) {
			for y := range uint64(256) {
				add(x, y)
			}
		}
		return a, b
	}
	edges := specialCodes(t)
	for _, x := range edges {
		for _, y := range edges {
			add(x, y)
		}
	}
	rng := rand.New(rand.NewPCG(1, uint64(t)))
	for range 1500 {
		add(randomCode(t, rng), randomCode(t, rng))
		add(randomCode(t, rng), edges[rng.IntN(len(edges))])
	}
	return a, b
}

func TestCombine(t *testing.T) {
	for typ := range types {
		a, b := pairsOf(typ)
		for _, r := range []Reduction{Sum, Prod, Max, Min} {
			t.Run(fmt.Sprintf("%s/%s", typ, r), func(t *testing.T) {
				got := make([]byte, len(a))
				combiners[typ][r](got, a, b)
				for i := 0; i < len(a); i += typ.Size() {
					x, y := loadCode(typ, a[i:]), loadCode(typ, b[i:])
					if g, w := loadCode(typ, got[i:]), oracleCombine(typ, r, x, y); g != w {
						t.Fatalf("%#x ∘ %#x = %#x, want %#x", x, y, g, w)
					}
				}
			})
		}
	}
}

// TestCombineCommutes: order must not matter between two operands: a tree's node is the same from
// both sides.
func TestCombineCommutes(t *testing.T) {
	for typ := range types {
		a, b := pairsOf(typ)
		for _, r := range []Reduction{Sum, Prod, Max, Min} {
			x, y := make([]byte, len(a)), make([]byte, len(a))
			combiners[typ][r](x, a, b)
			combiners[typ][r](y, b, a)
			if !bytes.Equal(x, y) {
				t.Errorf("%s of %s depends on the order of two", r, typ)
			}
		}
	}
}

func TestDivide(t *testing.T) {
	for typ := range types {
		t.Run(typ.String(), func(t *testing.T) {
			a, _ := pairsOf(typ)
			a = a[:min(len(a), 1500*typ.Size())]
			if typ.Size() == 1 {
				a = a[:0]
				for c := range 256 {
					a = append(a, byte(c))
				}
			}
			for _, n := range []int{2, 3, 7, 10, 255, 257, 4099, 65535} {
				got := bytes.Clone(a)
				divideBy(typ, got, n)
				for i := 0; i < len(a); i += typ.Size() {
					x := loadCode(typ, a[i:])
					if g, w := loadCode(typ, got[i:]), oracleDivide(typ, x, n); g != w {
						t.Fatalf("%#x ÷ %d = %#x, want %#x", x, n, g, w)
					}
				}
			}
		})
	}
}

func TestMultiply(t *testing.T) {
	for typ := range types {
		a, b := pairsOf(typ)
		size := typ.Size()
		a = a[:min(len(a), 3*block*size+size)]
		factor := b[len(b)-size:]
		got := make([]byte, len(a))
		multiplyBy(typ, got, a, factor)
		for i := 0; i < len(a); i += size {
			x := loadCode(typ, a[i:])
			if g, w := loadCode(typ, got[i:]), oracleCombine(typ, Prod, x, loadCode(typ, factor)); g != w {
				t.Fatalf("%s: %#x · %#x = %#x, want %#x", typ, x, factor, g, w)
			}
		}
	}
}

// TestCombineUnaligned: memory that is not aligned takes another path through the code.
func TestCombineUnaligned(t *testing.T) {
	for typ := range types {
		a, b := pairsOf(typ)
		want := make([]byte, len(a))
		combiners[typ][Sum](want, a, b)
		shift := func(s []byte) []byte { return append([]byte{0}, s...)[1:] }
		got := shift(want)
		clear(got)
		combiners[typ][Sum](got, shift(a), shift(b))
		if !bytes.Equal(got, want) {
			t.Errorf("%s: unaligned sums differ", typ)
		}
	}
}

// TestHalvesRoundTrip: every code of a 16-bit type comes back from float32, NaN as the one NaN.
func TestHalvesRoundTrip(t *testing.T) {
	for typ, f := range map[Type]*halfFormat{Float16: &float16, BFloat16: &bfloat16} {
		for c := range 1 << 16 {
			h := uint16(c)
			want := h
			v := shortFloats[typ].value(h)
			if isNaN(v) {
				want = 0x7fff
			} else if got := float64(f.decode(h)); got != v {
				t.Fatalf("%s: %#x is %g, want %g", typ, h, got, v)
			}
			if got := f.encode(f.decode(h)); got != want {
				t.Fatalf("%s: %#x came back as %#x", typ, h, got)
			}
		}
	}
}

func FuzzCombine(f *testing.F) {
	f.Add(uint8(Float16), uint8(Sum), uint64(0x3c00), uint64(0x0001))
	f.Add(uint8(BFloat16), uint8(Prod), uint64(0x0081), uint64(0x3f7f))
	f.Fuzz(func(t *testing.T, typ, r uint8, a, b uint64) {
		ty, re := Type(typ%uint8(types)), Reduction(r%4)
		a, b = loadCode(ty, storeCode(ty, a)), loadCode(ty, storeCode(ty, b))
		got := make([]byte, ty.Size())
		combiners[ty][re](got, storeCode(ty, a), storeCode(ty, b))
		if g, w := loadCode(ty, got), oracleCombine(ty, re, a, b); g != w {
			t.Fatalf("%s %s: %#x ∘ %#x = %#x, want %#x", ty, re, a, b, g, w)
		}
	})
}
