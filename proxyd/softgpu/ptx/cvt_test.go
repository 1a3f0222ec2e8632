// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// TestConvertFloats: conversions to narrower types are the exact value rounded once.
func TestConvertFloats(t *testing.T) {
	cases := []struct {
		to, from types.Type
		modes    []string
	}{
		{types.F16, types.F32, []string{"rn", "rz"}}, {types.BF16, types.F32, []string{"rn", "rz"}}, {types.F32, types.F64, []string{"rn", "rz", "rm", "rp"}},
		{types.F16, types.F64, []string{"rn", "rz", "rm", "rp"}},
	}
	for _, c := range cases {
		for _, mode := range c.modes {
			t.Run(fmt.Sprintf("%s.%s.%s", mode, c.to, c.from), func(t *testing.T) {
				rows := valuesAround(c.to, c.from)
				got := evaluate(t, fmt.Sprintf("cvt.%s.%s.%s d, a;", mode, c.to, c.from), []string{c.to.String(), c.from.String()}, rows)
				f := layouts[c.to]
				for i, r := range rows {
					x, neg, inf, nan := layouts[c.from].exactValue(r[0])
					want := uint64(0)
					switch {
					case nan:
						if !isNaN(c.to, got[i]) {
							t.Fatalf("conversion of a NaN: %#x, want a NaN", got[i])
						}
						continue
					case inf:
						want = uint64(1<<f.exp-1) << f.mant
					case x.Sign() != 0:
						want = f.roundExact(x, mode)
					}
					if neg {
						want |= 1 << (f.exp + f.mant)
					}
					if got[i] != want {
						t.Fatalf("of %#x: %#x, should be %#x", r[0], got[i], want)
					}
				}
			})
		}
	}
	t.Run("widening", func(t *testing.T) {
		for _, c := range [][2]types.Type{{types.F32, types.F16}, {types.F64, types.F16}, {types.F32, types.BF16}, {types.F64, types.F32}} {
			rows := floatOperands(c[1], 3, 100)
			got := evaluate(t, fmt.Sprintf("cvt.%s.%s d, a;", c[0], c[1]), []string{c[0].String(), c[1].String()}, rows)
			for i, r := range rows {
				x, _, _, nan := layouts[c[1]].exactValue(r[0])
				y, _, _, nan2 := layouts[c[0]].exactValue(got[i])
				if nan != nan2 || x != nil && (y == nil || x.Cmp(y) != 0) {
					t.Fatalf("cvt of types %v, of %#x: %#x, which is another number", c, r[0], got[i])
				}
			}
		}
	})
}

// valuesAround lists values of type from that are at, between and next to values of type to.
func valuesAround(to, from types.Type) [][3]uint64 {
	r := rand.New(rand.NewPCG(7, 7))
	var rows [][3]uint64
	f := layouts[to]
	add := func(v float64) {
		for _, s := range []float64{v, -v} {
			b := math.Float64bits(s)
			if from == types.F32 {
				b = uint64(math.Float32bits(float32(s)))
			}
			for _, d := range []uint64{0, 1, ^uint64(0)} {
				rows = append(rows, [3]uint64{(b + d) & types.SizeMask(from.Size())})
			}
		}
	}
	top := uint64(1<<f.exp-1) << f.mant
	val := func(v uint64) float64 {
		x, _, _, _ := f.exactValue(v)
		if x == nil {
			return math.Inf(1)
		}
		y, _ := x.Float64()
		return y
	}
	for _, v := range []uint64{0, 1, 2, 1<<f.mant - 1, 1 << f.mant, top - 2, top - 1} {
		add(val(v))
		add((val(v) + val(min(v+1, top-1))) / 2)
	}
	add(val(top-1) + (val(top-1)-val(top-2))/2)
	for range 30 {
		v := r.Uint64N(top - 1)
		add(val(v))
		add((val(v) + val(v+1)) / 2)
	}
	add(math.Inf(1))
	return rows
}

// TestConvertToIntegers: rounded as asked, clamped to the type. NaN is 0, but of f64, and as an integer of 64 bits, the
// highest bit of the result's type alone.
func TestConvertToIntegers(t *testing.T) {
	round := map[string]func(float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil}
	r := rand.New(rand.NewPCG(3, 4))
	for _, st := range []types.Type{types.F32, types.F64, types.F16} {
		var rows [][3]uint64
		for _, v := range floatEdges(st) {
			rows = append(rows, [3]uint64{v})
		}
		for range 200 {
			v := math.Ldexp(r.Float64()*2-1, r.IntN(68))
			if r.IntN(2) == 0 {
				v = math.Round(v) + 0.5
			}
			rows = append(rows, [3]uint64{float.Bits(st, v)})
		}
		for _, name := range []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"} {
			dt := types.ByName[name]
			for mode, f := range round {
				reg := name
				if dt.Size() == 1 {
					reg = "b16"
				}
				got := evaluate(t, fmt.Sprintf("cvt.%s.%s.%s d, a;", mode, name, st), []string{reg, st.String()}, rows)
				for i, row := range rows {
					v := f(float.Decode(st, row[0]))
					want := uint64(0)
					switch {
					case math.IsInf(v, 0):
						want = clampToType(dt, new(big.Int).Mul(big.NewInt(int64(math.Copysign(1, v))), new(big.Int).Lsh(big.NewInt(1), 70)))
					case v == v:
						n, _ := big.NewFloat(v).Int(nil)
						want = clampToType(dt, n)
					case st == types.F64 || dt.Size() == 8:
						want = 1 << (8*dt.Size() - 1)
					}
					if g := got[i] & types.SizeMask(dt.Size()); g != want {
						t.Fatalf("cvt.%s.%s.%s of %#x: %#x, should be %#x", mode, name, st, row[0], g, want)
					}
				}
			}
		}
	}
}

// TestConvertIntegers covers integers to integers, with and without clamping, and to
// floating point.
func TestConvertIntegers(t *testing.T) {
	ints := []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"}
	reg := func(n string) string {
		if types.ByName[n].Size() == 1 {
			return "b32"
		}
		return n
	}
	rows := thinOut(operandRows(8, 100), 16, 0)
	for _, s := range ints {
		st := types.ByName[s]
		for _, d := range ints {
			dt := types.ByName[d]
			for _, sat := range []string{"", "sat."} {
				got := evaluate(t, fmt.Sprintf("cvt.%s%s.%s d, a;", sat, d, s), []string{reg(d), reg(s)}, rows)
				for i, r := range rows {
					n := numberOf(st, r[0])
					want := wrapToType(dt, n)
					if sat != "" {
						want = clampToType(dt, n)
					}
					if dt.Size() == 1 {
						// Into a wider register it is extended.
						want = wrapToType(types.U32, numberOf(dt, want))
					}
					if got[i] != want {
						t.Fatalf("cvt.%s%s.%s of %#x: %#x, should be %#x", sat, d, s, r[0], got[i], want)
					}
				}
			}
		}
		for _, f := range []types.Type{types.F32, types.F64, types.F16} {
			for _, mode := range []string{"rn", "rz", "rm", "rp"} {
				got := evaluate(t, fmt.Sprintf("cvt.%s.%s.%s d, a;", mode, f, s), []string{f.String(), reg(s)}, rows)
				for i, r := range rows {
					n := numberOf(st, r[0])
					want := uint64(0)
					if n.Sign() != 0 {
						want = layouts[f].roundExact(new(big.Rat).SetInt(n), mode)
					}
					if got[i] != want {
						t.Fatalf("cvt.%s.%s.%s of %#x: %#x, should be %#x", mode, f, s, r[0], got[i], want)
					}
				}
			}
		}
	}
}

// TestEightBits: all fp8 codes are decoded, and come back; numbers between two codes are rounded.
func TestEightBits(t *testing.T) {
	for _, e := range []types.Type{types.E4M3x2, types.E5M2x2} {
		f := layouts[e]
		value := func(v uint64) float64 {
			if e == types.E4M3x2 && v&0x7f >= 0x78 && v&0x7f < 0x7f {
				// E4M3 has no infinities: the last exponent is an ordinary exponent.
				m := math.Ldexp(8+float64(v&7), 15-7-3)
				if v&0x80 != 0 {
					m = -m
				}
				return m
			}
			x, neg, inf, nan := f.exactValue(v)
			switch {
			case nan, e == types.E4M3x2 && v&0x7f == 0x7f:
				return math.NaN()
			case inf && neg:
				return math.Inf(-1)
			case inf:
				return math.Inf(1)
			}
			y, _ := x.Float64()
			if neg {
				y = math.Copysign(y, -1)
			}
			return y
		}
		var rows, singles [][3]uint64
		for v := range uint64(256) {
			rows = append(rows, [3]uint64{v | (255-v)<<8})
			singles = append(singles, [3]uint64{float.Bits32(float32(value(v))), float.Bits32(float32(value(255 - v)))})
		}
		got := evaluate(t, "cvt.rn.f16x2."+e.String()+" d, a;", []string{"b32", "b16"}, rows)
		back := evaluate(t, "cvt.rn.satfinite."+e.String()+".f32 d, a, b;", []string{"b16", "f32", "f32"}, singles)
		for v := range uint64(256) {
			for h, code := range []uint64{v, 255 - v} {
				want := float.Bits(types.F16, value(code))
				if value(code) == 0 {
					want = code & 0x80 << 8
				}
				if g := got[v] >> (16 * h) & 0xffff; g != want {
					t.Fatalf("%s %#x: %#x, should be %#x", e, code, g, want)
				}
				want = code
				switch y := value(code); {
				case y != y:
					want = 0x7f
				case math.IsInf(y, 0):
					want = code&0x80 | 0x7b
				}
				if g := back[v] >> (8 * (1 - h)) & 0xff; g != want {
					t.Fatalf("%s of %g: %#x, should be %#x", e, value(code), g, want)
				}
			}
		}
		ties := evaluate(t, "cvt.rn.satfinite."+e.String()+".f32 d, a, b;", []string{"b16", "f32", "f32"}, [][3]uint64{
			{float.Bits32(float32((value(0x30) + value(0x31)) / 2)), float.Bits32(float32((value(0x31) + value(0x32)) / 2))}, {float.Bits32(1e9), float.Bits32(-1e9)},
		})
		top := map[types.Type]uint64{types.E4M3x2: 0x7e, types.E5M2x2: 0x7b}[e]
		if ties[0] != 0x3032 || ties[1] != top<<8|top|0x80 {
			t.Errorf("%s: ties %#x, clamped %#x", e, ties[0], ties[1])
		}
	}
}

// TestLines are single cases with a result that was worked out by hand.
func TestLines(t *testing.T) {
	f := float.Bits32
	h := func(v float64) uint64 { return float.Bits(types.F16, v) }
	const nan, inf, ninf = 0x7fffffff, 0x7f800000, 0xff800000
	cases := []struct {
		op, types string
		in        [3]uint64
		want      uint64
	}{
		{"min.f32 d, a, b;", "f32 f32 f32", [3]uint64{nan, f(2)}, f(2)},
		{"min.f32 d, a, b;", "f32 f32 f32", [3]uint64{0, 0x80000000}, 0x80000000},
		{"max.f32 d, a, b;", "f32 f32 f32", [3]uint64{0x80000000, 0}, 0},
		{"max.f32 d, a, b;", "f32 f32 f32", [3]uint64{nan, nan | 1<<31}, nan},
		{"max.NaN.f32 d, a, b;", "f32 f32 f32", [3]uint64{nan, f(2)}, nan},
		{"min.xorsign.abs.f32 d, a, b;", "f32 f32 f32", [3]uint64{f(-3), f(2)}, f(-2)},
		{"max.ftz.f32 d, a, b;", "f32 f32 f32", [3]uint64{1, 2}, 0},
		{"min.f64 d, a, b;", "f64 f64 f64", [3]uint64{math.Float64bits(3), math.Float64bits(-2)}, math.Float64bits(-2)},
		{"max.f16 d, a, b;", "f16 f16 f16", [3]uint64{0x7fff, h(1.5)}, h(1.5)},
		{"neg.f32 d, a;", "f32 f32", [3]uint64{f(1.5)}, f(-1.5)},
		{"abs.f64 d, a;", "f64 f64", [3]uint64{math.Float64bits(-1.5)}, math.Float64bits(1.5)},
		{"abs.ftz.f32 d, a;", "f32 f32", [3]uint64{0x80000001}, 0},
		{"copysign.f32 d, a, b;", "f32 f32 f32", [3]uint64{f(-1), f(5)}, f(-5)},
		{"copysign.f64 d, a, b;", "f64 f64 f64", [3]uint64{0, math.Float64bits(-5)}, math.Float64bits(5)},
		{"testp.subnormal.f32 d, a;", "pred f32", [3]uint64{1}, 1},
		{"testp.normal.f32 d, a;", "pred f32", [3]uint64{1}, 0},
		{"testp.infinite.f64 d, a;", "pred f64", [3]uint64{math.Float64bits(math.Inf(-1))}, 1},
		{"testp.notanumber.f32 d, a;", "pred f32", [3]uint64{nan}, 1},
		{"testp.number.f32 d, a;", "pred f32", [3]uint64{inf}, 1},
		{"testp.finite.f32 d, a;", "pred f32", [3]uint64{inf}, 0},
		{"rcp.approx.ftz.f32 d, a;", "f32 f32", [3]uint64{f(3)}, f(1.0 / 3)},
		{"rcp.approx.ftz.f64 d, a;", "f64 f64", [3]uint64{math.Float64bits(4)}, math.Float64bits(0.25)},
		{"div.full.f32 d, a, b;", "f32 f32 f32", [3]uint64{f(1), f(3)}, f(1.0 / 3)},
		{"div.approx.ftz.f32 d, a, b;", "f32 f32 f32", [3]uint64{f(1), 1}, inf},
		{"sqrt.approx.f32 d, a;", "f32 f32", [3]uint64{f(2)}, f(math.Sqrt2)},
		{"rsqrt.approx.f32 d, a;", "f32 f32", [3]uint64{f(4)}, f(0.5)},
		{"rsqrt.approx.ftz.f64 d, a;", "f64 f64", [3]uint64{math.Float64bits(4)}, math.Float64bits(0.5)},
		{"sin.approx.f32 d, a;", "f32 f32", [3]uint64{f(1)}, f(float32(math.Sin(1)))},
		{"cos.approx.ftz.f32 d, a;", "f32 f32", [3]uint64{f(1)}, f(float32(math.Cos(1)))},
		{"lg2.approx.f32 d, a;", "f32 f32", [3]uint64{f(8)}, f(3)},
		{"lg2.approx.f32 d, a;", "f32 f32", [3]uint64{0}, ninf},
		{"ex2.approx.ftz.f32 d, a;", "f32 f32", [3]uint64{f(-130)}, 0},
		{"ex2.approx.f16x2 d, a;", "b32 b32", [3]uint64{h(3) | h(-1)<<16}, h(8) | h(0.5)<<16},
		{"tanh.approx.f32 d, a;", "f32 f32", [3]uint64{f(1)}, f(float32(math.Tanh(1)))},
		{"tanh.approx.bf16 d, a;", "b16 b16", [3]uint64{float.Bits(types.BF16, 100)}, float.Bits(types.BF16, 1)},
		{"mad.f32 d, a, b, c;", "f32 f32 f32 f32", [3]uint64{f(2), f(3), f(4)}, f(10)},
		{"fma.rn.relu.f16 d, a, b, c;", "f16 f16 f16 f16", [3]uint64{h(2), h(-3), h(4)}, 0},
		{"slct.f32.f32 d, a, b, c;", "f32 f32 f32 f32", [3]uint64{f(1), f(2), nan}, f(2)},
		{"slct.ftz.f32.f32 d, a, b, c;", "f32 f32 f32 f32", [3]uint64{f(1), f(2), 0x80000001}, f(1)},
		{"setp.ltu.f32 d, a, b;", "pred f32 f32", [3]uint64{nan, f(1)}, 1},
		{"setp.ne.f32 d, a, b;", "pred f32 f32", [3]uint64{nan, f(1)}, 0},
		{"setp.neu.f64 d, a, b;", "pred f64 f64", [3]uint64{math.Float64bits(1), math.Float64bits(1)}, 0},
		{"setp.equ.ftz.f32 d, a, b;", "pred f32 f32", [3]uint64{1, 0}, 1},
		{"setp.gt.f16 d, a, b;", "pred f16 f16", [3]uint64{h(2), h(1)}, 1},
		{"setp.num.bf16 d, a, b;", "pred b16 b16", [3]uint64{0x7fff, 0}, 0},
		{"setp.gt.f16x2 p|d, a, b;", "pred b32 b32", [3]uint64{h(2) | h(1)<<16, h(1) | h(2)<<16}, 0},
		{"set.ge.u32.f32 d, a, b;", "u32 f32 f32", [3]uint64{f(1), f(1)}, 0xffffffff},
		{"set.lt.f16x2.f16x2 d, a, b;", "b32 b32 b32", [3]uint64{h(2) | h(1)<<16, h(1) | h(2)<<16}, h(1) << 16},
		{"cvt.rna.tf32.f32 d, a;", "b32 f32", [3]uint64{0x3f801000}, 0x3f802000},
		{"cvt.rn.relu.f16.f32 d, a;", "b16 f32", [3]uint64{f(-2)}, 0},
		{"cvt.sat.f32.f32 d, a;", "f32 f32", [3]uint64{nan}, 0},
		{"cvt.rpi.f32.f32 d, a;", "f32 f32", [3]uint64{f(1.25)}, f(2)},
		{"cvt.rmi.ftz.f32.f32 d, a;", "f32 f32", [3]uint64{0x80000001}, 0x80000000},
		{"cvt.rn.bf16x2.f32 d, a, b;", "b32 f32 f32", [3]uint64{f(1), f(2)}, 0x3f804000},
		{"cvt.rn.relu.f16x2.f32 d, a, b;", "b32 f32 f32", [3]uint64{f(-1), f(2)}, h(2)},
		{"cvt.pack.sat.u16.s32 d, a, b;", "b32 s32 s32", [3]uint64{70000, 0xffffffff}, 0xffff0000},
		{"cvt.pack.sat.s8.s32.b32 d, a, b, c;", "b32 s32 s32 b32", [3]uint64{200, 0xffffff00, 0x12345678}, 0x56787f80},
		{"mov.b32 d, {a, b};", "b32 b16 b16", [3]uint64{0x1234, 0x5678}, 0x56781234},
		{"mov.b64 {p1, d}, a;", "b32 b64", [3]uint64{0x123456789abcdef0}, 0x12345678},
		{"{ .reg .b16 x<4>; mov.b64 {x0, x1, x2, x3}, a; mov.b64 d, {x3, x2, x1, x0}; }", "b64 b64", [3]uint64{0x123456789abcdef0}, 0xdef09abc56781234},
		{"{ .reg .b128 x; .reg .b64 y; mov.b128 x, {a, b}; mov.b128 {y, d}, x; }", "b64 b64 b64", [3]uint64{1, 2}, 2},
		{"add.u32 d, a, WARP_SZ;", "u32 u32", [3]uint64{1}, 33},
		{"add.s32 d, a, -(1+2)*3;", "s32 s32", [3]uint64{10}, 1},
		{"add.f32 d, a, 1.5;", "f32 f32", [3]uint64{f(1)}, f(2.5)},
		{"add.f64 d, a, 0d3FF8000000000000;", "f64 f64", [3]uint64{math.Float64bits(1)}, math.Float64bits(2.5)},
		{"@!p add.u32 d, a, 1; @p mov.u32 d, 7;", "u32 u32", [3]uint64{41}, 42},
		{"vadd.s32.u32.s32.sat d, a.b1, b.h1;", "s32 u32 s32", [3]uint64{0x8000, 0x7fff0000}, 0x807f},
		{"vsub.u32.u32.u32.sat d.b0, a.b0, b.b0, c;", "u32 u32 u32 u32", [3]uint64{1, 2, 0x12345678}, 0x12345600},
		{"vabsdiff.u32.s32.s32.add d, a.h0, b.h0, c;", "u32 s32 s32 u32", [3]uint64{0xffff, 5, 10}, 16},
		{"vmin.s32.s32.s32 d, a, b;", "s32 s32 s32", [3]uint64{0xffffffff, 1}, 0xffffffff},
		{"vmax.u32.u32.u32 d, a, b;", "u32 u32 u32", [3]uint64{0xffffffff, 1}, 0xffffffff},
		{"vshl.u32.u32.u32.wrap d, a, b;", "u32 u32 u32", [3]uint64{1, 33}, 2},
		{"vshr.u32.u32.u32.clamp.add d, a, b, c;", "u32 u32 u32 u32", [3]uint64{1 << 31, 33, 5}, 5},
		{"vmad.s32.s32.s32.shr7 d, a.h0, b.h0, c;", "s32 s32 s32 s32", [3]uint64{0xffff, 256, 0}, 0xfffffffe},
		{"vset.u32.s32.lt d, a.b0, b.b0;", "u32 u32 s32", [3]uint64{1, 0x80}, 0},
		{"vadd4.u32.u32.u32.sat d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x01ff0203, 0x01010101, 0}, 0x02ff0304},
		{"vadd2.s32.s32.s32 d, a, b, c;", "s32 s32 s32 s32", [3]uint64{0x7fff0001, 0x00010001, 0}, 0x80000002},
		{"vsub4.s32.s32.s32 d, a, b, c;", "s32 s32 s32 s32", [3]uint64{0x05050505, 0x01020304, 0}, 0x04030201},
		{"vsub2.u32.u32.u32.add d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x00050005, 0x00010002, 100}, 107},
		{"vavrg4.u32.u32.u32 d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x01020304, 0x03040506, 0}, 0x02030405},
		{"vavrg2.u32.u32.u32 d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x00010002, 0x00030004, 0}, 0x00020003},
		{"vabsdiff4.u32.u32.u32.add d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x01020304, 0x04030201, 1}, 9},
		{"vabsdiff2.u32.u32.u32 d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x00010009, 0x00050002, 0}, 0x00040007},
		{"vmin4.u32.u32.u32 d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x01020304, 0x04030201, 0}, 0x01020201},
		{"vmin2.s32.s32.s32 d, a, b, c;", "s32 s32 s32 s32", [3]uint64{0xffff0001, 0x00010000, 0}, 0xffff0000},
		{"vmax4.u32.u32.u32 d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x01020304, 0x04030201, 0}, 0x04030304},
		{"vmax2.s32.s32.s32 d, a, b, c;", "s32 s32 s32 s32", [3]uint64{0xffff0001, 0x00010000, 0}, 0x00010001},
		{"vset4.u32.u32.lt d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x01020304, 0x04030201, 0}, 0x01010000},
		{"vset2.u32.u32.ge d, a, b, c;", "u32 u32 u32 u32", [3]uint64{0x00010004, 0x00020003, 0}, 0x00000001},
	}
	for _, c := range cases {
		t.Run(c.op, func(t *testing.T) {
			op := c.op
			if op == "mov.b64 {p1, d}, a;" {
				op = "{ .reg .b32 p1; " + op + " }"
			}
			// p is false: no instruction has set it.
			got := evaluate(t, op, strings.Fields(c.types), [][3]uint64{c.in, c.in, c.in})
			for _, g := range got {
				if g != c.want {
					t.Fatalf("the result is %#x, want %#x", g, c.want)
				}
			}
		})
	}
}
