// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io"
	"log/slog"
	"strconv"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// nowhere is a Sink that has room for everything.
type nowhere struct{}

type hole struct{ io.Writer }

func (nowhere) Create(string) (io.WriteCloser, error) { return hole{io.Discard}, nil }
func (hole) Close() error                             { return nil }

// BenchmarkSave writes memory of which no block is like another: into buffers, as a sink gets them. Compare with memcpy.
func BenchmarkSave(b *testing.B) {
	const size = 256 << 20
	devices, err := softgpu.New(softgpu.Config{Memory: []uint64{2 * size}}) // on all cores
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{Backend: devices, Log: slog.New(slog.DiscardHandler)})
	b.Cleanup(func() { _ = s.Close() })
	_, cs := attachProcess(b, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	a := c.alloc(size)
	for i := uint64(0); i < size/backend.Granule; i++ {
		c.post("cuMemsetD32Async", a+i*backend.Granule, uint32(i+1), uint64(backend.Granule/4), uint64(0))
	}
	c.must("cuCtxSynchronize")
	run := func(name string, f func(*testing.B)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				f(b)
			}
		})
	}
	from, to := make([]byte, size), make([]byte, size)
	for i := range from {
		from[i] = byte(i)
	}
	run("memcpy", func(*testing.B) { copy(to, from) })
	last := ""
	saved := func(again bool) func(*testing.B) {
		return func(b *testing.B) {
			o := SaveOptions{}
			if again {
				o.Upon = last
			}
			r, err := s.Save(b.Context(), nowhere{}, o)
			if err != nil {
				b.Fatal(err)
			}
			last = r.ID
			if err := s.Resume(); err != nil {
				b.Fatal(err)
			}
		}
	}
	run("all", saved(false))
	saved(false)(b) // twice the same: the memory is watched now
	run("nothing new", saved(true))
	write := func(*testing.B) {
		c.post("cuMemsetD32Async", a, uint32(1), uint64(size/4), uint64(0))
		c.must("cuCtxSynchronize")
	}
	run("memset", write)
	run("memset of what is watched", func(b *testing.B) {
		b.StopTimer()
		saved(true)(b)
		saved(true)(b)
		b.StartTimer()
		write(b)
	})
}

// BenchmarkSaveShared saves processes that share a device and hold all their memory alike, there once as after a restore: all
// of it, with no save before. Compare more processes with one: a checkpoint of ranks that are alike should take no longer.
func BenchmarkSaveShared(b *testing.B) {
	const size = 64 << 20
	for _, k := range []int{1, 2, 4, 8} {
		b.Run(strconv.Itoa(k), func(b *testing.B) {
			memory := make([]uint64, k)
			for i := range memory {
				memory[i] = 16 * size
			}
			first, s := serverOf(b, "test", nil, memory...), serverOf(b, "test", nil, 16*size)
			for i := range k {
				_, cs := attachProcess(b, first, 1)
				c := cs[0]
				c.beginContext(ctxA, int32(i))
				a := c.alloc(size)
				for n := uint64(0); n < size/backend.Granule; n++ {
					c.post("cuMemsetD32Async", a+n*backend.Granule, uint32(n+1), uint64(backend.Granule/4), uint64(0))
				}
				c.must("cuCtxSynchronize")
			}
			folder := Folder(b.TempDir())
			replaceServer(b, first, saveJob(b, first, folder, SaveOptions{}), folder, s)
			if d := s.Status().Sharing[0]; d.Saved != uint64(k-1)*size {
				b.Fatalf("%d processes have %d bytes in common: %+v", k, d.Saved, d)
			}
			for b.Loop() {
				r, err := s.Save(b.Context(), nowhere{}, SaveOptions{})
				if err == nil {
					err = s.Resume()
				}
				if err != nil || r.Written != size {
					b.Fatalf("%d bytes were written, want %d: %v", r.Written, size, err)
				}
			}
		})
	}
}

// BenchmarkNote is the cost of the look at each message, and the cost of a message that is kept.
func BenchmarkNote(b *testing.B) {
	s := serverOf(b, "test", nil, testMemory)
	p, cs := attachProcess(b, s, 1)
	cs[0].beginContext(ctxA, 0)
	c := dispatch.Call{Context: ctxA}
	in := make([]byte, 200)
	b.Run("launch", func(b *testing.B) {
		op := ops["launch"]
		if op == 0 {
			b.Skip("there is no such call")
		}
		for b.Loop() {
			p.noteCall(&c, op, in, nil, 0, nil)
		}
	})
	b.Run("stream made and ended", func(b *testing.B) {
		cl := cs[0]
		h := uint64(1 << 20)
		for b.Loop() {
			h++
			_, made := cl.encodeMessage("cuStreamCreate", []any{h, uint32(0)})
			p.noteCall(&c, ops["cuStreamCreate"], made[8:], nil, 0, nil)
			_, ended := cl.encodeMessage("cuStreamDestroy_v2", []any{h})
			p.noteCall(&c, ops["cuStreamDestroy_v2"], ended[8:], nil, 0, nil)
		}
	})
}
