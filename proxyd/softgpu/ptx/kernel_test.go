// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"os"
	"testing"
)

func read(tb testing.TB, name string) string {
	tb.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestBlockSum(t *testing.T) {
	m := boot(t, read(t, "kernels.ptx"))
	const blocks, threads = 5, 256
	in := make([]uint32, blocks*threads)
	want := make([]uint32, blocks)
	for i := range in {
		in[i] = uint32(i*i + 3)
		want[i/threads] += in[i]
	}
	m.mapAt(testIn, wordBytes(in...))
	out := m.mapAt(testOut, make([]byte, 4*blocks))
	m.run("block_sum", Dim3{blocks, 1, 1}, Dim3{threads, 1, 1}, testIn, testOut)
	for i, v := range words(out)[:blocks] {
		if v != want[i] {
			t.Errorf("block %d: %d, should be %d", i, v, want[i])
		}
	}
	k, err := m.p.Kernel("block_sum")
	if err != nil {
		t.Fatal(err)
	}
	if k.SharedSize != 1024 || k.MaxThreads != 256 || k.ParamSize != 16 || k.Ordered {
		t.Errorf("attributes: %+v", k)
	}
}

func TestRecursion(t *testing.T) {
	m := boot(t, read(t, "kernels.ptx"))
	out := m.mapAt(testOut, make([]byte, 4*64))
	m.run("fib", Dim3{1, 1, 1}, Dim3{64, 1, 1}, testOut)
	fib := [13]uint32{0, 1}
	for i := 2; i < len(fib); i++ {
		fib[i] = fib[i-1] + fib[i-2]
	}
	for i, v := range words(out) {
		if want := fib[i%13]; v != want {
			t.Errorf("thread %d: %d, should be %d", i, v, want)
		}
	}
}

func TestFunctionPointers(t *testing.T) {
	m := boot(t, read(t, "kernels.ptx"))
	out := m.mapAt(testOut, make([]byte, 4*48))
	m.run("indirect", Dim3{1, 1, 1}, Dim3{48, 1, 1}, testOut)
	for i, v := range words(out) {
		want := uint32(2 * i)
		if i&1 != 0 {
			want = uint32(i * i)
		}
		if v != want {
			t.Errorf("thread %d: %d, should be %d", i, v, want)
		}
	}
}

// TestConcurrentLaunches: launches of one kernel do not meet.
func TestConcurrentLaunches(t *testing.T) {
	m := boot(t, read(t, "kernels.ptx"))
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
		if got := words(out)[16*i]; got != 255*128 {
			t.Errorf("launch %d: %d, should be %d", i, got, 255*128)
		}
	}
}
