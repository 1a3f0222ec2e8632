// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// BenchmarkWrite compares a dump into the store with a plain copy and an fsync to the
// same folder, taking turns in a single run; "of-copy" is the ratio of their speeds. Each dump
// finds an empty store.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name  string
		image storetest.Image
	}{
		{"image", storetest.NewImage(1, 65536)},
		{"noise", storetest.Noise(1, 65536)},
	} {
		data := c.image.Bytes()
		b.Run(c.name, func(b *testing.B) {
			var dumped, copied, cores time.Duration
			var stored int64 // folders are removed at the end: ext4 is slow to make files where many were just removed
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				b.StopTimer()
				copied += timeCopy(b, data)
				be := newFolder(b)
				s := openStore(b, be, store.Options{})
				b.StartTimer()
				start, before := time.Now(), cpuTime(b)
				if err := dumpRanks(b.Context(), s, checkpointID(1, 1), data); err != nil {
					b.Fatal(err)
				}
				dumped += time.Since(start)
				cores += cpuTime(b) - before
				b.StopTimer()
				stored = readStats(b, s, checkpointID(1, 1)).Stored
				b.StartTimer()
			}
			b.ReportMetric(copied.Seconds()/dumped.Seconds(), "of-copy")
			b.ReportMetric(float64(len(data))*float64(b.N)/copied.Seconds()/1e6, "copy-MB/s")
			b.ReportMetric(float64(len(data))*float64(b.N)/cores.Seconds()/1e6, "MB/core-s")
			b.ReportMetric(float64(stored)/float64(len(data)), "stored")
		})
	}
}

// cpuTime is the processor time that this process has used, kernel included.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// timeCopy is cp and sync.
func timeCopy(b *testing.B, data []byte) time.Duration {
	path := filepath.Join(b.TempDir(), "copy")
	start := time.Now()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(path)
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{bytes.NewReader(data)}, make([]byte, 256<<10))
	if err == nil {
		err = f.Sync()
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// BenchmarkPipeline measures the store's own work on a single core, with a file system that takes no time.
func BenchmarkPipeline(b *testing.B) {
	for _, c := range []struct {
		name  string
		image storetest.Image
	}{
		{"image", storetest.NewImage(1, 65536)},
		{"noise", storetest.Noise(1, 65536)},
	} {
		data := c.image.Bytes()
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				s := openStore(b, storetest.NewMem(), store.Options{Workers: 1})
				if err := dumpRanks(b.Context(), s, checkpointID(1, 1), data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAgain dumps data that the store has already.
func BenchmarkAgain(b *testing.B) {
	data := storetest.NewImage(1, 65536).Bytes()
	s := openStore(b, newFolder(b), store.Options{})
	number := uint32(0)
	again := func() {
		if err := dumpRanks(b.Context(), s, checkpointID(1, number), data); err != nil {
			b.Fatal(err)
		}
		number++
	}
	again()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		again()
	}
}

// BenchmarkRead restores a stream and drops its bytes.
func BenchmarkRead(b *testing.B) {
	data := storetest.NewImage(1, 65536).Bytes()
	s := openStore(b, newFolder(b), store.Options{})
	if err := dumpRanks(b.Context(), s, checkpointID(1, 1), data); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r, err := s.Open(b.Context(), checkpointID(1, 1))
		if err != nil {
			b.Fatal(err)
		}
		st, err := r.Stream(st0("pages-1.img"))
		if err != nil {
			b.Fatal(err)
		}
		if n, err := st.WriteTo(io.Discard); err != nil || n != int64(len(data)) {
			b.Fatal(n, err)
		}
		st.Close()
		r.Close()
	}
}
