// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// tenant is one of several spaces on a device that has no room for two.
type tenant struct {
	*space
	cu backend.Context
	at backend.Addr
}

const (
	deviceSize = 16 << 20
	tenantSize = 10 << 20
)

func makeTenants(t *testing.T, n int) (*device, []*tenant) {
	t.Helper()
	l := newFakeLibrary(t)
	l.Reset("", deviceSize)
	b := openBackend(t, l)
	d := b.Devices()[0].(*device)
	var all []*tenant
	for i := range n {
		s, err := d.NewSpace(backend.SpaceConfig{Base: backend.DefaultBase + backend.Addr(i)<<40})
		if err != nil {
			t.Fatal(err)
		}
		x := &tenant{space: s.(*space)}
		if x.cu, err = s.NewContext(0); err != nil {
			t.Fatal(err)
		}
		if x.at, err = x.cu.Alloc(tenantSize); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return d, all
}

// takeTurn maps a space, calls do, and unmaps the space.
func (x *tenant) takeTurn(t *testing.T, do func()) {
	t.Helper()
	for _, step := range []func() error{
		x.Map,
		func() error { do(); return nil },
		func() error { return x.Drain(t.Context()) },
		x.Unmap,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// fillMemory fills each block with a value of its own: blocks that are alike would be moved once.
func (x *tenant) fillMemory(t *testing.T, v uint32) {
	t.Helper()
	for at := backend.Addr(0); at < tenantSize; at += backend.Granule {
		if err := x.cu.Legacy().Fill(backend.Fill{Addr: x.at + at, Value: blockValue(v, at), Element: 1, Width: backend.Granule}); err != nil {
			t.Fatal(err)
		}
	}
}

// blockValue is the value of the block at an offset.
func blockValue(v uint32, at backend.Addr) uint32 { return 1 + v + 32*uint32(at/backend.Granule) }

// checkMemory checks all bytes without mapping the space.
func (x *tenant) checkMemory(t *testing.T, v byte) {
	t.Helper()
	p := make([]byte, backend.Granule)
	for at := backend.Addr(0); at < tenantSize; at += backend.Granule {
		some, err := x.ReadBlock(backend.BlockID{Base: x.at + at}, p)
		if err != nil || !some || !bytes.Equal(p, bytes.Repeat([]byte{byte(blockValue(uint32(v), at))}, backend.Granule)) {
			t.Fatalf("ReadBlock at %#x = %v, %v, first byte %d, want %d", uint64(x.at+at), some, err, p[0], blockValue(uint32(v), at))
		}
	}
}

// TestSwap: spaces that do not fit on a device together are mapped in turn, and keep their bytes. The other spaces
// do not reduce the memory that a space may allocate.
func TestSwap(t *testing.T) {
	d, all := makeTenants(t, 3)
	for round := range 3 {
		for i, x := range all {
			x.takeTurn(t, func() { x.fillMemory(t, uint32(10*round+i)) })
		}
	}
	if s := d.Swapped(); s.Out != 8*tenantSize || s.In != 6*tenantSize || s.Most != tenantSize || s.Took <= 0 {
		t.Errorf("after three rounds, swapped = %+v", s)
	}
	for i, x := range all {
		x.checkMemory(t, byte(20+i))
		if free, total := x.Info(); total != d.info.Memory || free != total-tenantSize {
			t.Errorf("%d of %d bytes are free", free, total)
		}
	}
	// Bytes written to swapped memory are there when the memory is back, and swapped memory can be freed.
	if err := all[0].WriteBlock(backend.BlockID{Base: all[0].at}, bytes.Repeat([]byte{77}, backend.Granule)); err != nil {
		t.Fatal(err)
	}
	if err := all[1].cu.Free(all[1].at); err != nil {
		t.Fatal(err)
	}
	all[0].takeTurn(t, func() {})
	p := make([]byte, backend.Granule)
	if some, err := all[0].ReadBlock(backend.BlockID{Base: all[0].at}, p); err != nil || !some || p[0] != 77 {
		t.Errorf("ReadBlock of a block written while swapped: %v, %v, first byte %d, want 77", some, err, p[0])
	}
}

// TestSwapLent: memory of a collective stays on the device when its space is unmapped, and has the bytes that were written
// meanwhile when the space is mapped again.
func TestSwapLent(t *testing.T) {
	d, all := makeTenants(t, 2)
	a, b := all[0], all[1]
	small, err := a.cu.Alloc(backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Map(); err != nil {
		t.Fatal(err)
	}
	a.fillMemory(t, 1)
	type begun struct {
		span backend.Span
		done func(error)
	}
	began := make(chan begun, 1)
	lent := []backend.Buffer{{Addr: small, Size: backend.Granule, Write: true}}
	if err := a.cu.Legacy().(backend.Lender).Lend(lent, func(s []backend.Span, done func(error)) {
		began <- begun{s[0], done}
	}); err != nil {
		t.Fatal(err)
	}
	x := <-began
	for a.Unmap() != nil {
		runtime.Gosched() // it is about to wait
	}
	b.takeTurn(t, func() { b.fillMemory(t, 7) })
	if n := d.Swapped().Out; n != tenantSize {
		t.Errorf("%d bytes were swapped out", n)
	}
	p, err := x.span.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	copy(p, bytes.Repeat([]byte{5}, backend.Granule))
	x.done(nil)
	a.takeTurn(t, func() {})
	a.checkMemory(t, 1)
	b.checkMemory(t, 7)
	q := make([]byte, backend.Granule)
	if some, err := a.ReadBlock(backend.BlockID{Base: small}, q); err != nil || !some || !bytes.Equal(q, p) {
		t.Errorf("ReadBlock of the small memory: %v, %v, first byte %d", some, err, q[0])
	}
}

// TestSwapNone: where no space can be swapped, an allocation that does not fit fails.
func TestSwapNone(t *testing.T) {
	d, all := makeTenants(t, 2)
	if err := all[0].Map(); err != nil {
		t.Fatal(err)
	}
	err := all[1].WriteBlock(backend.BlockID{Base: all[1].at}, make([]byte, backend.Granule))
	if err != nil || d.Swapped().Out != 0 {
		t.Errorf("WriteBlock beside a mapped space: %v, swapped = %+v, want none out", err, d.Swapped())
	}
	p := bytes.Repeat([]byte{9}, backend.Granule) // the block went to the host's memory at once
	if some, err := all[1].ReadBlock(backend.BlockID{Base: all[1].at}, p); err != nil || !some || !isZero(p) {
		t.Errorf("ReadBlock from the host's memory: %v, %v, first byte %d, want 0", some, err, p[0])
	}
	if _, err := d.createMemory(tenantSize); backend.ResultOf(err) != backend.OutOfMemory {
		t.Errorf("memory that does not fit: %v, want OutOfMemory", err)
	}
}

// TestWaitingQueue: the queue of a stream that waits in a collective does not grow when its space's activity is asked for
// again and again.
func TestWaitingQueue(t *testing.T) {
	_, all := makeTenants(t, 1)
	x := all[0]
	if err := x.Map(); err != nil {
		t.Fatal(err)
	}
	st := x.cu.Legacy().(*stream)
	began := make(chan func(error), 1)
	if err := st.Exchange([]backend.Buffer{{Addr: x.at, Size: 64}}, func(_ [][]byte, done func(error)) { began <- done }); err != nil {
		t.Fatal(err)
	}
	done := <-began
	for x.Unmap() != nil {
		runtime.Gosched() // it is about to wait
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		if state := x.Work(); state != backend.Waiting {
			t.Fatalf("Work = %d while the collective waits, want Waiting", state)
		}
		if x.Drain(over) == nil {
			t.Fatal("Drain has ended while the collective waits")
		}
	}
	st.Mu.Lock()
	queued := len(st.Queue)
	st.Mu.Unlock()
	if queued > 1 {
		t.Errorf("%d pieces of work are queued behind the collective", queued)
	}
	done(nil)
	x.takeTurn(t, func() {})
}
