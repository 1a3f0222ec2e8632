// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

const granule = backend.Granule

func testVirtual(r *rig) {
	total, _ := r.space.Info()
	base := must(r.space.Reserve(8*granule, 0, 0))(r)
	checkEqual(r, "reserved first", base, backend.DefaultBase)
	left, _ := r.space.Info()
	checkEqual(r, "free after a reservation", left, total)
	one := must(r.space.NewMemory(granule))(r)
	two := must(r.space.NewMemory(2 * granule))(r)
	left, _ = r.space.Info()
	checkEqual(r, "free after 3 granules", left, total-3*granule)

	// Two memories side by side are a single range.
	r.mustSucceed(r.space.MapMemory(base+granule, granule, 0, one))
	r.mustSucceed(r.space.MapMemory(base+2*granule, 2*granule, 0, two))
	cross := base + 2*granule - 8
	r.wantError("copy without access", r.stream.Fill(backend.Fill{Addr: cross, Value: 1, Element: 1, Width: 16}), backend.InvalidValue)
	r.mustSucceed(r.space.SetAccess(base+granule, 3*granule, true))
	r.copyIn(cross, makePattern(16, 1))
	r.wantBytes("over the border", cross, makePattern(16, 1))
	x, ok := r.space.Lookup(cross + 8)
	if !ok || x.Kind != backend.Mapped || x.Memory != two || x.Base != base+2*granule || x.Size != 2*granule || !x.Access {
		r.Errorf("Lookup behind the border = %+v, %v, want the second mapping with access", x, ok)
	}

	// The same bytes at another address.
	r.mustSucceed(r.space.MapMemory(base+5*granule, granule, 0, one))
	r.mustSucceed(r.space.SetAccess(base+5*granule, granule, true))
	r.wantBytes("mapped twice", base+6*granule-8, makePattern(16, 1)[:8])
	r.copyIn(base+6*granule-8, joinWords(1, 2))
	r.wantBytes("mapped twice", cross, joinWords(1, 2))

	// Memory lives as long as a name or mapping is left.
	again := must(r.space.RetainMemory(base + granule))(r)
	checkEqual(r, "retained", again, one)
	r.mustSucceed(r.space.ReleaseMemory(one))
	r.mustSucceed(r.space.ReleaseMemory(one))
	r.wantError("released too often", r.space.ReleaseMemory(one), backend.InvalidValue)
	left, _ = r.space.Info()
	checkEqual(r, "free", left, total-3*granule)
	r.wantBytes("released and mapped", cross, joinWords(1, 2))
	r.mustSucceed(r.space.UnmapMemory(base+5*granule, granule))
	r.mustSucceed(r.space.UnmapMemory(base+granule, 3*granule))
	left, _ = r.space.Info()
	checkEqual(r, "free", left, total-2*granule)

	// Memory that is mapped later at the same address has its own bytes.
	r.mustSucceed(r.space.MapMemory(base+granule, 2*granule, 0, two))
	r.mustSucceed(r.space.SetAccess(base+granule, 2*granule, true))
	r.wantBytes("moved", base+granule, makePattern(16, 1)[8:])
	r.mustSucceed(r.space.SetAccess(base+granule, 2*granule, false))
	r.wantError("access taken away", r.stream.Fill(backend.Fill{Addr: base + granule, Element: 1, Width: 1}), backend.InvalidValue)
	r.mustSucceed(r.space.UnmapMemory(base+granule, 2*granule))
	r.mustSucceed(r.space.ReleaseMemory(two))
	r.mustSucceed(r.space.Unreserve(base, 8*granule))
	left, _ = r.space.Info()
	checkEqual(r, "free at the end", left, total)

	checkPlaces(r, base)
}

// checkPlaces checks at which addresses the first reservations are: at a hint, or from base on.
func checkPlaces(r *rig, base backend.Addr) {
	r.Helper()
	hint := base + 100*granule
	checkEqual(r, "a hint that is free", must(r.space.Reserve(granule, 0, hint))(r), hint)
	checkEqual(r, "a hint that is taken", must(r.space.Reserve(granule, 0, hint))(r), base)
	if a := must(r.space.Reserve(granule, 1<<30, 0))(r); a%(1<<30) != 0 {
		r.Errorf("Reserve with an alignment of 1 GiB gave %#x, which is not aligned", uint64(a))
	}
	// 64 times the memory can be reserved.
	for range 64 {
		must(r.space.Reserve(smallMemory, 0, 0))(r)
	}
}

// testVirtualReleased: work that was given before the memory was unmapped, and then released, still finds the memory.
func testVirtualReleased(r *rig) {
	base := must(r.space.Reserve(granule, 0, 0))(r)
	m := must(r.space.NewMemory(granule))(r)
	r.mustSucceed(r.space.MapMemory(base, granule, 0, m))
	r.mustSucceed(r.space.SetAccess(base, granule, true))
	out := r.allocBytes(4)
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: base, Value: 7, Element: 1, Width: granule}))
	r.mustSucceed(r.stream.Copy(backend.Copy{Dst: backend.CopySide{Addr: uint64(out)}, Src: backend.CopySide{Addr: uint64(base)}, Width: 4}))
	r.mustSucceed(r.space.UnmapMemory(base, granule))
	r.mustSucceed(r.space.ReleaseMemory(m))
	free, total := r.space.Info()
	checkEqual(r, "used after the last name", total-free, granule)
	close(gate)
	r.wantBytes("what it wrote and read", out, []byte{7, 7, 7, 7})
	r.mustSucceed(r.space.Unreserve(base, granule))
}

// awaitCall waits for the result of a call in another goroutine.
func (r *rig) awaitCall(what string, over chan error) {
	r.Helper()
	select {
	case err := <-over:
		r.mustSucceed(err)
	case <-r.ctx.Done():
		r.Fatalf("%s: the call has not returned", what)
	}
}

// testVirtualRemapped: a program can map other memory at an address while an exchange of other bytes is under way: the other
// side of the exchange may wait for the program. Work behind the exchange that was given before still finds the earlier
// memory.
func testVirtualRemapped(r *rig) {
	base := must(r.space.Reserve(3*granule, 0, 0))(r)
	var memories [3]backend.MemoryID
	for i := range memories {
		memories[i] = must(r.space.NewMemory(granule))(r)
	}
	remap := func(m backend.MemoryID) chan error {
		r.mustSucceed(r.space.UnmapMemory(base, granule))
		r.mustSucceed(r.space.MapMemory(base, granule, 0, m))
		over := make(chan error, 1)
		go func() { over <- r.space.SetAccess(base, granule, true) }()
		return over
	}
	r.mustSucceed(r.space.MapMemory(base, granule, 0, memories[0]))
	r.mustSucceed(r.space.SetAccess(base, granule, true))
	gate := make(chan struct{})
	a := r.allocBytes(64)
	r.mustSucceed(r.stream.Exchange([]backend.Buffer{{Addr: a, Size: 64, Write: true}}, func(_ [][]byte, done func(error)) {
		go func() { <-gate; done(nil) }()
	}))
	r.mustSucceed(r.stream.Host(func() {}))
	r.mustSucceed(r.stream.Record(must(r.cu.NewEvent(backend.EventConfig{}))(r)))
	r.awaitCall("access under an exchange", remap(memories[1]))
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	r.mustSucceed(other.Fill(backend.Fill{Addr: base, Value: 5, Element: 1, Width: granule}))
	r.mustSucceed(other.Synchronize(r.ctx))
	r.wantError("the exchange", r.stream.Query(), backend.NotReady)

	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: base, Value: 7, Element: 1, Width: 1}))
	over := remap(memories[2])
	close(gate)
	r.awaitCall("access after the exchange", over)
	r.syncStream()
	r.wantBytes("the third memory", base, []byte{0, 0})
	for i, want := range [][]byte{{0, 0}, {7, 5}} {
		at := base + backend.Addr(i+1)*granule
		r.mustSucceed(r.space.MapMemory(at, granule, 0, memories[i]))
		r.mustSucceed(r.space.SetAccess(at, granule, true))
		r.wantBytes("an earlier memory", at, want)
	}
}

func testVirtualMisused(r *rig) {
	base := must(r.space.Reserve(4*granule, 0, 0))(r)
	m := must(r.space.NewMemory(granule))(r)
	r.mustSucceed(r.space.MapMemory(base, granule, 0, m))
	plain := r.allocBytes(granule)
	reserve := func(size, align uint64) error { _, err := r.space.Reserve(size, align, 0); return err }
	create := func(n uint64) error { _, err := r.space.NewMemory(n); return err }
	retain := func(a backend.Addr) error { _, err := r.space.RetainMemory(a); return err }
	for _, tc := range []struct {
		name string
		err  error
		want backend.Result
	}{
		{"reserve nothing", reserve(0, 0), backend.InvalidValue},
		{"reserve half a granule", reserve(granule/2, 0), backend.InvalidValue},
		{"reserve with a crooked alignment", reserve(granule, 3*granule), backend.InvalidValue},
		{"reserve everything", reserve(1<<46, 0), backend.OutOfMemory},
		{"unreserve a part", r.space.Unreserve(base, granule), backend.InvalidValue},
		{"unreserve what is mapped", r.space.Unreserve(base, 4*granule), backend.InvalidValue},
		{"unreserve nothing", r.space.Unreserve(base+granule, granule), backend.InvalidValue},
		{"memory of nothing", create(0), backend.InvalidValue},
		{"memory of half a granule", create(granule / 2), backend.InvalidValue},
		{"retain where nothing is", retain(base + granule), backend.InvalidValue},
		{"retain plain memory", retain(plain), backend.InvalidValue},
		{"release nothing", r.space.ReleaseMemory(99), backend.InvalidValue},
		{"map over", r.space.MapMemory(base, granule, 0, m), backend.InvalidValue},
		{"map half", r.space.MapMemory(base+granule, granule/2, 0, m), backend.InvalidValue},
		{"map with an offset", r.space.MapMemory(base+granule, granule, granule, m), backend.InvalidValue},
		{"map more than there is", r.space.MapMemory(base+granule, 2*granule, 0, m), backend.InvalidValue},
		{"map crooked", r.space.MapMemory(base+granule+512, granule, 0, m), backend.InvalidValue},
		{"map outside", r.space.MapMemory(base+4*granule, granule, 0, m), backend.InvalidValue},
		{"map over the end", r.space.MapMemory(plain, granule, 0, m), backend.InvalidValue},
		{"map nothing", r.space.MapMemory(base+granule, granule, 0, 99), backend.InvalidValue},
		{"unmap what is not mapped", r.space.UnmapMemory(base+granule, granule), backend.InvalidValue},
		{"unmap too much", r.space.UnmapMemory(base, 2*granule), backend.InvalidValue},
		{"unmap plain memory", r.space.UnmapMemory(plain, granule), backend.InvalidValue},
		{"access to what is not mapped", r.space.SetAccess(base, 2*granule, true), backend.InvalidValue},
		{"free a mapping", r.cu.Free(base), backend.InvalidValue},
	} {
		r.wantError(tc.name, tc.err, tc.want)
	}
}

func testPools(r *rig) {
	p := must(r.space.NewPool(1 << 20))(r)
	_, err := r.stream.AllocAsync(p, 2<<20)
	r.wantError("more than the pool", err, backend.OutOfMemory)
	a := must(r.stream.AllocAsync(p, 1000))(r)
	x, _ := r.space.Lookup(a)
	if x.Kind != backend.Pooled || x.Pool != p || x.Size != 1000 {
		r.Errorf("Lookup of an allocation of 1000 bytes from a pool = %+v, want Pooled of that size and pool", x)
	}
	attribute := func(a backend.PoolAttribute, want uint64) {
		r.Helper()
		checkEqual(r, "attribute", must(r.space.PoolAttribute(p, a))(r), want)
	}
	attribute(backend.PoolUsedCurrent, 1024)
	b := must(r.stream.AllocAsync(p, 3000))(r)
	attribute(backend.PoolUsedCurrent, 1024+3072)
	r.mustSucceed(r.stream.FreeAsync(a))
	r.mustSucceed(r.cu.Free(b)) // either way of freeing will do
	attribute(backend.PoolUsedCurrent, 0)
	attribute(backend.PoolUsedHigh, 4096)
	r.mustSucceed(r.space.SetPoolAttribute(p, backend.PoolUsedHigh, 0))
	attribute(backend.PoolUsedHigh, 0)
	attribute(backend.PoolReuseFollowEvents, 1)
	r.mustSucceed(r.space.SetPoolAttribute(p, backend.PoolReuseFollowEvents, 0))
	attribute(backend.PoolReuseFollowEvents, 0)
	r.mustSucceed(r.space.SetPoolAttribute(p, backend.PoolReleaseThreshold, 1<<30))
	attribute(backend.PoolReleaseThreshold, 1<<30)
	r.mustSucceed(r.space.TrimPool(p, 0))

	_, err = r.space.PoolAttribute(p, 99)
	r.wantError("no attribute", err, backend.InvalidValue)
	r.wantError("set what is used", r.space.SetPoolAttribute(p, backend.PoolUsedCurrent, 0), backend.InvalidValue)
	r.wantError("set the highest", r.space.SetPoolAttribute(p, backend.PoolUsedHigh, 5), backend.InvalidValue)
	r.wantError("destroy the default pool", r.space.DestroyPool(backend.DefaultPool), backend.InvalidValue)
	r.wantError("trim no pool", r.space.TrimPool(99, 0), backend.InvalidValue)
	c := must(r.stream.AllocAsync(p, 100))(r)
	r.mustSucceed(r.space.DestroyPool(p))
	r.wantError("destroy twice", r.space.DestroyPool(p), backend.InvalidValue)
	_, err = r.stream.AllocAsync(p, 100)
	r.wantError("allocate from a pool that is gone", err, backend.InvalidValue)
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: c, Value: 7, Element: 1, Width: 100}))
	r.wantBytes("its memory", c, bytes.Repeat([]byte{7}, 100))
	r.mustSucceed(r.stream.FreeAsync(c))
	r.syncStream()
}

func testStreamOrdered(r *rig) {
	const n = 100 << 10
	total, _ := r.space.Info()
	out := r.allocBytes(n)
	used, _ := r.space.Info()
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	a := must(r.stream.AllocAsync(backend.DefaultPool, n))(r)
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: hostBytes(makePattern(n, 1)), Dst: deviceAt(a), Width: n}))
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: deviceAt(out), Width: n}))
	r.mustSucceed(r.stream.FreeAsync(a))
	r.wantError("free twice", r.stream.FreeAsync(a), backend.InvalidValue)
	r.wantError("use it after", r.stream.Fill(backend.Fill{Addr: a, Element: 1, Width: 1}), backend.InvalidValue)
	free, _ := r.space.Info()
	checkEqual(r, "free", free, used)
	// Another stream gets the same address, and its work waits for the first stream's work there.
	b := must(other.AllocAsync(backend.DefaultPool, n))(r)
	checkEqual(r, "address", b, a)
	r.mustSucceed(other.Fill(backend.Fill{Addr: b, Value: 3, Element: 1, Width: 10}))
	r.wantError("waits", other.Query(), backend.NotReady)
	close(gate)
	r.syncStream()
	r.mustSucceed(other.Synchronize(r.ctx))
	r.wantBytes("first", out, makePattern(n, 1))
	r.wantBytes("second", b, []byte{3, 3, 3, 3, 3, 3, 3, 3, 3, 3}) // later bytes may be old ones of the program
	r.mustSucceed(other.FreeAsync(b))
	r.mustSucceed(other.FreeAsync(out)) // plain memory too
	r.mustSucceed(r.cu.Synchronize(r.ctx))
	free, _ = r.space.Info()
	checkEqual(r, "free at the end", free, total)
}

// testWrongOrder: a program that frees on a stream before another stream has allocated harms no other program.
func testWrongOrder(r *rig) {
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	for _, n := range []uint64{1000, 3 * granule} {
		gate := make(chan struct{})
		r.mustSucceed(r.stream.Host(func() { <-gate }))
		a := must(r.stream.AllocAsync(backend.DefaultPool, n))(r)
		r.mustSucceed(other.FreeAsync(a))
		r.mustSucceed(other.Synchronize(r.ctx))
		b := r.allocBytes(n)
		checkEqual(r, "address", b, a)
		close(gate)
		r.syncStream()
		r.copyIn(b, makePattern(int(n), 1))
		r.wantBytes("whoever has the address now", b, makePattern(int(n), 1))
		r.mustSucceed(r.cu.Free(b))
	}
	r.mustSucceed(r.space.Drain(r.ctx))
	if free, total := r.space.Info(); free != total {
		r.Errorf("%d of %d bytes are free at the end", free, total)
	}
}
