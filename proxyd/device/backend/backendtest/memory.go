// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

func testAllocate(r *rig) {
	free, total := r.space.Info()
	checkEqual(r, "free at first", free, total)
	checkEqual(r, "first address", r.allocBytes(1), backend.DefaultBase)
	for _, tc := range []struct{ n, align uint64 }{{1, 512}, {513, 512}, {1 << 20, 512}, {1<<20 + 1, backend.Granule}, {5 << 20, backend.Granule}} {
		if a := r.allocBytes(tc.n); uint64(a)%tc.align != 0 {
			r.Errorf("%d bytes at %#x, not aligned to %d", tc.n, uint64(a), tc.align)
		}
	}
	_, err := r.cu.Alloc(0)
	r.wantError("0 bytes", err, backend.InvalidValue)
	r.mustSucceed(r.cu.Free(0))
	a := r.allocBytes(100)
	r.wantError("free the inside", r.cu.Free(a+4), backend.InvalidValue)
	r.mustSucceed(r.cu.Free(a))
	r.wantError("free twice", r.cu.Free(a), backend.InvalidValue)
	r.wantError("free nowhere", r.cu.Free(12345), backend.InvalidValue)
}

func testOutOfMemory(r *rig) {
	_, total := r.space.Info()
	_, err := r.cu.Alloc(total + 1)
	r.wantError("more than all", err, backend.OutOfMemory)
	_, err = r.cu.Alloc(1 << 62)
	r.wantError("far more", err, backend.OutOfMemory)
	a := r.allocBytes(total - backend.Granule)
	free, _ := r.space.Info()
	checkEqual(r, "free", free, backend.Granule)
	_, err = r.cu.Alloc(backend.Granule + 1)
	r.wantError("more than is left", err, backend.OutOfMemory)
	_, err = r.space.NewMemory(2 * backend.Granule)
	r.wantError("VMM", err, backend.OutOfMemory)
	_, err = r.stream.AllocAsync(backend.DefaultPool, 2*backend.Granule)
	r.wantError("pool", err, backend.OutOfMemory)
	b := r.allocBytes(1000)
	for range 10 { // they share its granule
		r.allocBytes(1000)
	}
	_, err = r.cu.Alloc(1 << 20)
	r.mustSucceed(err)
	_, err = r.cu.Alloc(1 << 20)
	r.wantError("no room in the last granule", err, backend.OutOfMemory)
	// A program that frees and tries again succeeds at once, although earlier work may still run.
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.cu.Free(a))
	free, _ = r.space.Info()
	checkEqual(r, "free", free, total-backend.Granule)
	close(gate)
	r.allocBytes(total - backend.Granule)
	r.mustSucceed(r.cu.Free(b))
	// Another space of the same device has all its memory.
	other := must(r.dev.NewSpace(backend.SpaceConfig{Memory: smallMemory}))(r)
	free, _ = other.Info()
	checkEqual(r, "free in another space", free, smallMemory)
}

// runScript makes the same calls in any space and returns all addresses.
func runScript(r *rig, s backend.Space, cu backend.Context, seed uint64) []backend.Addr {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var live, all []backend.Addr
	stream := cu.Legacy()
	for range 300 {
		if len(live) > 0 && rnd.IntN(3) == 0 {
			i := rnd.IntN(len(live))
			if rnd.IntN(2) == 0 {
				r.mustSucceed(cu.Free(live[i]))
			} else {
				r.mustSucceed(stream.FreeAsync(live[i]))
			}
			live = slices.Delete(live, i, i+1)
			continue
		}
		n := uint64(1 + rnd.IntN(3000))
		if rnd.IntN(8) == 0 {
			n = uint64(1 + rnd.IntN(4<<20))
		}
		var a backend.Addr
		var err error
		switch rnd.IntN(3) {
		case 0:
			a, err = stream.AllocAsync(backend.DefaultPool, n)
		default:
			a, err = cu.Alloc(n)
		}
		if backend.ResultOf(err) == backend.OutOfMemory {
			all = append(all, 0)
			continue
		}
		r.mustSucceed(err)
		live, all = append(live, a), append(all, a)
	}
	all = append(all, must(s.Reserve(3*backend.Granule, 0, 0))(r))
	return append(all, must(s.Reserve(backend.Granule, 1<<30, 0))(r))
}

func testSameAddresses(r *rig) {
	want := runScript(r, r.space, r.cu, 1)
	r.mustSucceed(r.space.Drain(r.ctx))
	r.mustSucceed(r.space.Unmap())
	for range 3 {
		o := newRig(r.T, r.b, r.secondDevice(), backend.SpaceConfig{Memory: smallMemory})
		if got := runScript(o, o.space, o.cu, 1); !slices.Equal(got, want) {
			r.Fatalf("%x, want %x", got, want)
		}
		r.mustSucceed(o.space.Close())
	}
}

func testZeroed(r *rig) {
	for _, n := range []int{100, 300 << 10, 3 << 20} {
		for range 2 {
			keep := r.allocBytes(100)
			a := r.allocBytes(uint64(n))
			r.wantBytes("new memory", a, make([]byte, n))
			r.copyIn(a, makePattern(n, 1))
			r.mustSucceed(r.cu.Free(a))
			checkEqual(r, "address", r.allocBytes(uint64(n)), a)
			r.wantBytes("memory that was freed", a, make([]byte, n))
			r.mustSucceed(r.cu.Free(keep))
		}
	}
}

func testFreeBehindWork(r *rig) {
	const n = 100 << 10
	a, b := r.allocBytes(n), r.allocBytes(n)
	r.copyIn(a, makePattern(n, 1))
	// The copy is queued behind a gate, the memory is freed, and its addresses are given out again: the copy sees
	// the bytes that were there.
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: deviceAt(b), Width: n}))
	r.mustSucceed(r.cu.Free(a))
	r.wantError("copy from freed memory", r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: deviceAt(b), Width: n}), backend.InvalidValue)
	got := make(chan backend.Addr)
	go func() {
		c, _ := r.cu.Alloc(n)
		got <- c
	}()
	close(gate)
	checkEqual(r, "address", <-got, a)
	r.syncStream()
	r.wantBytes("copied", b, makePattern(n, 1))
	r.wantBytes("new memory", a, make([]byte, n))
}

func testLookup(r *rig) {
	a := r.allocBytes(1000)
	big := r.allocBytes(5 << 20)
	for _, tc := range []struct {
		at, base backend.Addr
		size     uint64
	}{{a, a, 1000}, {a + 999, a, 1000}, {big, big, 5 << 20}, {big + 4<<20, big, 5 << 20}} {
		x, ok := r.space.Lookup(tc.at)
		if !ok || x.Base != tc.base || x.Size != tc.size || x.Kind != backend.Plain || x.Context != r.cu.ID() || !x.Access {
			r.Errorf("Lookup(%#x) = %+v, %v, want the allocation that holds the address", uint64(tc.at), x, ok)
		}
	}
	for _, at := range []backend.Addr{0, a - 1, a + 4096, big - 1, big + 8<<20, ^backend.Addr(0)} {
		if x, ok := r.space.Lookup(at); ok {
			r.Errorf("Lookup(%#x) = %+v, want none: no allocation holds the address", uint64(at), x)
		}
	}
}

func testPitch(r *rig) {
	for _, e := range []uint32{4, 8, 16} {
		a, p, err := r.cu.AllocPitch(1001, 5, e)
		r.mustSucceed(err)
		if p < 1001 || p%512 != 0 || uint64(a)%512 != 0 {
			r.Errorf("the pitched allocation has pitch %d and address %#x, which do not fit", p, uint64(a))
		}
		if x, ok := r.space.Lookup(a + backend.Addr(4*p)); !ok || x.Base != a {
			r.Error("the last row is not allocated")
		}
	}
	for _, tc := range []struct {
		w, h uint64
		e    uint32
		want backend.Result
	}{
		{0, 1, 4, backend.InvalidValue},
		{1, 0, 4, backend.InvalidValue},
		{1, 1, 3, backend.InvalidValue},
		{1 << 20, 1 << 20, 4, backend.OutOfMemory},
	} {
		_, _, err := r.cu.AllocPitch(tc.w, tc.h, tc.e)
		r.wantError("pitched memory", err, tc.want)
	}
}

func testHostMemory(r *rig) {
	b, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	r.mustSucceed(err)
	defer func() { r.mustSucceed(unix.Munmap(b)) }()
	const at = backend.Addr(0x7000_0000_0000)
	copy(b, makePattern(8192, 3))
	r.mustSucceed(r.space.MapHost(at, b))
	x, ok := r.space.Lookup(at + 8191)
	if !ok || x.Kind != backend.Host || x.Base != at || x.Size != 8192 {
		r.Errorf("Lookup within the mapped host memory = %+v, %v, want its 8192 bytes as Host", x, ok)
	}
	free, total := r.space.Info()
	checkEqual(r, "free", free, total)
	r.wantBytes("host memory", at+100, makePattern(8192, 3)[100:200])
	a := r.allocBytes(4)
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(at), Dst: deviceAt(a), Width: 4}))
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: at + 4, Value: 9, Element: 1, Width: 4}))
	m := r.loadKernels()
	r.mustSucceed(r.runKernel(r.findKernel(m, "add"), 2, joinArgs([]backend.Addr{at + 8}, 1)))
	want := makePattern(8192, 3)
	r.syncStream()
	want[4], want[5], want[6], want[7], want[8], want[12] = 9, 9, 9, 9, want[8]+1, want[12]+1
	r.wantBytes("host memory", at, want[:16])
	r.wantBytes("copied", a, want[:4])
	checkEqual(r, "the program's bytes", string(b[:16]), string(want[:16]))

	r.wantError("map over it", r.space.MapHost(at+4096, make([]byte, 4096)), backend.InvalidValue)
	r.wantError("not aligned", r.space.MapHost(at+1<<20+1, make([]byte, 4096)), backend.InvalidValue)
	r.wantError("nothing", r.space.MapHost(at+1<<20, nil), backend.InvalidValue)
	r.wantError("within the space", r.space.MapHost(backend.DefaultBase+backend.Granule, make([]byte, 4096)), backend.InvalidValue)
	r.wantError("free it", r.cu.Free(at), backend.InvalidValue)
	r.wantError("unmap the inside", r.space.UnmapHost(at+4096), backend.InvalidValue)
	r.mustSucceed(r.space.UnmapHost(at))
	r.wantError("unmap twice", r.space.UnmapHost(at), backend.InvalidValue)
	r.wantError("copy", r.stream.Copy(backend.Copy{Src: deviceAt(at), Dst: deviceAt(a), Width: 4}), backend.InvalidValue)
}

func testPeers(r *rig) {
	o := newRig(r.T, r.b, r.secondDevice(), r.configApart())
	same := must(r.secondDevice().NewSpace(backend.SpaceConfig{Memory: smallMemory}))(r)
	a, b := r.allocBytes(1000), o.allocBytes(1000)
	r.copyIn(a, makePattern(1000, 1))
	// Copies name the space and need no permission.
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: backend.CopySide{Space: o.space, Addr: uint64(b)}, Width: 1000}))
	r.syncStream()
	o.wantBytes("copied", b, makePattern(1000, 1))
	r.wantError("copy without a space", r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: deviceAt(b), Width: 1000}), backend.InvalidValue)

	r.wantError("deny first", r.space.DenyPeer(o.space), backend.PeerAccessNotEnabled)
	r.wantError("itself", r.space.AllowPeer(r.space), backend.InvalidValue)
	r.wantError("the same addresses", r.space.AllowPeer(same), backend.InvalidValue)
	r.mustSucceed(r.space.AllowPeer(o.space))
	r.wantError("allow twice", r.space.AllowPeer(o.space), backend.PeerAccessAlreadyEnabled)
	c := o.allocBytes(1000) // later allocations can be reached, too
	m := r.loadKernels()
	add := r.findKernel(m, "add")
	r.mustSucceed(r.runKernel(add, 2, joinArgs([]backend.Addr{c}, 7)))
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(c), Dst: deviceAt(b), Width: 8}))
	r.syncStream()
	o.wantBytes("written by a kernel", c, joinWords(7, 7, 0))
	o.wantBytes("copied", b, joinWords(7, 7))
	r.mustSucceed(r.space.DenyPeer(o.space))
	r.wantError("deny twice", r.space.DenyPeer(o.space), backend.PeerAccessNotEnabled)
	r.mustSucceed(r.runKernel(add, 1, joinArgs([]backend.Addr{c}, 7)))
	r.wantError("a kernel without permission", r.stream.Synchronize(r.ctx), backend.IllegalAddress)
	r.mustSucceed(o.cu.Err())
}

// testFreeOfPeer: a stream frees memory of a peer, in the stream's order. The peer is on the same device, and not
// mapped.
func testFreeOfPeer(r *rig) {
	peer := must(r.dev.NewSpace(r.configApart()))(r)
	cu := must(peer.NewContext(0))(r)
	total, _ := peer.Info()
	stays, a := must(cu.Alloc(3*granule))(r), must(cu.Alloc(1000))(r)
	r.wantError("without permission", r.stream.FreeAsync(a), backend.InvalidValue)
	r.mustSucceed(r.space.AllowPeer(peer))
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.stream.FreeAsync(a))
	r.wantError("twice", r.stream.FreeAsync(a), backend.InvalidValue)
	r.wantError("in the midst", r.stream.FreeAsync(stays+512), backend.InvalidValue)
	checkEqual(r, "the peer waits for the stream", peer.Freeing(), true)
	free, _ := peer.Info()
	checkEqual(r, "free", free, total-3*granule)
	close(gate)
	r.syncStream()
	// The next owner of the addresses waits for the stream that has freed them.
	checkEqual(r, "address", must(cu.Alloc(1000))(r), a)
	checkEqual(r, "the peer waits for nothing", peer.Freeing(), false)
	r.mustSucceed(peer.Close())
}
