// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func makeMemfd(t *testing.T, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestMapSealed: a file that the program could still shrink, or that is shorter than claimed, is not mapped.
func TestMapSealed(t *testing.T) {
	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.Truncate(8192); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		file *os.File
		n    uint64
		ok   bool
	}{
		{"sealed", makeMemfd(t, 8192, unix.F_SEAL_SHRINK), 8192, true},
		{"not sealed", makeMemfd(t, 8192, 0), 8192, false},
		{"sealed against growing", makeMemfd(t, 8192, unix.F_SEAL_GROW), 8192, false},
		{"shorter", makeMemfd(t, 4096, unix.F_SEAL_SHRINK), 8192, false},
		{"longer", makeMemfd(t, 8192, unix.F_SEAL_SHRINK), 4096, false},
		{"not whole pages", makeMemfd(t, 5000, unix.F_SEAL_SHRINK), 5000, false},
		{"nothing", makeMemfd(t, 0, unix.F_SEAL_SHRINK), 0, false},
		{"very long", makeMemfd(t, 8192, unix.F_SEAL_SHRINK), math.MaxUint64 &^ 4095, false},
		{"a file", plain, 8192, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, err := mapSealed(c.file, c.n)
			if (err == nil) != c.ok {
				t.Errorf("%d bytes, %v", len(mem), err)
			}
			if mem != nil {
				_ = unix.Munmap(mem)
			}
		})
	}
}

// TestHostShare: bytes of the memory are copied; bytes outside of it, and of memory that is gone, are an error.
func TestHostShare(t *testing.T) {
	mem, err := mapSealed(makeMemfd(t, 4096, unix.F_SEAL_SHRINK), 4096)
	if err != nil {
		t.Fatal(err)
	}
	s := &PinnedShare{At: 0x10000, Mem: mem}
	if err := s.Write(0x10ffe, []byte{1, 2}); err != nil {
		t.Error(err)
	}
	var b [2]byte
	if err := s.Read(0x10ffe, b[:]); err != nil || b != [2]byte{1, 2} {
		t.Errorf("last two bytes of the share = %v, %v, want [1 2]", b, err)
	}
	for _, at := range []uint64{0, 0xffff, 0x10fff, 0x11000, math.MaxUint64} {
		if err := s.Read(at, b[:]); !errors.Is(err, errShareEnded) {
			t.Errorf("Read at %#x outside of the share: %v, want errShareEnded", at, err)
		}
	}
	s.unmapShare()
	s.unmapShare()
	if err := s.Read(0x10000, b[:]); !errors.Is(err, errShareEnded) {
		t.Error(err)
	}
}
