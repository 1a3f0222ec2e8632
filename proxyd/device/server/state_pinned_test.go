// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package server

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// sharer is a peer of this test with pinned memory as its only descriptor.
type sharer struct {
	own
	pinned *os.File
}

func (s *sharer) Descriptor(int) (*os.File, error) {
	fd, err := unix.Dup(int(s.pinned.Fd()))
	return os.NewFile(uintptr(fd), "pinned"), err
}

// pinnedFile is memory as pinned by a shim.
func pinnedFile(t *testing.T, n int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("singularity-pinned", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "pinned")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(n); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRestorePinned: over a driver, a restored server has a program's pinned memory at its address before the program is back, and
// the program's own memory when the program is.
func TestRestorePinned(t *testing.T) {
	const at, size = 0x6f0000000000, 8192
	server, _ := realServer(t)
	s := server(nil, false)
	f := pinnedFile(t, size)
	_, cs := attachPeer(t, s, 1, &sharer{own{ended: make(chan string)}, f})
	c := cs[0]
	c.beginContext(ctxA, 0)
	c.must("host_alloc", uint64(at), uint64(size), uint32(0))
	if r, _ := c.call("host_share", uint64(at), uint64(size), int32(3)); dispatch.Result(r) != 0 {
		t.Fatalf("share: %d", r)
	}
	fill := func(value byte) {
		t.Helper()
		c.post("cuMemsetD8Async", uint64(at+100), value, uint64(5), uint64(0))
		c.must("cuCtxSynchronize")
		got := make([]byte, 7)
		if _, err := f.ReadAt(got, 99); err != nil {
			t.Fatal(err)
		}
		if want := append(append([]byte{0}, bytes.Repeat([]byte{value}, 5)...), 0); !bytes.Equal(got, want) {
			t.Errorf("the program reads %v, want %v", got, want)
		}
	}
	fill(1)
	folder := Folder(t.TempDir())
	r := saveJob(t, s, folder, SaveOptions{})
	if err := s.Leave(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	next := server(nil, false)
	if err := next.Restore(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	// A program of another process would be adopted here; this process has the devices' view of the memory at that address.
	p := next.processes[r.Processes[0].ID]
	devices, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer devices.Close()
	for value := byte(2); value < 4; value++ {
		if err := p.Bring(at, f); err != nil {
			t.Fatal(err)
		}
		seen, got := make([]byte, 3), make([]byte, 3)
		if _, err := devices.ReadAt(seen, at+103); err != nil || !bytes.Equal(seen, []byte{1, 1, 0}) {
			t.Errorf("devices read %v, %v", seen, err)
		}
		if _, err := devices.WriteAt([]byte{value}, at+1); err != nil {
			t.Error(err)
		}
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, []byte{0, value, 0}) {
			t.Errorf("the program reads %v, %v", got, err)
		}
	}
}
