// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
)

// fillFloats fills a range with numbers of about one.
func fillFloats(m *machine, addr uint64, n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 2))
	f := make([]float32, n)
	var b []byte
	for i := range f {
		f[i] = float32(r.NormFloat64())
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f[i]))
	}
	m.mapAt(addr, b)
	return f
}

func readFloat32s(b []byte) []float32 {
	f := make([]float32, len(b)/4)
	for i, w := range readWords(b) {
		f[i] = math.Float32frombits(w)
	}
	return f
}

const (
	addrA = 0x20_0000_0000 + iota<<32
	addrB
	addrC
	addrD
)

func TestSgemm(t *testing.T) {
	const n = 128
	m := bootMachine(t, readFile(t, "sgemm.ptx"))
	a, b := fillFloats(m, addrA, n*n, 1), fillFloats(m, addrB, n*n, 2)
	out := m.mapAt(addrC, make([]byte, 4*n*n))
	m.runKernel("sgemm", Dim3{n / 64, n / 64, 1}, Dim3{256, 1, 1}, addrA, addrB, addrC, n)
	for i, got := range readFloat32s(out) {
		var want float32
		for k := range n {
			want = float.FMA32(a[i/n*n+k], b[k*n+i%n], want)
		}
		if got != want {
			t.Fatalf("element %d: %g, should be %g", i, got, want)
		}
	}
}

func TestRows(t *testing.T) {
	const rows, n = 6, 300
	m := bootMachine(t, readFile(t, "rows.ptx"))
	x, g, h := fillFloats(m, addrA, rows*n, 1), fillFloats(m, addrB, n, 2), fillFloats(m, addrC, n, 3)
	out := m.mapAt(addrD, make([]byte, 4*rows*n))
	near := func(what string, i int, got float32, want float64) {
		if math.Abs(float64(got)-want) > 2e-5*max(1, math.Abs(want)) {
			t.Fatalf("%s, element %d: %g, should be %g", what, i, got, want)
		}
	}
	m.runKernel("layernorm", Dim3{rows, 1, 1}, Dim3{128, 1, 1}, addrA, addrB, addrC, addrD, n)
	for r := range rows {
		var sum, squares float64
		for _, v := range x[r*n:][:n] {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		mean := sum / n
		scale := 1 / math.Sqrt(squares/n-mean*mean+1e-5)
		for i, got := range readFloat32s(out)[r*n:][:n] {
			near("layernorm", i, got, (float64(x[r*n+i])-mean)*scale*float64(g[i])+float64(h[i]))
		}
	}
	m.runKernel("softmax", Dim3{rows, 1, 1}, Dim3{32, 1, 1}, addrA, addrD, n)
	for r := range rows {
		top, sum := math.Inf(-1), 0.0
		for _, v := range x[r*n:][:n] {
			top = max(top, float64(v))
		}
		for _, v := range x[r*n:][:n] {
			sum += math.Exp(float64(v) - top)
		}
		for i, got := range readFloat32s(out)[r*n:][:n] {
			near("softmax", i, got, math.Exp(float64(x[r*n+i])-top)/sum)
		}
	}
}

// cpuTime is the processor time of the process in seconds: the machine may be busy.
func cpuTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// benchKernel reports the lane-instructions that a kernel executes in a second of a single core.
func benchKernel(b *testing.B, m *machine, kernel string, grid, block Dim3, params ...uint64) {
	b.Helper()
	var count uint64
	m.cfg.Count = &count
	m.runKernel(kernel, grid, block, params...)
	m.cfg.Count, m.cfg.Workers = nil, 1
	start := cpuTime(b)
	for b.Loop() {
		m.runKernel(kernel, grid, block, params...)
	}
	b.ReportMetric(float64(count)*float64(b.N)/(cpuTime(b)-start)/1e6, "Mlane/cpu-s")
}

func BenchmarkSgemm(b *testing.B) {
	const n = 256
	m := bootMachine(b, readFile(b, "sgemm.ptx"))
	fillFloats(m, addrA, n*n, 1)
	fillFloats(m, addrB, n*n, 2)
	m.mapAt(addrC, make([]byte, 4*n*n))
	benchKernel(b, m, "sgemm", Dim3{n / 64, n / 64, 1}, Dim3{256, 1, 1}, addrA, addrB, addrC, n)
}

func BenchmarkLayernorm(b *testing.B) {
	const rows, n = 64, 768
	m := bootMachine(b, readFile(b, "rows.ptx"))
	fillFloats(m, addrA, rows*n, 1)
	fillFloats(m, addrB, n, 2)
	fillFloats(m, addrC, n, 3)
	m.mapAt(addrD, make([]byte, 4*rows*n))
	benchKernel(b, m, "layernorm", Dim3{rows, 1, 1}, Dim3{128, 1, 1}, addrA, addrB, addrC, addrD, n)
}

func BenchmarkSoftmax(b *testing.B) {
	const rows, n = 64, 1024
	m := bootMachine(b, readFile(b, "rows.ptx"))
	fillFloats(m, addrA, rows*n, 1)
	m.mapAt(addrD, make([]byte, 4*rows*n))
	benchKernel(b, m, "softmax", Dim3{rows, 1, 1}, Dim3{32, 1, 1}, addrA, addrD, n)
}

// BenchmarkAdd is the smallest kernel that computes, on many elements and on few.
func BenchmarkAdd(b *testing.B) {
	text := header + `
.visible .entry add(.param .u64 x, .param .u64 y, .param .u64 n)
{
	.reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<9>; .reg .f32 %f<4>;
	ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r4, [n];
	mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
	mad.lo.s32 %r1, %r1, %r2, %r3;
	setp.ge.s32 %p, %r1, %r4;
	@%p bra L;
	cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
	mul.wide.s32 %rd5, %r1, 4;
	add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;
	ld.global.f32 %f1, [%rd6]; ld.global.f32 %f2, [%rd7];
	add.f32 %f3, %f1, %f2;
	st.global.f32 [%rd7], %f3;
L:	ret;
}`
	for _, n := range []int{256, 1 << 18} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			m := bootMachine(b, text)
			fillFloats(m, addrA, n, 1)
			fillFloats(m, addrB, n, 2)
			benchKernel(b, m, "add", Dim3{uint32(n / 256), 1, 1}, Dim3{256, 1, 1}, addrA, addrB, uint64(n))
		})
	}
}

// BenchmarkMma reports multiply-adds of m16n8k16, bf16 with f32 accumulators.
func BenchmarkMma(b *testing.B) {
	const rounds = 100
	m := bootMachine(b, header+`.entry k() {
	.reg .b32 a<4>, b<2>, i; .reg .f32 c<4>; .reg .pred p;
	mov.u32 i, 0; mov.b32 a0, 0x3f803f80; mov.b32 a1, 0x3f803f80; mov.b32 a2, a0; mov.b32 a3, a0; mov.b32 b0, a0; mov.b32 b1, a0;
	mov.f32 c0, 0f3F800000; mov.f32 c1, c0; mov.f32 c2, c0; mov.f32 c3, c0;
L:	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {c0, c1, c2, c3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3};
	add.u32 i, i, 1; setp.lt.u32 p, i, 100; @p bra L; ret; }`)
	m.cfg.Workers = 1
	start := cpuTime(b)
	for b.Loop() {
		m.runKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1})
	}
	b.ReportMetric(float64(b.N)*rounds*16*8*16/(cpuTime(b)-start)/1e6, "Mfma/cpu-s")
}
