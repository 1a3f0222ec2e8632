// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"errors"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

func testCopies(r *rig) {
	const n = 3 << 20
	a, b := r.allocBytes(n), r.allocBytes(n)
	want := makePattern(n, 1)
	r.copyIn(a, want)
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: deviceAt(b), Width: n}))
	r.syncStream()
	r.wantBytes("device to device", b, want)
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(b), Dst: deviceAt(b + 100), Width: 1000}))
	r.syncStream()
	r.wantBytes("onto itself", b+100, want[:1000])
	h := make([]byte, 100)
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: hostBytes(want), Dst: hostBytes(h), Width: 100}))
	r.syncStream()
	checkEqual(r, "host to host", string(h), string(want[:100]))
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: deviceAt(b)})) // a copy of no bytes

	// A box of 3 slices, 4 rows, 5 bytes, out of 7 x 6 and into 8 x 5.
	src := makePattern(7*6*5, 9)
	r.copyIn(a, src)
	dst := make([]byte, 8*5*4)
	r.copyIn(b, dst)
	for z := range 3 {
		for y := range 4 {
			copy(dst[2+8*(1+y+5*(z+1)):][:5], src[1+7*(2+y+6*(z+2)):])
		}
	}
	box := backend.Copy{
		Src:   backend.CopySide{Addr: uint64(a), Pitch: 7, Rows: 6, X: 1, Y: 2, Z: 2},
		Dst:   backend.CopySide{Addr: uint64(b), Pitch: 8, Rows: 5, X: 2, Y: 1, Z: 1},
		Width: 5, Height: 4, Depth: 3,
	}
	r.mustSucceed(r.stream.Copy(box))
	r.syncStream()
	r.wantBytes("box on the device", b, dst)
	for _, tc := range []struct {
		name     string
		from, to bool // the host's
	}{{"from the host", true, false}, {"to the host", false, true}, {"on the host", true, true}} {
		c := box
		r.copyIn(b, make([]byte, len(dst)))
		out := make([]byte, len(dst))
		if tc.from {
			c.Src.Host, c.Src.Addr = host(src), hostBase
		}
		if tc.to {
			c.Dst.Host, c.Dst.Addr = host(out), hostBase
		}
		r.mustSucceed(r.stream.Copy(c))
		if !tc.to {
			out = r.copyOut(b, len(dst))
		}
		r.syncStream()
		checkEqual(r, "box "+tc.name, string(out), string(dst))
	}
	// A copy to host memory that is not there is a fault. CUDA would have killed the program.
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: hostBytes(nil), Width: 10}))
	if err := r.stream.Synchronize(r.ctx); !backend.ResultOf(err).Sticky() {
		r.Errorf("copy to nowhere: %v", err)
	}
}

func testCopiesMisused(r *rig) {
	a := r.allocBytes(5 << 20)
	other := must(r.dev.NewSpace(r.configApart()))(r)
	at := func(p backend.CopySide) backend.CopySide { p.Addr = uint64(a); return p }
	for _, tc := range []struct {
		name string
		c    backend.Copy
	}{
		{"from nowhere", backend.Copy{Src: deviceAt(12345), Dst: deviceAt(a), Width: 4}},
		{"to nowhere", backend.Copy{Src: deviceAt(a), Dst: deviceAt(0), Width: 4}},
		{"beyond the end", backend.Copy{Src: deviceAt(a + 5<<20 - 4), Dst: deviceAt(a), Width: 8}},
		{"more than there is", backend.Copy{Src: deviceAt(a), Dst: deviceAt(a), Width: 1 << 50}},
		{"all there is", backend.Copy{Src: deviceAt(a), Dst: deviceAt(a), Width: ^uint64(0)}},
		{"pitch below the width", backend.Copy{Src: at(backend.CopySide{Pitch: 4}), Dst: deviceAt(a), Width: 8, Height: 2}},
		{"fewer rows than the height", backend.Copy{Src: at(backend.CopySide{Pitch: 8, Rows: 1}), Dst: deviceAt(a), Width: 8, Height: 2, Depth: 2}},
		{"huge pitch", backend.Copy{Src: at(backend.CopySide{Pitch: 1 << 63}), Dst: deviceAt(a), Width: 8, Height: 3}},
		{"huge offset", backend.Copy{Src: at(backend.CopySide{X: 1 << 63}), Dst: deviceAt(a), Width: 8}},
		{"huge slice", backend.Copy{Src: at(backend.CopySide{Pitch: 1 << 33, Rows: 1 << 33, Z: 4}), Dst: deviceAt(a), Width: 8}},
		{"another space's address", backend.Copy{Src: backend.CopySide{Space: other, Addr: uint64(a)}, Dst: deviceAt(a), Width: 8}},
	} {
		r.wantError(tc.name, r.stream.Copy(tc.c), backend.InvalidValue)
	}
	r.mustSucceed(other.Close())
	r.wantError("a space that is gone", r.stream.Copy(backend.Copy{Src: backend.CopySide{Space: other, Addr: uint64(a)}, Dst: deviceAt(a), Width: 8}), backend.InvalidValue)
	r.syncStream()
}

// testCopiesForeign: the streams of a backend do not copy memory of another backend's spaces.
func testCopiesForeign(r *rig) {
	a := r.allocBytes(granule)
	b := r.open(r.T)
	foreign := newRig(r.T, b, b.Devices()[0], r.configApart())
	theirs := backend.CopySide{Space: foreign.space, Addr: uint64(foreign.allocBytes(granule))}
	r.wantError("from another backend", r.stream.Copy(backend.Copy{Src: theirs, Dst: deviceAt(a), Width: 8}), backend.InvalidValue)
	r.wantError("to another backend", r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: theirs, Width: 8}), backend.InvalidValue)
	r.syncStream()
	r.mustSucceed(b.Close())
}

func testFills(r *rig) {
	a := r.allocBytes(4096)
	for _, e := range []uint32{1, 2, 4} {
		want := make([]byte, 4096)
		r.copyIn(a, want)
		r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a + 8, Value: 0x44332211, Element: e, Width: 100}))
		for i := range 100 * int(e) {
			want[8+i] = byte(0x11 * (i%int(e) + 1))
		}
		r.syncStream()
		r.wantBytes("row", a, want)
		r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a + 2048, Value: 0x88776655, Element: e, Width: 3, Height: 4, Pitch: 64}))
		for y := range 4 {
			for i := range 3 * int(e) {
				want[2048+64*y+i] = byte(0x55 + 0x11*(i%int(e)))
			}
		}
		r.syncStream()
		r.wantBytes("rows", a, want)
	}
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Element: 1}))
}

// unreachableMemory is memory of a program that cannot be reached. It counts the attempts.
type unreachableMemory struct {
	err   error
	tries *atomic.Int32
}

func (n unreachableMemory) Read(uint64, []byte) error  { n.tries.Add(1); return n.err }
func (n unreachableMemory) Write(uint64, []byte) error { n.tries.Add(1); return n.err }

// testCopiesUnreachable: a copy of program memory that is not there ends, and is a fault only if the memory's owner
// says so.
func testCopiesUnreachable(r *rig) {
	a := r.allocBytes(4096)
	var tries atomic.Int32
	there := backend.CopySide{Addr: uint64(a)}
	host := backend.CopySide{Host: unreachableMemory{errors.New("not there"), &tries}, Pitch: 16}
	for i, c := range []backend.Copy{
		{Dst: there, Src: host, Width: 8, Height: 3},
		{Dst: host, Src: there, Width: 8, Height: 3},
		{Dst: host, Src: backend.CopySide{Host: host.Host}, Width: 1 << 46},
	} {
		r.mustSucceed(r.stream.Copy(c))
		r.syncStream()
		checkEqual(r, "tries", tries.Load(), int32(i+1))
	}
	r.copyIn(a, []byte{1})
	r.wantBytes("after it", a, []byte{1})
	host.Host = unreachableMemory{backend.IllegalAddress, &tries}
	r.mustSucceed(r.stream.Copy(backend.Copy{Dst: there, Src: host, Width: 8}))
	r.wantError("a fault", r.stream.Synchronize(r.ctx), backend.IllegalAddress)
}

func testFillsMisused(r *rig) {
	a := r.allocBytes(4096)
	for _, tc := range []struct {
		name string
		f    backend.Fill
	}{
		{"element of 3", backend.Fill{Addr: a, Element: 3, Width: 1}},
		{"element of 0", backend.Fill{Addr: a, Width: 1}},
		{"crooked address", backend.Fill{Addr: a + 2, Element: 4, Width: 1}},
		{"crooked pitch", backend.Fill{Addr: a, Element: 4, Width: 1, Height: 2, Pitch: 6}},
		{"pitch below the width", backend.Fill{Addr: a, Element: 4, Width: 2, Height: 2, Pitch: 4}},
		{"beyond the end", backend.Fill{Addr: a, Element: 4, Width: 1025}},
		{"last row beyond the end", backend.Fill{Addr: a, Element: 1, Width: 8, Height: 3, Pitch: 2048}},
		{"huge", backend.Fill{Addr: a, Element: 4, Width: 1 << 62}},
		{"huge height", backend.Fill{Addr: a, Element: 1, Width: 1, Height: 1 << 62, Pitch: 8}},
		{"nowhere", backend.Fill{Addr: 12345, Element: 1, Width: 1}},
	} {
		r.wantError(tc.name, r.stream.Fill(tc.f), backend.InvalidValue)
	}
}

func testExchange(r *rig) {
	// Two memories side by side, so that a buffer lies in two pieces.
	base := must(r.space.Reserve(2*granule, 0, 0))(r)
	for i := range 2 {
		r.mustSucceed(r.space.MapMemory(base+backend.Addr(i*granule), granule, 0, must(r.space.NewMemory(granule))(r)))
	}
	r.mustSucceed(r.space.SetAccess(base, 2*granule, true))
	a := r.allocBytes(64)
	r.copyIn(a, makePattern(64, 1))
	recv := base + granule - 32
	buffers := []backend.Buffer{{Addr: a, Size: 64}, {Addr: recv, Size: 64, Write: true}}
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Exchange(buffers, func(b [][]byte, done func(error)) {
		go func() {
			<-gate
			copy(b[1], b[0])
			done(nil)
		}()
	}))
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(recv), Dst: deviceAt(a), Width: 1})) // waits for the exchange
	r.wantError("query", r.stream.Query(), backend.NotReady)
	close(gate)
	r.syncStream()
	r.wantBytes("received", recv, makePattern(64, 1))
	begin := func([][]byte, func(error)) { r.Error("a refused exchange has begun") }
	r.wantError("beyond the end", r.stream.Exchange([]backend.Buffer{{Addr: a, Size: 1 << 20}}, begin), backend.InvalidValue)
	r.wantError("nowhere", r.stream.Exchange([]backend.Buffer{{Addr: 12345, Size: 1}}, begin), backend.InvalidValue)
	// Errors of the exchange itself are for its caller; an error of the driver becomes the context's fault.
	fail := func(err error) func([][]byte, func(error)) {
		return func(_ [][]byte, done func(error)) { done(err) }
	}
	r.mustSucceed(r.stream.Exchange(nil, fail(r.ctx.Err())))
	r.mustSucceed(r.stream.Exchange(nil, fail(errPeerGone)))
	r.syncStream()
	r.mustSucceed(r.stream.Exchange(nil, fail(backend.IllegalAddress)))
	r.wantError("fault", r.stream.Synchronize(r.ctx), backend.IllegalAddress)
}
