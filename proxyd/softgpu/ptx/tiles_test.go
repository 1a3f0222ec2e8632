// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
)

// tileKernel multiplies matrices of n × n, by tiles in shared memory, as nvcc compiles the usual program for that.
func tileKernel(tile int) string {
	var s strings.Builder
	fmt.Fprintf(&s, `%s
.visible .entry multiply(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n)
{
	.reg .pred %%p; .reg .f32 %%f<9>; .reg .b32 %%r<20>; .reg .b64 %%rd<9>;
	.shared .align 4 .b8 as[%d]; .shared .align 4 .b8 bs[%d];
	ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [b]; ld.param.u64 %%rd3, [c]; ld.param.u32 %%r1, [n];
	mov.u32 %%r2, %%tid.x; mov.u32 %%r3, %%tid.y; mov.u32 %%r4, %%ctaid.x; mov.u32 %%r5, %%ctaid.y;
	mad.lo.u32 %%r6, %%r5, %[4]d, %%r3; mad.lo.u32 %%r7, %%r4, %[4]d, %%r2;
	mov.u32 %%r8, as; mad.lo.u32 %%r8, %%r3, %[5]d, %%r8; mad.lo.u32 %%r9, %%r2, 4, %%r8;
	mov.u32 %%r10, bs; mad.lo.u32 %%r11, %%r2, 4, %%r10; mad.lo.u32 %%r12, %%r3, %[5]d, %%r11;
	mov.f32 %%f1, 0f00000000; mov.u32 %%r13, 0;
L:	add.u32 %%r14, %%r13, %%r2; mad.lo.u32 %%r14, %%r6, %%r1, %%r14; mul.wide.u32 %%rd4, %%r14, 4; add.u64 %%rd4, %%rd4, %%rd1;
	ld.global.f32 %%f2, [%%rd4]; st.shared.f32 [%%r9], %%f2;
	add.u32 %%r15, %%r13, %%r3; mad.lo.u32 %%r15, %%r15, %%r1, %%r7; mul.wide.u32 %%rd5, %%r15, 4; add.u64 %%rd5, %%rd5, %%rd2;
	ld.global.f32 %%f3, [%%rd5]; st.shared.f32 [%%r12], %%f3;
	bar.sync 0;
`, header, 4*tile*tile, 4*tile*tile, tile, 4*tile)
	for k := range tile {
		fmt.Fprintf(&s, "\tld.shared.f32 %%f4, [%%r11+%d]; ld.shared.f32 %%f5, [%%r8+%d]; fma.rn.f32 %%f1, %%f5, %%f4, %%f1;\n", 4*tile*k, 4*k)
	}
	fmt.Fprintf(&s, `	bar.sync 0;
	add.u32 %%r13, %%r13, %d; setp.lt.u32 %%p, %%r13, %%r1; @%%p bra L;
	mad.lo.u32 %%r14, %%r6, %%r1, %%r7; mul.wide.u32 %%rd4, %%r14, 4; add.u64 %%rd4, %%rd4, %%rd3; st.global.f32 [%%rd4], %%f1;
	ret;
}`, tile)
	return s.String()
}

// TestTiles: tiles of both widths give the product that a plain loop gives.
func TestTiles(t *testing.T) {
	const n = 64
	for _, tile := range []int{16, 32} {
		m := bootMachine(t, tileKernel(tile))
		a, b := fillFloats(m, addrA, n*n, 1), fillFloats(m, addrB, n*n, 2)
		out := m.mapAt(addrC, make([]byte, 4*n*n))
		blocks := uint32(n / tile)
		m.runKernel("multiply", Dim3{blocks, blocks, 1}, Dim3{uint32(tile), uint32(tile), 1}, addrA, addrB, addrC, n)
		for i, got := range readFloat32s(out) {
			var want float32
			for k := range n {
				want = float.FMA32(a[i/n*n+k], b[k*n+i%n], want)
			}
			if got != want {
				t.Fatalf("tiles of %d: element %d: %g, should be %g", tile, i, got, want)
			}
		}
	}
}

// BenchmarkTiles is a product of matrices with an element a thread, by tiles.
func BenchmarkTiles(b *testing.B) {
	const n = 256
	for _, tile := range []uint32{16, 32} {
		b.Run(fmt.Sprint(tile), func(b *testing.B) {
			m := bootMachine(b, tileKernel(int(tile)))
			fillFloats(m, addrA, n*n, 1)
			fillFloats(m, addrB, n*n, 2)
			m.mapAt(addrC, make([]byte, 4*n*n))
			benchKernel(b, m, "multiply", Dim3{n / tile, n / tile, 1}, Dim3{tile, tile, 1}, addrA, addrB, addrC, n)
		})
	}
}
