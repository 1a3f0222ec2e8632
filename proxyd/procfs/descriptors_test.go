// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDescriptors goes over the descriptors of this process, which has more of them than are read
// at a time.
func TestDescriptors(t *testing.T) {
	opened := map[int]bool{}
	for range 3 * chunk {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		opened[int(f.Fd())] = true
	}
	seen, last := 0, -1
	for d, err := range Descriptors(os.Getpid()) {
		if err != nil || d.Number <= last {
			t.Fatalf("Descriptors gave %d after %d: %v", d.Number, last, err)
		}
		seen, last = seen+1, d.Number
		if !opened[d.Number] {
			continue
		}
		if link, err := d.Link(); err != nil || link != os.DevNull {
			t.Errorf("link of descriptor %d = %s, %v; want /dev/null", d.Number, link, err)
		}
		if flags, err := d.OpenFlags(); err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_CLOEXEC == 0 {
			t.Errorf("flags of descriptor %d = %#o, %v; want O_RDONLY and O_CLOEXEC", d.Number, flags, err)
		}
		delete(opened, d.Number)
	}
	if len(opened) > 0 {
		t.Errorf("%d descriptors were left out", len(opened))
	}

	counted := 0
	var err error
	for _, err = range readDescriptorsLimited(os.Getpid(), seen-chunk-1) {
		counted++
	}
	if !errors.Is(err, ErrTooMany) || counted != seen-chunk {
		t.Errorf("going over %d of %d descriptors ended with %v", counted-1, seen, err)
	}
	for range Descriptors(os.Getpid()) {
		break // a caller may stop before the last descriptor
	}
}

// TestOpenFlagsOfLocks: little memory is needed for the flags of a file with very many locks, each a line of the kernel's text.
func TestOpenFlagsOfLocks(t *testing.T) {
	f, err := os.OpenFile(t.TempDir()+"/locked", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := range int64(5000) {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * n, Len: 1}
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
			t.Fatal(err)
		}
	}
	d := DescriptorOf(os.Getpid(), int(f.Fd()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	flags, err := d.OpenFlags()
	runtime.ReadMemStats(&after)
	if err != nil || flags&unix.O_ACCMODE != unix.O_WRONLY || flags&unix.O_APPEND == 0 {
		t.Errorf("OpenFlags = %#o, %v; want O_WRONLY and O_APPEND", flags, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("OpenFlags took %d bytes of memory, want 64 KiB at most", n)
	}
}

// TestEnded: a process that has ended has no descriptors, both before and after its parent has waited for it.
func TestEnded(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range Descriptors(cmd.Process.Pid) {
		if n++; !IsEnded(err) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d results of a process that has ended", n)
	}
}
