// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

type bench struct {
	space  backend.Space
	cu     backend.Context
	stream backend.Stream
}

func newBench(b *testing.B) *bench {
	gpu, err := New(Config{Memory: []uint64{4 << 30}})
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

// BenchmarkLaunch is a kernel of one thread, queued in bursts of 1000.
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

// BenchmarkEmpty is a job that does nothing: what a stream costs.
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

// BenchmarkMemcpy is what ReadBlock is measured against.
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
