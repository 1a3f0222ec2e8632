// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestProcess: memory is copied whole, from and to a process, which is this one; unmapped memory is an error.
func TestProcess(t *testing.T) {
	self := Process(os.Getpid())
	for _, n := range []int{0, 1, 4097, piece, 3*piece + 5} {
		there, err := unix.Mmap(-1, 0, n+1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		failOn(t, err)
		address := uint64(uintptr(unsafe.Pointer(&there[0])))
		want := make([]byte, n)
		r := random(n)
		r.fillBytes(want)
		copy(there, want)
		got := make([]byte, n)
		failOn(t, self.Read(got, address))
		if !slices.Equal(got, want) {
			t.Errorf("%d bytes were not read", n)
		}
		r.fillBytes(want)
		failOn(t, self.Write(want, address))
		if !slices.Equal(there[:n], want) || there[n] != 0 {
			t.Errorf("%d bytes were not written", n)
		}
		failOn(t, unix.Munmap(there))
	}
	b := make([]byte, 2*piece)
	hole, err := unix.Mmap(-1, 0, 3*piece, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	failOn(t, err)
	defer unix.Munmap(hole)
	if err := self.Read(b, uint64(uintptr(unsafe.Pointer(&hole[0])))); !errors.Is(err, unix.EFAULT) {
		t.Errorf("Read of memory without access: %v, want EFAULT", err)
	}
	if err := self.Write(b, 1<<63-1); err == nil {
		t.Error("Write to an address that no process has: no error")
	}
}
