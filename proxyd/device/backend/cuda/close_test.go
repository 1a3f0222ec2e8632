// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
)

// startClose closes a backend, and returns when waits says that Close has come to wait for a call that is under way.
func startClose(t *testing.T, b *Backend, underWay string, waits func() bool) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- b.Close() }()
	for !waits() {
		select {
		case err := <-ended:
			t.Fatalf("Close has ended, with %v, while %s is under way", err, underWay)
		default:
			runtime.Gosched()
		}
	}
	return ended
}

// closeDuring begins call, and closes the backend while call's n-th call of a function of the driver is under way. waits
// says that Close has come to wait for the call, which goes on then. Close must end well, and the next backend must find
// its addresses.
func closeDuring(t *testing.T, l *fakecuda.Library, b *Backend, function string, n int, call func(), waits func() bool) {
	t.Helper()
	l.Halt(function, n)
	t.Cleanup(l.Resume) // of a test that failed
	go call()
	for !l.Halted() {
		runtime.Gosched()
	}
	ended := startClose(t, b, function, waits)
	l.Resume()
	if err := <-ended; err != nil {
		t.Errorf("close: %v", err)
	}
	if left := l.Live(); left != "" {
		t.Errorf("work that has not ended: %s", left)
	}
	if err := openBackend(t, l).Close(); err != nil {
		t.Errorf("open and close again: %v", err)
	}
}

// mappedSpace makes a space that is mapped, with a context.
func mappedSpace(t *testing.T, b *Backend) (backend.Space, backend.Context) {
	t.Helper()
	return mappedSpaceOf(t, b)
}

// mappedSpaceOf is mappedSpace of any backend.
func mappedSpaceOf(t *testing.T, b backend.Backend) (backend.Space, backend.Context) {
	t.Helper()
	s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err == nil {
		err = s.Map()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// TestCloseDuringFree: a free that began before Close has ended when Close ends. Otherwise the driver would be told to
// unmap memory at addresses that are no longer reserved, or that the next backend has reserved.
func TestCloseDuringFree(t *testing.T) {
	l := newFakeLibrary(t)
	b := openBackend(t, l)
	_, c := mappedSpace(t, b)
	a, err := c.Alloc(backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	freed := make(chan error, 1)
	// The first unmapping is that of the program's addresses, the second that of the window's.
	closeDuring(t, l, b, "cuMemUnmap", 2, func() { freed <- c.Free(a) }, b.window.isAwaited)
	if err := <-freed; err != nil {
		t.Errorf("free: %v", err)
	}
}

// TestCloseDuringRead: memory that is being read keeps its addresses, and the device's copies their buffers, until the
// read has ended.
func TestCloseDuringRead(t *testing.T) {
	l := newFakeLibrary(t)
	b := openBackend(t, l)
	s, c := mappedSpace(t, b)
	a, err := c.Alloc(backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	closeDuring(t, l, b, "cuMemcpyDtoHAsync_v2", 1, func() {
		_, err := s.ReadBlock(backend.BlockID{Base: a}, make([]byte, backend.Granule))
		read <- err
	}, b.window.isAwaited)
	if err := <-read; err != nil {
		t.Errorf("read: %v", err)
	}
}

// TestCloseDuringNewSpace: a space that is being made when the backend is closed is refused, and leaves no object in
// the driver.
func TestCloseDuringNewSpace(t *testing.T) {
	l := newFakeLibrary(t)
	b := openBackend(t, l)
	made := make(chan error, 1)
	closeDuring(t, l, b, "cuCtxCreate_v2", 1, func() {
		_, err := b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20})
		made <- err
	}, b.isClosed)
	if err := <-made; !errors.Is(err, errClosed) {
		t.Errorf("new space: %v, want %v", err, errClosed)
	}
}

// TestCloseDuringClose: a space that is being closed has ended when its backend's Close ends.
func TestCloseDuringClose(t *testing.T) {
	l := newFakeLibrary(t)
	b := openBackend(t, l)
	s, _ := mappedSpace(t, b)
	closed := make(chan error, 1)
	closeDuring(t, l, b, "cuCtxDestroy_v2", 1, func() { closed <- s.Close() }, b.isClosed)
	if err := <-closed; err != nil {
		t.Errorf("close the space: %v", err)
	}
}

// TestCloseBeforeLoan: memory that is lent when the backend has ended all loans is given back at once.
func TestCloseBeforeLoan(t *testing.T) {
	l := newFakeLibrary(t)
	b := openBackend(t, l)
	s, c := mappedSpace(t, b)
	a, err := c.Alloc(backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	lent, err := s.(*space).spanOf(backend.Buffer{Addr: a, Size: backend.Granule})
	if err != nil {
		t.Fatal(err)
	}
	ended := startClose(t, b, "a loan", b.window.isAwaited)
	b.owed.addLoan([]*span{lent})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// isClosed tells whether Close was called.
func (b *Backend) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// isAwaited tells whether waitEmpty was called.
func (w *window) isAwaited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.awaited
}

// isAwaited tells whether freeBuffers was called.
func (p *hostBufferPool) isAwaited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// slowHost is memory of a program; the test decides when it is read.
type slowHost struct{ began, goOn chan struct{} }

func (h slowHost) Read(uint64, []byte) error {
	close(h.began)
	<-h.goOn
	return nil
}

func (slowHost) Write(uint64, []byte) error { return nil }

// TestCloseDuringCopy: a copy that reads the program's memory writes to its buffer until the program's memory is read.
// The buffer stays until then.
func TestCloseDuringCopy(t *testing.T) {
	l := newFakeLibrary(t)
	b := openBackend(t, l)
	_, c := mappedSpace(t, b)
	a, err := c.Alloc(backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	host := slowHost{make(chan struct{}), make(chan struct{})}
	if err := c.Legacy().Copy(backend.Copy{Src: backend.CopySide{Host: host}, Dst: placeAt(a), Width: 64}); err != nil {
		t.Fatal(err)
	}
	<-host.began
	ended := startClose(t, b, "a copy", b.pinned.isAwaited)
	select {
	case err := <-ended:
		t.Fatalf("Close has ended, with %v, while a copy is under way", err)
	default:
	}
	if left := l.Live(); !strings.Contains(left, "2 pinned") {
		t.Errorf("there is %s: the copy has no buffers", left)
	}
	close(host.goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
