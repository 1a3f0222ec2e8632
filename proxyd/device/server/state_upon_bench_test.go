// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"log/slog"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// BenchmarkUpon is a training of which nine tenths are frozen, saved into a store on this machine's disk: upon no
// checkpoint, and upon the checkpoint before. Between them the tenth that is trained changes. MiB-read is the memory
// read back from the device and given to the store to be hashed; for a checkpoint upon no other, the store has the
// rest, too, and finds that out.
func BenchmarkUpon(b *testing.B) {
	const size, trained = 256 << 20, 256 << 20 / 10 / backend.Granule
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
	value := uint32(0)
	write := func(blocks uint64) {
		for i := range blocks {
			for at := uint64(0); at < backend.Granule; at += backend.Granule / 8 { // not a single page like the next eighth
				value++
				c.post("cuMemsetD32Async", a+i*backend.Granule+at, value, uint64(backend.Granule/8/4), uint64(0))
			}
		}
		c.must("cuCtxSynchronize")
	}
	write(size / backend.Granule)
	h := newShelf(b)
	n, last := uint32(0), ""
	run := func(name string, upon bool) {
		b.Run(name, func(b *testing.B) {
			var took time.Duration
			var read, saves float64
			for b.Loop() {
				if n++; n > 1 {
					write(trained)
				}
				on, id := uint32(0), ""
				if upon {
					on, id = n-1, last
				}
				began := time.Now()
				r := h.saveNth(s, n, on, id, false)
				took += time.Since(began)
				last = r.ID
				if err := s.Resume(); err != nil {
					b.Fatal(err)
				}
				saves++
				read += float64(r.Written)
			}
			b.ReportMetric(took.Seconds()*1e3/saves, "ms/save")
			b.ReportMetric(read/saves/(1<<20), "MiB-read/save")
		})
	}
	run("upon none", false)
	run("upon the last", true)
}
