// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
)

func readFile(tb testing.TB, name string) string {
	tb.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestBlockSum(t *testing.T) {
	m := bootMachine(t, readFile(t, "kernels.ptx"))
	const blocks, threads = 5, 256
	in := make([]uint32, blocks*threads)
	want := make([]uint32, blocks)
	for i := range in {
		in[i] = uint32(i*i + 3)
		want[i/threads] += in[i]
	}
	m.mapAt(testIn, wordBytes(in...))
	out := m.mapAt(testOut, make([]byte, 4*blocks))
	m.runKernel("block_sum", Dim3{blocks, 1, 1}, Dim3{threads, 1, 1}, testIn, testOut)
	for i, v := range readWords(out)[:blocks] {
		if v != want[i] {
			t.Errorf("block %d: %d, should be %d", i, v, want[i])
		}
	}
	k, err := m.p.Kernel("block_sum")
	if err != nil {
		t.Fatal(err)
	}
	if k.SharedSize != 1024 || k.MaxThreads != 256 || k.ParamSize != 16 || k.Ordered {
		t.Errorf("the attributes of block_sum are %+v", k)
	}
}

func TestRecursion(t *testing.T) {
	m := bootMachine(t, readFile(t, "kernels.ptx"))
	out := m.mapAt(testOut, make([]byte, 4*64))
	m.runKernel("fib", Dim3{1, 1, 1}, Dim3{64, 1, 1}, testOut)
	fib := [13]uint32{0, 1}
	for i := 2; i < len(fib); i++ {
		fib[i] = fib[i-1] + fib[i-2]
	}
	for i, v := range readWords(out) {
		if want := fib[i%13]; v != want {
			t.Errorf("thread %d: %d, should be %d", i, v, want)
		}
	}
}

func TestFunctionPointers(t *testing.T) {
	m := bootMachine(t, readFile(t, "kernels.ptx"))
	out := m.mapAt(testOut, make([]byte, 4*48))
	m.runKernel("indirect", Dim3{1, 1, 1}, Dim3{48, 1, 1}, testOut)
	for i, v := range readWords(out) {
		want := uint32(2 * i)
		if i&1 != 0 {
			want = uint32(i * i)
		}
		if v != want {
			t.Errorf("thread %d: %d, should be %d", i, v, want)
		}
	}
}

// TestConcurrentLaunches: concurrent launches of a single kernel do not disturb each other.
func TestConcurrentLaunches(t *testing.T) {
	m := bootMachine(t, readFile(t, "kernels.ptx"))
	const n = 4
	m.mapAt(testIn, make([]byte, 4*256))
	in := m.mem.Bytes(testIn, 4*256)
	for i := range 256 {
		writeBytes(in[4*i:][:4], uint64(i))
	}
	k, err := m.p.Kernel("block_sum")
	if err != nil {
		t.Fatal(err)
	}
	out := m.mapAt(testOut, make([]byte, 64*n))
	errs := make(chan error, n)
	for i := range n {
		go func() {
			params := make([]byte, 16)
			writeBytes(params[:8], testIn)
			writeBytes(params[8:], testOut+uint64(64*i))
			var err error
			for range 20 {
				if e := k.Launch(context.Background(), Config{Grid: Dim3{1, 1, 1}, Block: Dim3{256, 1, 1}, Params: params, Memory: &m.mem}); e != nil {
					err = e
				}
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i := range n {
		if got := readWords(out)[16*i]; got != 255*128 {
			t.Errorf("launch %d: %d, should be %d", i, got, 255*128)
		}
	}
}

// TestIssued: instructions are counted once for all lanes of a warp, and their number does not depend on the number of
// cores.
func TestIssued(t *testing.T) {
	m := bootMachine(t, `.version 8.0
.target sm_80
.address_size 64
.visible .entry parts()
{
	.reg .pred %p;
	.reg .u32 %r<2>;
	mov.u32 %r0, %tid.x;
	setp.lt.u32 %p, %r0, 16;
	@%p bra FIRST;
	add.u32 %r1, %r0, 1;
	add.u32 %r1, %r1, 1;
	ret;
FIRST:
	add.u32 %r1, %r0, 2;
	ret;
}`)
	var counts []uint64
	for _, c := range []struct {
		workers int
		lanes   uint32 // of the block; the first 16 do not part from each other
	}{{1, 16}, {1, 32}, {3, 32}} {
		var issued atomic.Uint64
		m.cfg.Workers, m.cfg.Issued = c.workers, &issued
		if err := m.launchKernel("parts", Dim3{X: 5, Y: 1, Z: 1}, Dim3{X: c.lanes, Y: 1, Z: 1}); err != nil {
			t.Fatal(err)
		}
		counts = append(counts, issued.Load())
	}
	// Lanes that part execute the three instructions of the other side besides, in each of five blocks.
	if counts[0] == 0 || counts[1] != counts[0]+5*3 || counts[2] != counts[1] {
		t.Errorf("instructions issued: %d, want 15 more with lanes that part, and the same on more cores", counts)
	}
}
