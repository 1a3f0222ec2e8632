// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// mmaCase is a shape with the element types of A, B and of C and D.
type mmaCase struct {
	mods    string
	m, n, k int
	a, b, c string
}

// encodeElement writes a small whole number as an element.
func encodeElement(t string, v int) uint64 {
	switch t {
	case "f16":
		return float.Bits(types.F16, float64(v))
	case "bf16":
		return float.Bits(types.BF16, float64(v))
	case "tf32", "f32":
		return float.Bits(types.F32, float64(v))
	case "f64":
		return math.Float64bits(float64(v))
	}
	return uint64(v)
}

func elementBits(t string) int {
	return map[string]int{"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}[t]
}

// mmaLanes distributes a matrix over 32 lanes by the manual's tables: val returns element i of a lane.
func mmaLanes(t string, count int, val func(lane, i int) int) (regs [][32]uint64) {
	w := elementBits(t)
	rw := max(w, 32)
	per := rw / w
	regs = make([][32]uint64, count/per)
	for r := range regs {
		for lane := range 32 {
			for e := range per {
				regs[r][lane] |= encodeElement(t, val(lane, r*per+e)) & sizeMaskBits(w%64+64*(w/64)) << (w * e)
			}
		}
	}
	return regs
}

// TestMma compares with the product by definition. The places of elements follow the
// tables of the manual, written here shape by shape.
func TestMma(t *testing.T) {
	cases := []mmaCase{
		{"row.col", 16, 8, 16, "f16", "f16", "f32"}, {"row.col", 16, 8, 8, "f16", "f16", "f16"}, {"row.col", 16, 8, 16, "f16", "f16", "f16"},
		{"row.col", 16, 8, 16, "bf16", "bf16", "f32"}, {"row.col", 16, 8, 8, "bf16", "bf16", "f32"},
		{"row.col", 16, 8, 4, "tf32", "tf32", "f32"}, {"row.col", 16, 8, 8, "tf32", "tf32", "f32"},
		{"row.col", 8, 8, 16, "s8", "u8", "s32"}, {"row.col", 16, 8, 16, "s8", "s8", "s32"}, {"row.col.satfinite", 16, 8, 32, "u8", "s8", "s32"},
		{"row.col", 8, 8, 32, "s4", "s4", "s32"}, {"row.col", 16, 8, 64, "u4", "s4", "s32"}, {"row.col", 16, 8, 32, "s4", "u4", "s32"},
		{"row.col", 8, 8, 4, "f64", "f64", "f64"},
		{"row.col.xor.popc", 8, 8, 128, "b1", "b1", "s32"}, {"row.col.and.popc", 16, 8, 256, "b1", "b1", "s32"},
	}
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range cases {
		t.Run(fmt.Sprintf("m%dn%dk%d.%s.%s.%s", c.m, c.n, c.k, c.a, c.b, c.c), func(t *testing.T) {
			small := func(typ string) int {
				switch {
				case typ == "b1":
					return r.IntN(2)
				case typ[0] == 'u':
					return r.IntN(8)
				}
				return r.IntN(15) - 7
			}
			a, b, acc := make([]int, c.m*c.k), make([]int, c.k*c.n), make([]int, c.m*c.n)
			for i := range a {
				a[i] = small(c.a)
			}
			for i := range b {
				b[i] = small(c.b)
			}
			for i := range acc {
				acc[i] = small("s32")
			}
			// Elements of a lane along k that are neighbours, and rows per block.
			run := max(32/elementBits(c.a), 1)
			aAt := func(lane, i int) int {
				block, e := i/run, i%run
				row := lane / 4
				if c.m == 16 {
					row += 8 * (block % 2)
					block /= 2
				}
				return a[row*c.k+block*4*run+lane%4*run+e]
			}
			bAt := func(lane, i int) int { return b[(i/run*4*run+lane%4*run+i%run)*c.n+lane/4] }
			cPlace := func(lane, i int) int { return (lane/4+i/2*8)*c.n + lane%4*2 + i%2 }
			ar, br := mmaLanes(c.a, c.m*c.k/32, aAt), mmaLanes(c.b, c.k*c.n/32, bAt)
			cr := mmaLanes(c.c, c.m*c.n/32, func(lane, i int) int { return acc[cPlace(lane, i)] })
			got := runMma(t, c, ar, br, cr)
			want := mmaLanes(c.c, c.m*c.n/32, func(lane, i int) int {
				at := cPlace(lane, i)
				sum := acc[at]
				for k := range c.k {
					x, y := a[at/c.n*c.k+k], b[k*c.n+at%c.n]
					switch {
					case strings.Contains(c.mods, "xor"):
						sum += bits.OnesCount(uint(x ^ y))
					default:
						sum += x * y
					}
				}
				return sum
			})
			for reg := range want {
				for lane := range 32 {
					if g, w := got[reg][lane], want[reg][lane]; g != w && (c.c != "s32" || uint32(g) != uint32(w)) {
						t.Fatalf("register %d, lane %d: %#x, should be %#x", reg, lane, g, w)
					}
				}
			}
		})
	}
}

// runMma runs a single mma with the given registers.
func runMma(t *testing.T, c mmaCase, a, b, acc [][32]uint64) [][32]uint64 {
	t.Helper()
	rt := "b32"
	if c.a == "f64" {
		rt = "b64"
	}
	mods := strings.NewReplacer(".xor.popc", "", ".and.popc", "").Replace(c.mods)
	return runProduct(t, fmt.Sprintf("mma.sync.aligned.m%dn%dk%d.%s.%s.%s.%s.%s", c.m, c.n, c.k, mods, c.c, c.a, c.b, c.c+bitOpOf(c.mods)), rt, a, b, acc)
}

// runProduct runs a single instruction that multiplies matrices, with the given registers of type rt.
func runProduct(t *testing.T, instruction, rt string, a, b, acc [][32]uint64) [][32]uint64 {
	t.Helper()
	var text strings.Builder
	text.WriteString(header + ".entry k(.param .u64 in, .param .u64 out) {\n.reg .b64 %in, %out, %o; .reg .b32 %t;\n")
	list := func(name string, n int) string {
		var s []string
		for i := range n {
			s = append(s, fmt.Sprintf("%s%d", name, i))
		}
		return "{" + strings.Join(s, ", ") + "}"
	}
	fmt.Fprintf(&text, ".reg .%s a<9>, b<9>, c<9>, d<9>;\nld.param.u64 %%in, [in]; ld.param.u64 %%out, [out]; mov.u32 %%t, %%tid.x; mul.wide.u32 %%o, %%t, 8; add.u64 %%in, %%in, %%o; add.u64 %%out, %%out, %%o;\n", rt)
	var bytes []byte
	for i, part := range []struct {
		name string
		regs [][32]uint64
	}{{"a", a}, {"b", b}, {"c", acc}} {
		_ = i
		for k, reg := range part.regs {
			fmt.Fprintf(&text, "ld.global.%s %s%d, [%%in+%d];\n", rt, part.name, k, len(bytes))
			for _, v := range reg {
				bytes = binary.LittleEndian.AppendUint64(bytes, v)
			}
		}
	}
	fmt.Fprintf(&text, "%s %s, %s, %s, %s;\n", instruction, list("d", len(acc)), list("a", len(a)), list("b", len(b)), list("c", len(acc)))
	for k := range acc {
		fmt.Fprintf(&text, "st.global.%s [%%out+%d], d%d;\n", rt, 256*k, k)
	}
	text.WriteString("ret; }")
	m := bootMachine(t, text.String())
	m.mapAt(testIn, bytes)
	out := m.mapAt(testOut, make([]byte, 256*len(acc)))
	m.runKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, testIn, testOut)
	got := make([][32]uint64, len(acc))
	for k := range got {
		for lane := range 32 {
			got[k][lane] = binary.LittleEndian.Uint64(out[256*k+8*lane:])
		}
	}
	return got
}

func bitOpOf(mods string) string {
	for _, op := range []string{".xor.popc", ".and.popc"} {
		if strings.Contains(mods, op) {
			return op
		}
	}
	return ""
}

// TestMatrixMoves: ldmatrix, stmatrix and movmatrix move 8×8 matrices.
func TestMatrixMoves(t *testing.T) {
	// Element e of matrix k is 64k + e.
	fill := `mov.u32 %x1, sm; shl.b32 %x2, %t, 4; add.u32 %x3, %x1, %x2; shl.b32 %x4, %t, 3; mov.u32 %x5, 0;
		F: add.u32 %x6, %x4, %x5; shl.b32 %x7, %x5, 1; add.u32 %x7, %x3, %x7; st.shared.u16 [%x7], %x6; add.u32 %x5, %x5, 1; setp.lt.u32 %p1, %x5, 8; @%p1 bra F; bar.warp.sync -1;`
	pair := func(lo, hi uint32) uint32 { return lo | hi<<16 }
	cases := []struct {
		name, body string
		want       func(t uint32) uint32
	}{
		{"x4", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%x10, %x11, %r, %x12}, [%x3];", func(t uint32) uint32 { return pair(128+t*2, 128+t*2+1) }},
		{"x2 trans", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%x10, %r}, [%x3];", func(t uint32) uint32 {
			r, c := t%4*2, t/4
			return pair(64+8*r+c, 64+8*r+8+c)
		}},
		{"x1", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r}, [%x3];", func(t uint32) uint32 { return pair(t*2, t*2+1) }},
		{"movmatrix", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x10}, [%x3]; movmatrix.sync.aligned.m8n8.trans.b16 %r, %x10;", func(t uint32) uint32 {
			r, c := t%4*2, t/4
			return pair(8*r+c, 8*r+8+c)
		}},
		{"stmatrix", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%x10, %x11}, [%x3]; stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%x3+1024], {%x10, %x11}; shl.b32 %x12, %t, 2; add.u32 %x12, %x12, %x1; ld.shared.u32 %r, [%x12+1024];", func(t uint32) uint32 {
			r, c := t/4, t%4*2
			return pair(8*c+r, 8*c+8+r)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for i, g := range perThreadOut(t, fill+c.body, 1, 32) {
				if want := c.want(uint32(i)); g != want {
					t.Fatalf("lane %d: %#x, should be %#x", i, g, want)
				}
			}
		})
	}
}

// TestWmma multiplies two 16×16 matrices.
func TestWmma(t *testing.T) {
	text := header + `.entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {
	.reg .b64 %a, %b, %c, %d; .reg .b32 a<8>, b<8>; .reg .f32 c<8>, d<8>;
	ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %d, [d];
	wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {a0, a1, a2, a3, a4, a5, a6, a7}, [%a], 16;
	wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {b0, b1, b2, b3, b4, b5, b6, b7}, [%b], 24;
	wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {c0, c1, c2, c3, c4, c5, c6, c7}, [%c], 16;
	wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {d0, d1, d2, d3, d4, d5, d6, d7}, {a0, a1, a2, a3, a4, a5, a6, a7}, {b0, b1, b2, b3, b4, b5, b6, b7}, {c0, c1, c2, c3, c4, c5, c6, c7};
	wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%d], {d0, d1, d2, d3, d4, d5, d6, d7}, 16;
	ret; }`
	m := bootMachine(t, text)
	val := func(i, j int) int { return (i*7+j*3)%11 - 5 }
	var a, b, c []byte
	for i := range 16 {
		for j := range 24 {
			if j < 16 {
				a = binary.LittleEndian.AppendUint16(a, uint16(float.Bits(types.F16, float64(val(i, j)))))
				c = binary.LittleEndian.AppendUint32(c, math.Float32bits(float32(i-j)))
			}
			// Column i of B.
			b = binary.LittleEndian.AppendUint16(b, uint16(float.Bits(types.F16, float64(val(j, i)+1))))
		}
	}
	m.mapAt(addrA, a)
	m.mapAt(addrB, b)
	m.mapAt(addrC, c)
	out := m.mapAt(addrD, make([]byte, 4*256))
	m.runKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, addrA, addrB, addrC, addrD)
	for at, g := range readFloat32s(out) {
		j, i := at/16, at%16
		want := i - j
		for k := range 16 {
			want += val(i, k) * (val(k, j) + 1)
		}
		if g != float32(want) {
			t.Fatalf("row %d, column %d: %g, should be %d", i, j, g, want)
		}
	}
}
