// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// tenant is one of several spaces on a device that is too small for all.
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
	b, err := New(Config{Memory: []uint64{deviceSize}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	d := b.Devices()[0].(*device)
	return d, tenantsOf(t, d, n)
}

// tenantsOf makes spaces of a device.
func tenantsOf(t *testing.T, d *device, n int) (all []*tenant) {
	t.Helper()
	for i := range n {
		s, err := d.NewSpace(backend.SpaceConfig{Base: backend.DefaultBase * backend.Addr(i+1)})
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
	return all
}

// takeTurn maps a space, calls do, and unmaps the space.
func (x *tenant) takeTurn(t *testing.T, do func()) {
	t.Helper()
	if err := x.Map(); err != nil {
		t.Fatal(err)
	}
	do()
	if err := x.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := x.Unmap(); err != nil {
		t.Fatal(err)
	}
}

func (x *tenant) fillMemory(t *testing.T, v uint32) {
	t.Helper()
	if err := x.cu.Legacy().Fill(backend.Fill{Addr: x.at, Value: v, Element: 1, Width: tenantSize}); err != nil {
		t.Fatal(err)
	}
}

// checkMemory checks all bytes without mapping the space.
func (x *tenant) checkMemory(t *testing.T, v byte) {
	t.Helper()
	p := make([]byte, backend.Granule)
	for at := backend.Addr(0); at < tenantSize; at += backend.Granule {
		some, err := x.ReadBlock(backend.BlockID{Base: x.at + at}, p)
		if err != nil || !some || !bytes.Equal(p, bytes.Repeat([]byte{v}, backend.Granule)) {
			t.Fatalf("ReadBlock at %#x = %v, %v, first byte %d, want %d everywhere", uint64(x.at+at), some, err, p[0], v)
		}
	}
}

// inDevice counts the bytes that spaces really have in the device's memory.
func inDevice(all []*tenant) (n uint64) {
	for _, x := range all {
		x.mu.Lock()
		x.ledger.Arenas(func(h *holder) {
			for at := 0; at < len(h.Bytes.bytes); at += backend.Granule {
				if wasTouched(h.Bytes.bytes[at:][:backend.Granule]) {
					n += backend.Granule
				}
			}
		})
		x.mu.Unlock()
	}
	return n
}

// TestSwap: spaces that together do not fit on a device take turns there, and keep their bytes.
func TestSwap(t *testing.T) {
	d, all := makeTenants(t, 3)
	for round := range 3 {
		for i, x := range all {
			x.takeTurn(t, func() { x.fillMemory(t, uint32(10*round+i)) })
			if n := inDevice(all); n > deviceSize {
				t.Errorf("round %d: %d bytes are in a device of %d", round, n, deviceSize)
			}
		}
	}
	if s := d.Swapped(); s.Out != 8*tenantSize || s.In != 6*tenantSize || s.Most != tenantSize || s.Took <= 0 {
		t.Errorf("Swapped() = %+v, want Out 8, In 6 and Most 1 times a tenant's size, and Took > 0", s)
	}
	for i, x := range all {
		x.checkMemory(t, byte(20+i))
		if free, total := x.Info(); total != deviceSize || free != deviceSize-tenantSize {
			t.Errorf("Info: %d of %d bytes are free, want all but the tenant's", free, total)
		}
	}
}

// TestSwapRecent: a device counts as swapping until its spaces have taken turns for a while without a move.
func TestSwapRecent(t *testing.T) {
	d, all := makeTenants(t, 2)
	takeTurns := func() {
		for i, x := range all {
			x.takeTurn(t, func() { x.fillMemory(t, uint32(1+i)) })
		}
	}
	takeTurns()
	if !d.Swapped().Now {
		t.Fatalf("after a move: %+v", d.Swapped())
	}
	x := all[1]
	if err := x.cu.Free(x.at); err != nil {
		t.Fatal(err)
	}
	turns := 0
	for ; d.Swapped().Now && turns < 2*backend.RecentTurns; turns++ {
		all[0].takeTurn(t, func() {}) // the bytes come back in the first turn
	}
	if turns != backend.RecentTurns+1 {
		t.Errorf("memory counts as swapped for %d turns, want %d after the last move", turns, backend.RecentTurns)
	}
	var err error
	if x.at, err = x.cu.Alloc(tenantSize); err != nil {
		t.Fatal(err)
	}
	takeTurns()
	if s := d.Swapped(); !s.Now {
		t.Errorf("memory does not fit again: %+v", s)
	}
}

// TestSwapGrown: memory that is allocated in a turn drives other spaces out at once.
func TestSwapGrown(t *testing.T) {
	d, all := makeTenants(t, 2)
	small := all[0]
	if err := small.cu.Free(small.at); err != nil {
		t.Fatal(err)
	}
	small.takeTurn(t, func() {})
	all[1].takeTurn(t, func() { all[1].fillMemory(t, 1) })
	small.takeTurn(t, func() {
		if n := d.Swapped().Out; n != 0 {
			t.Errorf("%d bytes were swapped out although there was room", n)
		}
		var err error
		if small.at, err = small.cu.Alloc(tenantSize); err != nil {
			t.Fatal(err)
		}
		if n := d.Swapped().Out; n != tenantSize {
			t.Errorf("%d bytes were swapped out, want a tenant's", n)
		}
		small.fillMemory(t, 2)
	})
	small.checkMemory(t, 2)
	all[1].checkMemory(t, 1)
}

// TestSwapExchange: buffers of a collective stay when their space leaves, and hold the collective's writes when the
// space is back.
func TestSwapExchange(t *testing.T) {
	d, all := makeTenants(t, 2)
	a, b := all[0], all[1]
	other, err := a.cu.Alloc(backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Map(); err != nil {
		t.Fatal(err)
	}
	a.fillMemory(t, 1)
	if err := a.cu.Legacy().Fill(backend.Fill{Addr: other, Value: 3, Element: 1, Width: backend.Granule}); err != nil {
		t.Fatal(err)
	}
	type begun struct {
		bytes []byte
		done  func(error)
	}
	began := make(chan begun, 1)
	if err := a.cu.Legacy().Exchange([]backend.Buffer{{Addr: a.at, Size: tenantSize, Write: true}}, func(p [][]byte, done func(error)) {
		began <- begun{p[0], done}
	}); err != nil {
		t.Fatal(err)
	}
	x := <-began
	for a.Unmap() != nil { // until a waits for the exchange
		runtime.Gosched()
	}
	b.takeTurn(t, func() { b.fillMemory(t, 7) })
	if n := d.Swapped().Out; n != backend.Granule {
		t.Errorf("%d bytes were swapped out, want one block", n)
	}
	for i := range x.bytes {
		x.bytes[i] += 4
	}
	x.done(nil)
	a.takeTurn(t, func() {})
	a.checkMemory(t, 5)
	b.checkMemory(t, 7)
	p := make([]byte, backend.Granule)
	if some, err := a.ReadBlock(backend.BlockID{Base: other}, p); err != nil || !some || p[0] != 3 {
		t.Errorf("ReadBlock of the collective's block = %v, %v, first byte %d, want true, nil, 3", some, err, p[0])
	}
}

// TestSwapPeer: a peer reaches a space that is not mapped, by copies and by pointers.
func TestSwapPeer(t *testing.T) {
	_, all := makeTenants(t, 2)
	a, b := all[0], all[1]
	a.takeTurn(t, func() { a.fillMemory(t, 1) })
	b.takeTurn(t, func() {
		b.fillMemory(t, 2)
		err := b.cu.Legacy().Copy(backend.Copy{
			Src: backend.CopySide{Space: a.space, Addr: uint64(a.at)}, Dst: backend.CopySide{Addr: uint64(b.at)}, Width: tenantSize,
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	b.checkMemory(t, 1)
	if err := b.AllowPeer(a.space); err != nil {
		t.Fatal(err)
	}
	a.takeTurn(t, func() { a.fillMemory(t, 3) })
	b.takeTurn(t, func() {
		if err := b.cu.Legacy().Fill(backend.Fill{Addr: a.at, Value: 4, Element: 1, Width: tenantSize}); err != nil {
			t.Fatal(err)
		}
	})
	a.takeTurn(t, func() {})
	a.checkMemory(t, 4)
}

// TestPeerHost: the program's memory, which each of its spaces has at the same address, stays mapped in a space when a
// peer unmaps it, and does not keep spaces from becoming peers.
func TestPeerHost(t *testing.T) {
	_, all := makeTenants(t, 2)
	a, b := all[0], all[1]
	host := func(at backend.Addr, spaces ...*tenant) {
		t.Helper()
		mem := make([]byte, 1<<16+pageSize)
		skip := -addressOf(mem) & (pageSize - 1)
		for _, x := range spaces {
			if err := x.MapHost(at, mem[skip:][:1<<16]); err != nil {
				t.Fatal(err)
			}
		}
	}
	host(20<<32, a, b)
	if err := b.AllowPeer(a.space); err != nil {
		t.Fatal(err)
	}
	host(21<<32, a, b)
	if err := a.UnmapHost(20 << 32); err != nil {
		t.Fatal(err)
	}
	if _, err := b.table.viewBytes(20<<32, 4); err != nil {
		t.Errorf("memory that a space has unmapped is gone for the other space: %v", err)
	}
	if err := b.DenyPeer(a.space); err != nil {
		t.Fatal(err)
	}
	if err := b.UnmapHost(20 << 32); err != nil {
		t.Error(err)
	}
}

// TestPeerFree: a stream frees the memory of a peer, in its own order; without access to the peer it may not.
func TestPeerFree(t *testing.T) {
	_, all := makeTenants(t, 2)
	a, b := all[0], all[1]
	if err := b.cu.Legacy().FreeAsync(a.at); backend.ResultOf(err) != backend.InvalidValue {
		t.Fatalf("FreeAsync without access to the peer: %v, want InvalidValue", err)
	}
	if err := b.AllowPeer(a.space); err != nil {
		t.Fatal(err)
	}
	b.takeTurn(t, func() {
		if err := b.cu.Legacy().FreeAsync(a.at); err != nil {
			t.Fatal(err)
		}
	})
	if _, there := a.Lookup(a.at); there {
		t.Error("calls still find the freed memory")
	}
	if _, err := a.table.viewBytes(a.at, 4); err == nil {
		t.Error("the memory is still mapped")
	}
	if err := b.cu.Legacy().FreeAsync(a.at); backend.ResultOf(err) != backend.InvalidValue {
		t.Errorf("the second FreeAsync: %v, want InvalidValue", err)
	}
}

// TestSwapPeerExchange: a collective works on the memory of a peer on a device that is too small for all of its spaces.
// The memory has the collective's writes, whenever the peer leaves its device.
func TestSwapPeerExchange(t *testing.T) {
	b, err := New(Config{Memory: []uint64{deviceSize, deviceSize}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	all := tenantsOf(t, b.Devices()[0].(*device), 2)
	s, err := b.Devices()[1].NewSpace(backend.SpaceConfig{Base: 4 * backend.DefaultBase})
	if err != nil {
		t.Fatal(err)
	}
	cu, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	x := all[0]
	if err := s.AllowPeer(x.space); err != nil {
		t.Fatal(err)
	}
	if err := s.Map(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // the two spaces of the first device drive each other out
		for i := 0; ctx.Err() == nil; i++ {
			y := all[i%2]
			if err := y.Map(); err != nil {
				t.Error(err)
				return
			}
			for y.Unmap() != nil {
				runtime.Gosched()
			}
		}
	})
	defer wg.Wait()
	defer cancel()
	for i := range 4000 {
		v, done := byte(i), make(chan byte, 1)
		if err := cu.Legacy().Exchange([]backend.Buffer{{Addr: x.at, Size: 1, Write: true}}, func(p [][]byte, over func(error)) {
			before := p[0][0]
			p[0][0] = v
			over(nil)
			done <- before
		}); err != nil {
			t.Fatal(err)
		}
		if before := <-done; before != byte(i-1) && i > 0 {
			t.Fatalf("collective %d finds %d, want the last one's %d", i, before, byte(i-1))
		}
	}
}
