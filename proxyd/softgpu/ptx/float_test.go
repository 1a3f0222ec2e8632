// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// thinOut keeps every n-th row, from the k-th on; n 0 means 6.
func thinOut(rows [][3]uint64, n, k int) [][3]uint64 {
	if n == 0 {
		n = 6
	}
	var out [][3]uint64
	for i := k; i < len(rows); i += n {
		out = append(out, rows[i])
	}
	return out
}

func isNaN(t types.Type, v uint64) bool {
	_, _, _, nan := layouts[t].exactValue(v)
	return nan
}

// TestFloatRounding: each operation in each rounding mode of each type is the exact result
// rounded once.
func TestFloatRounding(t *testing.T) {
	all := []string{"rn", "rz", "rm", "rp"}
	cases := []struct {
		t     types.Type
		ops   []string
		modes []string
	}{
		{types.F32, []string{"add", "sub", "mul", "fma", "div", "rcp", "sqrt"}, all},
		{types.F64, []string{"add", "sub", "mul", "fma", "div", "rcp", "sqrt"}, all},
		{types.F16, []string{"add", "sub", "mul", "fma"}, []string{"rn"}},
		{types.BF16, []string{"add", "sub", "mul", "fma"}, []string{"rn"}},
	}
	n := 200
	if testing.Short() {
		n = 50
	}
	for _, c := range cases {
		for _, op := range c.ops {
			for k, mode := range c.modes {
				t.Run(fmt.Sprintf("%s.%s.%s", op, mode, c.t), func(t *testing.T) {
					t.Parallel()
					args := map[string]string{"fma": "a, b, c", "rcp": "a", "sqrt": "a"}[op]
					if args == "" {
						args = "a, b"
					}
					// A part of the edges for each mode: rational numbers are slow.
					rows := thinOut(floatOperands(c.t, uint64(k), n), map[types.Type]int{types.F64: 40}[c.t], k)
					name := c.t.String()
					got := evaluate(t, fmt.Sprintf("%s.%s.%s d, %s;", op, mode, name, args), []string{name, name, name, name}, rows)
					for i, r := range rows {
						want, nan := ieeeResult(c.t, op, mode, r)
						if nan {
							if !isNaN(c.t, got[i]) {
								t.Fatalf("of %#x: %#x, should be NaN", r, got[i])
							}
							if canon := map[types.Type]uint64{types.F32: 0x7fffffff, types.F16: 0x7fff, types.BF16: 0x7fff}[c.t]; canon != 0 && got[i] != canon {
								t.Fatalf("of %#x: NaN %#x, should be %#x", r, got[i], canon)
							}
							continue
						}
						if got[i] != want {
							t.Fatalf("of %#x: %#x, should be %#x", r, got[i], want)
						}
					}
				})
			}
		}
	}
}

// TestFlushToZero: with .ftz subnormal operands and results are zeros of their sign.
func TestFlushToZero(t *testing.T) {
	flush := func(v uint64) uint64 {
		if v&0x7f800000 == 0 {
			v &= 0x80000000
		}
		return v
	}
	for _, op := range []string{"add", "sub", "mul", "fma", "div", "sqrt", "rcp"} {
		for _, mode := range []string{"rn", "rz", "rm", "rp"} {
			t.Run(op+"."+mode, func(t *testing.T) {
				args := map[string]string{"fma": "a, b, c", "rcp": "a", "sqrt": "a"}[op]
				if args == "" {
					args = "a, b"
				}
				rows := thinOut(floatOperands(types.F32, 9, 100), 6, 1)
				got := evaluate(t, op+"."+mode+".ftz.f32 d, "+args+";", []string{"f32", "f32", "f32", "f32"}, rows)
				for i, r := range rows {
					want, nan := ieeeResult(types.F32, op, mode, [3]uint64{flush(r[0]), flush(r[1]), flush(r[2])})
					if nan {
						want = 0x7fffffff
					}
					if got[i] != flush(want) {
						t.Fatalf("of %#x: %#x, should be %#x", r, got[i], flush(want))
					}
				}
			})
		}
	}
}

// TestSaturate: with .sat results lie in 0 to 1, and NaN is 0.
func TestSaturate(t *testing.T) {
	for _, op := range []string{"add", "mul", "fma"} {
		args := "a, b"
		if op == "fma" {
			args += ", c"
		}
		rows := thinOut(floatOperands(types.F32, 11, 200), 4, 1)
		got := evaluate(t, op+".rn.sat.f32 d, "+args+";", []string{"f32", "f32", "f32", "f32"}, rows)
		for i, r := range rows {
			want, nan := ieeeResult(types.F32, op, "rn", r)
			f := math.Float32frombits(uint32(want))
			switch {
			case nan, f <= 0:
				want = 0
			case f > 1:
				want = 0x3f800000
			}
			if got[i] != want {
				t.Fatalf("%s of %#x: %#x, should be %#x", op, r, got[i], want)
			}
		}
	}
}

// TestPackedHalves: the x2 forms compute each half as the plain forms do.
func TestPackedHalves(t *testing.T) {
	for _, e := range []types.Type{types.F16, types.BF16} {
		rows := floatOperands(e, 5, 300)
		packed := make([][3]uint64, len(rows))
		for i := range rows {
			for k := range 3 {
				packed[i][k] = rows[i][k] | rows[len(rows)-1-i][k]<<16
			}
		}
		for _, op := range []string{"add.rn", "sub.rn", "mul.rn", "fma.rn", "fma.rn.relu", "min", "max.NaN", "neg", "abs"} {
			args := " d, a, b;"
			switch op[:3] {
			case "fma":
				args = " d, a, b, c;"
			case "neg", "abs":
				args = " d, a;"
			}
			name := e.String()
			one := evaluate(t, op+"."+name+args, []string{name, name, name, name}, rows)
			two := evaluate(t, op+"."+name+"x2"+args, []string{"b32", "b32", "b32", "b32"}, packed)
			for i := range rows {
				if want := one[i] | one[len(rows)-1-i]<<16; two[i] != want {
					t.Fatalf("%s.%sx2 of %#x: %#x, should be %#x", op, name, packed[i], two[i], want)
				}
			}
		}
	}
}

// TestPackedFloats: the f32x2 forms compute each half as the plain forms do, also where the result is a source.
func TestPackedFloats(t *testing.T) {
	rows := floatOperands(types.F32, 6, 300)
	packed := make([][3]uint64, len(rows))
	for i := range rows {
		for k := range 3 {
			packed[i][k] = rows[i][k] | rows[len(rows)-1-i][k]<<32
		}
	}
	for _, op := range []string{"add", "add.rm", "sub.rn.ftz", "mul.rz", "mul.ftz", "fma.rn", "fma.rp.ftz"} {
		args := "a, b;"
		if strings.HasPrefix(op, "fma") {
			args = "a, b, c;"
		}
		one := evaluate(t, op+".f32 d, "+args, []string{"f32", "f32", "f32", "f32"}, rows)
		two := evaluate(t, op+".f32x2 d, "+args, []string{"b64", "b64", "b64", "b64"}, packed)
		own := evaluate(t, op+".f32x2 a, "+args+" mov.b64 d, a;", []string{"b64", "b64", "b64", "b64"}, packed)
		for i := range rows {
			if want := one[i] | one[len(rows)-1-i]<<32; two[i] != want || own[i] != want {
				t.Fatalf("%s.f32x2 of %#x: %#x and %#x, should be %#x", op, packed[i], two[i], own[i], want)
			}
		}
	}
}
