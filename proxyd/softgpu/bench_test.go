// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

type bench struct {
	space  backend.Space
	cu     backend.Context
	stream backend.Stream
}

func newBench(b testing.TB) *bench { return newBenchOf(b, Config{}) }

// newBenchOf makes a bench of a device with memory.
func newBenchOf(b testing.TB, cfg Config) *bench {
	cfg.Memory = []uint64{4 << 30}
	gpu, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { gpu.Close() })
	s, err := gpu.Devices()[0].NewSpace(backend.SpaceConfig{})
	if err == nil {
		err = s.Map()
	}
	if err != nil {
		b.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		b.Fatal(err)
	}
	st, err := c.NewStream(backend.StreamConfig{})
	if err != nil {
		b.Fatal(err)
	}
	return &bench{s, c, st}
}

// BenchmarkLaunch is a kernel of a single thread, queued in bursts of 1000.
func BenchmarkLaunch(b *testing.B) {
	x := newBench(b)
	m, _, err := x.cu.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := m.Function("limited")
	if err != nil {
		b.Fatal(err)
	}
	one := backend.Dim{X: 1, Y: 1, Z: 1}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := x.stream.Launch(backend.Launch{Function: f, Grid: one, Block: one}); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			if err := x.stream.Synchronize(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkEmpty queues operations that do no work: the cost of a stream.
func BenchmarkEmpty(b *testing.B) {
	x := newBench(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := x.stream.Host(func() {}); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			if err := x.stream.Synchronize(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkBlocks hashes 64 MiB that were written.
func BenchmarkBlocks(b *testing.B) {
	x := newBench(b)
	const n = 64 << 20
	a, err := x.cu.Alloc(n)
	if err == nil {
		err = x.stream.Fill(backend.Fill{Addr: a, Value: 5, Element: 4, Width: n / 4})
	}
	if err == nil {
		err = x.stream.Synchronize(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(n)
	for b.Loop() {
		if err := x.space.Blocks(&[32]byte{}, func(backend.BlockID, backend.Hash) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadBlock reads blocks, to compare with the plain copy below.
func BenchmarkReadBlock(b *testing.B) {
	x := newBench(b)
	const n = 64 << 20
	a, err := x.cu.Alloc(n)
	if err == nil {
		err = x.stream.Fill(backend.Fill{Addr: a, Value: 5, Element: 4, Width: n / 4})
	}
	if err == nil {
		err = x.stream.Synchronize(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, backend.Granule)
	b.SetBytes(n)
	for b.Loop() {
		for at := backend.Addr(0); at < n; at += backend.Granule {
			if _, err := x.space.ReadBlock(backend.BlockID{Base: a + at}, p); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkMemcpy is the plain copy that BenchmarkReadBlock is compared with.
func BenchmarkMemcpy(b *testing.B) {
	const n = 64 << 20
	src, dst := make([]byte, n), make([]byte, backend.Granule)
	for i := range src {
		src[i] = 5
	}
	b.SetBytes(n)
	for b.Loop() {
		for at := 0; at < n; at += backend.Granule {
			copy(dst, src[at:])
		}
	}
}

// BenchmarkLoadLong loads a text as long as the longest of PyTorch's library.
func BenchmarkLoadLong(b *testing.B) {
	x := newBench(b)
	text := []byte(longModule(32 << 20))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m, _, err := x.cu.Load(text, backend.LoadConfig{})
		if err == nil {
			_, err = m.Function("kernel7")
		}
		if err == nil {
			err = m.Unload()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUpdate is an update that reads two arrays, and writes to one of them: the time of an instruction of a warp.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []uint64{16 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprint(n>>10, "KiB"), func(b *testing.B) { benchmarkUpdate(b, Config{}, n) })
	}
}

// BenchmarkLone is such an update of a process that shares its device with no other, as most jobs are: the price of what
// finds kernels that could run once, and memory that could be there once, where there are none.
func BenchmarkLone(b *testing.B) {
	for _, c := range []struct {
		rung string
		cfg  Config
	}{{"splice", Config{Splice: true}}, {"alias", Config{}}, {"swap", Config{Separate: true}}} {
		b.Run(c.rung, func(b *testing.B) { benchmarkUpdate(b, c.cfg, 64<<10) })
	}
}

func benchmarkUpdate(b *testing.B, cfg Config, n uint64) {
	x := newBenchOf(b, cfg)
	m, _, err := x.cu.Load([]byte(spliceKernels), backend.LoadConfig{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := m.Function("axpy")
	if err != nil {
		b.Fatal(err)
	}
	var params []byte
	for range 2 {
		a, err := x.cu.Alloc(n)
		if err == nil {
			err = x.stream.Fill(backend.Fill{Addr: a, Value: 5, Element: 4, Width: n / 4})
		}
		if err != nil {
			b.Fatal(err)
		}
		params = binary.LittleEndian.AppendUint64(params, uint64(a))
	}
	launch := backend.Launch{
		Function: f, Grid: backend.Dim{X: uint32(n / 4 / 128), Y: 1, Z: 1}, Block: backend.Dim{X: 128, Y: 1, Z: 1}, Params: append(params, 3, 0, 0, 0),
	}
	d := x.space.(*space).at.Load()
	before := d.Instructions()
	for b.Loop() {
		err := x.stream.Launch(launch)
		if err == nil {
			err = x.stream.Synchronize(context.Background())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(d.Instructions()-before), "ns/instruction")
}

// BenchmarkCompare hashes as many bytes as such an update reads, as a comparison of updates does. While two cores with
// AVX-512 issue an instruction of the update as machine code, one of them hashes 17 to 20 bytes from 1 MiB on, and 70
// at 16 KiB. worthCost lies between: memory smaller than a block is copied as well, and blocks that are common are
// hashed for a single rank only.
func BenchmarkCompare(b *testing.B) {
	for _, n := range []int{16 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprint(n>>10, "KiB"), func(b *testing.B) {
			h, err := newHasher(&[32]byte{})
			if err != nil {
				b.Fatal(err)
			}
			p := make([]byte, 2*n)
			for i := range p {
				p[i] = byte(i)
			}
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				h.hashTag(p)
			}
		})
	}
}
