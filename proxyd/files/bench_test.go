// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// loops are rounds of plain system calls, as costly to disturb as can be.
var loops = map[string]func(fd, i int) error{
	"write and read 64 bytes": func(fd, i int) error {
		var b [64]byte
		if _, err := unix.Pwrite(fd, b[:], int64(i%64*64)); err != nil {
			return err
		}
		_, err := unix.Pread(fd, b[:], int64(i%64*64))
		return err
	},
	"open, write 4096 bytes, close": func(_, i int) error {
		return putFile(fmt.Sprint("f", i%16), unix.O_TRUNC)
	},
	"create, write, rename, remove": func(_, i int) error {
		if err := putFile("new", unix.O_EXCL); err != nil {
			return err
		}
		if err := unix.Rename("new", "old"); err != nil {
			return err
		}
		return unix.Unlink("old")
	},
	"open, read, close": func(int, int) error {
		fd, err := unix.Open("f0", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		var b [4096]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return err
		}
		return unix.Close(fd)
	},
}

func putFile(name string, flags int) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|flags, 0o644)
	if err != nil {
		return err
	}
	var b [4096]byte
	if _, err := unix.Write(fd, b[:]); err != nil {
		return err
	}
	return unix.Close(fd)
}

// BenchmarkWatch measures the cost of a Watch for a program that only works with files: in turn without a Watch, with a
// Watch that is told of programs only, and with a Watch that is told of files. It takes short samples of the thread's
// processor time and compares their lower quartiles, which other load disturbs least: "programs-%" and "files-%" are
// the added time.
func BenchmarkWatch(b *testing.B) {
	needRoot(b)
	for name, round := range loops {
		b.Run(name, func(b *testing.B) {
			dir, err := os.MkdirTemp(parent, "work-")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			j, _ := changeListFor(b)
			var all [3][]float64
			done := make(chan error)
			go func() { // with the thread, its mounts go
				runtime.LockOSThread()
				done <- measureRound(j, dir, round, &all, max(b.N, 60))
			}()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			quartile := func(i int) float64 {
				slices.Sort(all[i])
				return all[i][len(all[i])/4]
			}
			b.ReportMetric(100*(quartile(1)/quartile(0)-1), "programs-%")
			b.ReportMetric(100*(quartile(2)/quartile(0)-1), "files-%")
			b.ReportMetric(quartile(0)/sampleRounds, "ns/op")
		})
	}
}

const sampleRounds = 20

func measureRound(j *ChangeList, dir string, round func(fd, i int) error, all *[3][]float64, times int) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	if err := putFile("f0", 0); err != nil {
		return err
	}
	fd, err := unix.Open(filepath.Join(dir, "bytes"), unix.O_RDWR|unix.O_CREAT, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for i := range 3 * times {
		way := i % 3
		stop := func() error { return nil }
		if way > 0 {
			if stop, err = beginWatching(j, way == 2); err != nil {
				return err
			}
		}
		for range 5 {
			took, err := takeSample(fd, round)
			if err != nil {
				return err
			}
			all[way] = append(all[way], took)
		}
		if err := stop(); err != nil {
			return err
		}
	}
	return nil
}

// beginWatching begins to watch the mounts of this thread.
func beginWatching(j *ChangeList, files bool) (stop func() error, err error) {
	tid := unix.Gettid()
	w, err := newWatcher(WatchedCapsule{PID: tid, PIDs: func() []int { return nil }}, j)
	if err != nil {
		return nil, err
	}
	if files {
		err = w.markFiles()
	} else {
		err = w.markMounts()
	}
	if err != nil {
		return nil, err
	}
	j.ranWithoutShim = false // for the next
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.watchEvents(ctx) }()
	return func() error {
		cancel()
		_ = w.f.SetReadDeadline(longAgo)
		<-ended
		w.closeWatch()
		return nil
	}, nil
}

func takeSample(fd int, round func(fd, i int) error) (float64, error) {
	var from, to unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &from); err != nil {
		return 0, err
	}
	for i := range sampleRounds {
		if err := round(fd, i); err != nil {
			return 0, err
		}
	}
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &to)
	return float64(time.Duration(to.Nano() - from.Nano())), err
}
