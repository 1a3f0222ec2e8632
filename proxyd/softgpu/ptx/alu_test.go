// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// edges are the integers at which errors of rounding, sign or width would show.
var edges = []uint64{0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
	1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1, 0x123456789abcdef0, 0xfedcba9876543210}

// operandRows returns rows of edge cases and of random values.
func operandRows(seed uint64, n int) [][3]uint64 {
	r := rand.New(rand.NewPCG(seed, 1))
	var rows [][3]uint64
	for _, a := range edges {
		for _, b := range edges {
			rows = append(rows, [3]uint64{a, b, edges[r.IntN(len(edges))]})
		}
	}
	for range n {
		rows = append(rows, [3]uint64{r.Uint64() >> r.IntN(64), r.Uint64() >> r.IntN(64), r.Uint64() >> r.IntN(64)})
	}
	return rows
}

// numberOf reads v as a value of a type, by definition.
func numberOf(t types.Type, v uint64) *big.Int {
	n := new(big.Int).SetUint64(v & types.SizeMask(t.Size()))
	if t.IsSigned() && v>>(8*t.Size()-1)&1 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*t.Size())))
	}
	return n
}

// wrapToType cuts a number to a type's bits.
func wrapToType(t types.Type, n *big.Int) uint64 {
	m := new(big.Int).Lsh(big.NewInt(1), uint(8*t.Size()))
	return new(big.Int).Mod(n, m).Uint64()
}

// clampToType limits a number to a type's range.
func clampToType(t types.Type, n *big.Int) uint64 {
	lo, hi := big.NewInt(0), new(big.Int).Lsh(big.NewInt(1), uint(8*t.Size()))
	if t.IsSigned() {
		hi.Rsh(hi, 1)
		lo.Neg(hi)
	}
	hi.Sub(hi, big.NewInt(1))
	if n.Cmp(lo) < 0 {
		n = lo
	}
	if n.Cmp(hi) > 0 {
		n = hi
	}
	return wrapToType(t, n)
}

type oracle func(a, b, c *big.Int) *big.Int

func bigOp(f func(z, a, b *big.Int) *big.Int) oracle {
	return func(a, b, _ *big.Int) *big.Int { return f(new(big.Int), a, b) }
}

// TestIntegerArithmetic compares with arbitrary precision.
func TestIntegerArithmetic(t *testing.T) {
	add := bigOp((*big.Int).Add)
	sub := bigOp((*big.Int).Sub)
	mul := bigOp((*big.Int).Mul)
	mad := func(a, b, c *big.Int) *big.Int { return new(big.Int).Add(mul(a, b, nil), c) }
	quo := func(a, b, _ *big.Int) *big.Int {
		if b.Sign() == 0 {
			return big.NewInt(-1)
		}
		return new(big.Int).Quo(a, b)
	}
	rem := func(a, b, _ *big.Int) *big.Int {
		if b.Sign() == 0 {
			return a
		}
		return new(big.Int).Rem(a, b)
	}
	least := func(a, b, _ *big.Int) *big.Int {
		if a.Cmp(b) < 0 {
			return a
		}
		return b
	}
	most := func(a, b, _ *big.Int) *big.Int {
		if a.Cmp(b) > 0 {
			return a
		}
		return b
	}
	sad := func(a, b, c *big.Int) *big.Int {
		d := sub(a, b, nil)
		return d.Add(d.Abs(d), c)
	}
	abs := func(a, _, _ *big.Int) *big.Int { return new(big.Int).Abs(a) }
	neg := func(a, _, _ *big.Int) *big.Int { return new(big.Int).Neg(a) }
	cases := []struct {
		op    string
		args  int
		types string
		f     oracle
		sat   bool
	}{
		{"add", 2, "u16 s16 u32 s32 u64 s64", add, false},
		{"sub", 2, "u16 s16 u32 s32 u64 s64", sub, false},
		{"add.sat", 2, "s32", add, true},
		{"sub.sat", 2, "s32", sub, true},
		{"mul.lo", 2, "u16 s16 u32 s32 u64 s64", mul, false},
		{"mad.lo", 3, "u16 s16 u32 s32 u64 s64", mad, false},
		{"div", 2, "u16 s16 u32 s32 u64 s64", quo, false},
		{"rem", 2, "u16 s16 u32 s32 u64 s64", rem, false},
		{"min", 2, "u16 s16 u32 s32 u64 s64", least, false},
		{"max", 2, "u16 s16 u32 s32 u64 s64", most, false},
		{"sad", 3, "u16 s16 u32 s32 u64 s64", sad, false},
		{"abs", 1, "s16 s32 s64", abs, false},
		{"neg", 1, "s16 s32 s64", neg, false},
	}
	rows := operandRows(1, 64)
	for _, c := range cases {
		for _, name := range strings.Fields(c.types) {
			t.Run(c.op+"."+name, func(t *testing.T) {
				typ := types.ByName[name]
				op := c.op + "." + name + " d, " + strings.Join([]string{"a", "b", "c"}[:c.args], ", ") + ";"
				got := evaluate(t, op, []string{name, name, name, name}, rows)
				for i, r := range rows {
					n := c.f(numberOf(typ, r[0]), numberOf(typ, r[1]), numberOf(typ, r[2]))
					want := wrapToType(typ, n)
					if c.sat {
						want = clampToType(typ, n)
					}
					if got[i] != want {
						t.Fatalf("of %#x: %#x, should be %#x", r, got[i], want)
					}
				}
			})
		}
	}
}

// TestIntegerProducts covers the operations that give more bits than their operands have.
func TestIntegerProducts(t *testing.T) {
	wideOf := map[string]string{"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
	rows := operandRows(2, 64)
	check := func(op string, names []string, f func(a, b, c *big.Int) *big.Int, ct string) {
		t.Run(op, func(t *testing.T) {
			st, dt := types.ByName[names[1]], types.ByName[names[0]]
			args := " d, a, b;"
			if len(names) == 4 {
				args = " d, a, b, c;"
			}
			got := evaluate(t, op+args, names, rows)
			for i, r := range rows {
				want := wrapToType(dt, f(numberOf(st, r[0]), numberOf(st, r[1]), numberOf(types.ByName[ct], r[2])))
				if got[i] != want {
					t.Fatalf("of %#x: %#x, should be %#x", r, got[i], want)
				}
			}
		})
	}
	for _, s := range []string{"u16", "s16", "u32", "s32", "u64", "s64"} {
		bitsOf := uint(8 * types.ByName[s].Size())
		hi := func(a, b, _ *big.Int) *big.Int { p := new(big.Int).Mul(a, b); return p.Rsh(p, bitsOf) }
		check("mul.hi."+s, []string{s, s, s}, hi, s)
		check("mad.hi."+s, []string{s, s, s, s}, func(a, b, c *big.Int) *big.Int { return new(big.Int).Add(hi(a, b, nil), c) }, s)
		if w := wideOf[s]; w != "" {
			check("mul.wide."+s, []string{w, s, s}, func(a, b, _ *big.Int) *big.Int { return new(big.Int).Mul(a, b) }, s)
			check("mad.wide."+s, []string{w, s, s, w}, func(a, b, c *big.Int) *big.Int {
				p := new(big.Int).Mul(a, b)
				return p.Add(p, c)
			}, w)
		}
	}
	for _, s := range []string{"u32", "s32"} {
		low := func(n *big.Int) *big.Int {
			m := new(big.Int).Mod(n, big.NewInt(1<<24))
			if s == "s32" && m.Cmp(big.NewInt(1<<23)) >= 0 {
				m.Sub(m, big.NewInt(1<<24))
			}
			return m
		}
		lo := func(a, b, _ *big.Int) *big.Int { return new(big.Int).Mul(low(a), low(b)) }
		hi := func(a, b, _ *big.Int) *big.Int { p := lo(a, b, nil); return p.Rsh(p, 16) }
		check("mul24.lo."+s, []string{s, s, s}, lo, s)
		check("mul24.hi."+s, []string{s, s, s}, hi, s)
		check("mad24.lo."+s, []string{s, s, s, s}, func(a, b, c *big.Int) *big.Int { return new(big.Int).Add(lo(a, b, nil), c) }, s)
		check("mad24.hi."+s, []string{s, s, s, s}, func(a, b, c *big.Int) *big.Int { return new(big.Int).Add(hi(a, b, nil), c) }, s)
	}
}

// TestCarry chains words into wider numbers.
func TestCarry(t *testing.T) {
	rows := operandRows(4, 100)
	cases := []struct {
		name, op string
		f        func(a, b, c uint64) uint64
	}{
		{"add", "add.cc.u32 x0, a0, b0;\naddc.u32 x1, a1, b1;", func(a, b, _ uint64) uint64 { return a + b }},
		{"sub", "sub.cc.u32 x0, a0, b0;\nsubc.u32 x1, a1, b1;", func(a, b, _ uint64) uint64 { return a - b }},
		{"mad", "mad.lo.cc.u32 x0, a0, b0, c0;\nmadc.hi.u32 x1, a0, b0, c1;", func(a, b, c uint64) uint64 { return uint64(uint32(a))*uint64(uint32(b)) + c }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			op := "{ .reg .b32 a0, a1, b0, b1, c0, c1, x0, x1; mov.b64 {a0, a1}, a; mov.b64 {b0, b1}, b; mov.b64 {c0, c1}, c;\n" + c.op + "\nmov.b64 d, {x0, x1}; }"
			got := evaluate(t, op, []string{"b64", "b64", "b64", "b64"}, rows)
			for i, r := range rows {
				if want := c.f(r[0], r[1], r[2]); got[i] != want {
					t.Fatalf("of %#x: %#x, should be %#x", r, got[i], want)
				}
			}
		})
	}
	t.Run("add128", func(t *testing.T) {
		op := "{ .reg .b64 x; add.cc.u64 x, a, b; addc.cc.u64 d, 0, c; addc.u64 d, d, 0; }"
		got := evaluate(t, op, []string{"b64", "b64", "b64", "b64"}, rows)
		for i, r := range rows {
			_, k := bits.Add64(r[0], r[1], 0)
			v, k2 := bits.Add64(0, r[2], k)
			if got[i] != v+k2 {
				t.Fatalf("of %#x: %#x, should be %#x", r, got[i], v+k2)
			}
		}
	})
}

// TestCompareIntegers covers setp and set with all comparisons and combinations.
func TestCompareIntegers(t *testing.T) {
	rows := operandRows(5, 20)
	holds := map[string]func(c int) bool{
		"eq": func(c int) bool { return c == 0 }, "ne": func(c int) bool { return c != 0 },
		"lt": func(c int) bool { return c < 0 }, "le": func(c int) bool { return c <= 0 },
		"gt": func(c int) bool { return c > 0 }, "ge": func(c int) bool { return c >= 0 },
		"lo": func(c int) bool { return c < 0 }, "ls": func(c int) bool { return c <= 0 },
		"hi": func(c int) bool { return c > 0 }, "hs": func(c int) bool { return c >= 0 },
	}
	for _, name := range []string{"u16", "s16", "u32", "s32", "u64", "s64", "b32"} {
		typ := types.ByName[name]
		for op, f := range holds {
			if typ.IsSigned() && (op == "lo" || op == "ls" || op == "hi" || op == "hs") {
				continue
			}
			t.Run(op+"."+name, func(t *testing.T) {
				got := evaluate(t, fmt.Sprintf("setp.%s.%s d, a, b;", op, name), []string{"pred", name, name}, rows)
				both := evaluate(t, fmt.Sprintf("setp.%s.xor.%s p|d, a, b, c;", op, name), []string{"pred", name, name, "pred"}, rows)
				set := evaluate(t, fmt.Sprintf("set.%s.and.u32.%s d, a, b, !c;", op, name), []string{"u32", name, name, "pred"}, rows)
				one := evaluate(t, fmt.Sprintf("set.%s.f32.%s d, a, b;", op, name), []string{"f32", name, name}, rows)
				for i, r := range rows {
					want := f(numberOf(typ, r[0]).Cmp(numberOf(typ, r[1])))
					c := uint32(r[2]) != 0
					if got[i] != truthOf(want) || both[i] != truthOf(!want != c) || set[i] != truthOf(want && !c)*0xffffffff || one[i] != truthOf(want)*0x3f800000 {
						t.Fatalf("of %#x: setp gives %v, setp.xor %#x, set.and %#x, set.f32 %#x", r, got[i], both[i], set[i], one[i])
					}
				}
			})
		}
	}
}
