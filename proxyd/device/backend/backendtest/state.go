// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

func testState(r *rig) {
	a, b := r.allocBytes(100), r.allocBytes(3*granule+1)
	p := must(r.stream.AllocAsync(backend.DefaultPool, 200))(r)
	m := r.loadKernels()
	base := must(r.space.Reserve(4*granule, 0, 0))(r)
	v := must(r.space.NewMemory(2 * granule))(r)
	r.mustSucceed(r.space.MapMemory(base+granule, 2*granule, 0, v))
	r.mustSucceed(r.space.SetAccess(base+granule, 2*granule, true))
	pool := must(r.space.NewPool(0))(r)
	st := r.space.State()
	kinds := map[backend.Addr]backend.AllocKind{}
	last := backend.Addr(0)
	for _, x := range st.Allocations {
		if x.Base <= last {
			r.Errorf("allocation %+v of State does not come after the one before", x)
		}
		last = x.Base
		kinds[x.Base] = x.Kind
	}
	want := map[backend.Addr]backend.AllocKind{
		a: backend.Plain, b: backend.Plain, p: backend.Pooled, m.Variables().Base: backend.Globals, base + granule: backend.Mapped,
	}
	if !reflect.DeepEqual(kinds, want) {
		r.Errorf("allocations %v, want %v", kinds, want)
	}
	checkEqual(r, "next context", st.NextContext, r.cu.ID())
	checkEqual(r, "next pool", st.NextPool, pool)
	checkEqual(r, "next memory", st.NextMemory, v)
	var sum uint64
	for _, g := range st.Regions() {
		if g.Size%granule != 0 {
			r.Errorf("the size of region %+v is no multiple of the granule", g)
		}
		sum += g.Size
	}
	free, total := r.space.Info()
	checkEqual(r, "bytes in regions", sum, total-free)
}

// collectHashes collects the hashes of all blocks.
func collectHashes(r *rig, s backend.Space, key byte) map[backend.BlockID]backend.Hash {
	r.Helper()
	out := map[backend.BlockID]backend.Hash{}
	var mu sync.Mutex
	r.mustSucceed(s.Blocks(&[32]byte{key}, func(id backend.BlockID, h backend.Hash) bool {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := out[id]; twice {
			r.Errorf("block %+v twice", id)
		}
		out[id] = h
		return true
	}))
	return out
}

func testBlocks(r *rig) {
	a := r.allocBytes(3 * granule)
	small := r.allocBytes(1000)
	v := must(r.space.NewMemory(granule))(r)
	h := collectHashes(r, r.space, 1)
	checkEqual(r, "blocks", len(h), 5)
	zero := backend.Hash{}
	for id, x := range h {
		if x != zero {
			r.Errorf("block %+v is not zero", id)
		}
	}
	p := make([]byte, granule)
	if some := must(r.space.ReadBlock(backend.BlockID{Memory: v}, p))(r); some {
		for _, b := range p {
			if b != 0 {
				r.Fatal("new memory is not zero")
			}
		}
	}
	// Only written blocks have another hash, and equal blocks have equal hashes.
	r.copyIn(a+granule, makePattern(granule, 1))
	r.copyIn(a+2*granule, makePattern(granule, 1))
	r.copyIn(small, joinWords(1))
	n := collectHashes(r, r.space, 1)
	checkEqual(r, "untouched", n[backend.BlockID{Base: a}], zero)
	checkEqual(r, "equal blocks", n[backend.BlockID{Base: a + granule}], n[backend.BlockID{Base: a + 2*granule}])
	if n[backend.BlockID{Base: a + granule}] == zero || n[backend.BlockID{Base: small &^ (granule - 1)}] == zero {
		r.Error("a block that was written has the hash of zeros")
	}
	if o := collectHashes(r, r.space, 2); o[backend.BlockID{Base: a + granule}] == n[backend.BlockID{Base: a + granule}] {
		r.Error("the key changes nothing")
	}
	// Zeros have the hash of zeros, also after a write.
	r.copyIn(a, makePattern(granule, 1))
	r.copyIn(a, make([]byte, granule))
	checkEqual(r, "a block that is zero again", collectHashes(r, r.space, 1)[backend.BlockID{Base: a}], zero)
	r.mustSucceed(r.space.Unmap())
	if o := collectHashes(r, r.space, 1); !reflect.DeepEqual(o, n) {
		r.Error("unmapping changed hashes")
	}
	if some := must(r.space.ReadBlock(backend.BlockID{Base: a + granule}, p))(r); !some || !bytes.Equal(p, makePattern(granule, 1)) {
		r.Error("a block is not as it was written")
	}
	r.mustSucceed(r.space.WriteBlock(backend.BlockID{Memory: v}, p))
	r.mustSucceed(r.space.Map())
	r.mustSucceed(r.space.WriteBlock(backend.BlockID{Base: a + granule}, nil))
	r.wantBytes("given back", a+granule, make([]byte, granule))
	r.wantBytes("its neighbour", a+2*granule, makePattern(granule, 1))
	r.mustSucceed(r.space.WriteBlock(backend.BlockID{Base: a + granule}, p))
	r.wantBytes("brought again", a+granule, makePattern(granule, 1))
	var count atomic.Int32
	r.mustSucceed(r.space.Blocks(&[32]byte{}, func(backend.BlockID, backend.Hash) bool { count.Add(1); return false }))
	if n := int(count.Load()); n < 1 || n > runtime.GOMAXPROCS(0) {
		r.Errorf("Blocks gave %d blocks to a function that stops it at once, want 1 for each worker at most", n)
	}
	checkBlocksRefused(r, a, v)
}

// checkBlocksRefused reads and writes blocks that a space does not have. The space has memory m, of a granule, and more at a.
func checkBlocksRefused(r *rig, a backend.Addr, m backend.MemoryID) {
	r.Helper()
	for _, tc := range []struct {
		name string
		id   backend.BlockID
		n    int
	}{
		{"nowhere", backend.BlockID{Base: backend.DefaultBase + 1<<39}, granule},
		{"zero", backend.BlockID{}, granule},
		{"crooked", backend.BlockID{Base: a + 512}, granule},
		{"short", backend.BlockID{Base: a}, granule - 1},
		{"no memory", backend.BlockID{Memory: 99}, granule},
		{"beyond memory", backend.BlockID{Memory: m, Offset: granule}, granule},
		{"both", backend.BlockID{Memory: m, Base: a}, granule},
	} {
		_, err := r.space.ReadBlock(tc.id, make([]byte, tc.n))
		r.wantError("read "+tc.name, err, backend.InvalidValue)
		r.wantError("write "+tc.name, r.space.WriteBlock(tc.id, make([]byte, tc.n)), backend.InvalidValue)
	}
}

// carrySpace makes a copy of a space on another device, as a checkpoint and a restore do. The copy is mapped instead.
func carrySpace(r *rig, d backend.Device) *rig {
	o := carryUnmapped(r, d)
	o.mapInstead(r)
	return o
}

// mapInstead maps a space that was carried, instead of the other.
func (o *rig) mapInstead(r *rig) {
	r.Helper()
	r.mapOtherSpace(o)
	o.stream = must(o.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
}

func carryUnmapped(r *rig, d backend.Device) *rig {
	text, err := json.Marshal(r.space.State())
	r.mustSucceed(err)
	var st backend.State
	r.mustSucceed(json.Unmarshal(text, &st))
	o := &rig{T: r.T, b: r.b, dev: d, ctx: r.ctx}
	o.space = must(d.NewSpace(backend.SpaceConfig{Memory: smallMemory, State: &st}))(r)
	p := make([]byte, granule)
	for id := range collectHashes(r, r.space, 1) {
		if must(r.space.ReadBlock(id, p))(r) {
			r.mustSucceed(o.space.WriteBlock(id, p))
		}
	}
	o.cu = must(o.space.NewContext(r.cu.ID()))(r)
	return o
}

// mapOtherSpace has another space with the same addresses be mapped instead.
func (r *rig) mapOtherSpace(o *rig) {
	r.Helper()
	r.mustSucceed(r.space.Drain(r.ctx))
	r.mustSucceed(r.space.Unmap())
	r.mustSucceed(o.space.Map())
}

// testRestoreGraphs: memory that graphs name may be gone when the graphs are made again, but only in a space that is
// being restored.
func testRestoreGraphs(r *rig) {
	kept, gone := r.allocBytes(granule), r.allocBytes(granule)
	fill := func(a backend.Addr, v uint32) backend.FillNode {
		return backend.FillNode{Fill: backend.Fill{Addr: a, Element: 1, Value: v, Width: 100}}
	}
	var g, h backend.Graph
	id := must(g.Add(fill(gone, 1)))(r)
	must(h.Add(backend.CopyNode{Copy: backend.Copy{
		Dst: backend.CopySide{Addr: uint64(kept)}, Src: backend.CopySide{Addr: uint64(gone)}, Width: 100,
	}}))(r)
	r.mustSucceed(r.cu.Free(gone))

	o := carryUnmapped(r, r.secondDevice())
	filled, copied := must(o.cu.Instantiate(&g))(r), must(o.cu.Instantiate(&h))(r)
	r.mustSucceed(filled.Set(id, fill(gone, 2)))
	o.mapInstead(r)
	_, err := o.cu.Instantiate(&g)
	r.wantError("instantiated too late", err, backend.InvalidValue)
	r.wantError("set too late", filled.Set(id, fill(gone, 3)), backend.InvalidValue)
	if back := must(o.cu.Alloc(granule))(r); back != gone {
		r.Fatalf("memory at %#x, not %#x", uint64(back), uint64(gone))
	}
	r.mustSucceed(o.stream.Graph(filled))
	r.mustSucceed(o.stream.Graph(copied))
	o.wantBytes("filled and copied", kept, bytes.Repeat([]byte{2}, 100))
	r.mustSucceed(o.cu.Free(gone))
	r.mustSucceed(o.stream.Graph(filled))
	r.wantError("a graph without its memory", o.stream.Synchronize(r.ctx), backend.IllegalAddress)
}

func testRestore(r *rig) {
	keep, gone := r.allocBytes(1000), r.allocBytes(1000)
	big := r.allocBytes(3 * granule)
	pooled := must(r.stream.AllocAsync(backend.DefaultPool, 5000))(r)
	m := r.loadKernels()
	a := r.allocBytes(4)
	r.mustSucceed(r.runKernel(r.findKernel(m, "bump"), 1, joinArgs([]backend.Addr{a})))
	base := must(r.space.Reserve(4*granule, 0, 0))(r)
	v := must(r.space.NewMemory(2 * granule))(r)
	r.mustSucceed(r.space.MapMemory(base+granule, 2*granule, 0, v))
	r.mustSucceed(r.space.SetAccess(base+granule, 2*granule, true))
	r.mustSucceed(r.space.ReleaseMemory(v))
	r.copyIn(keep, makePattern(1000, 1))
	r.copyIn(big+granule, makePattern(granule, 2))
	r.copyIn(pooled, makePattern(5000, 3))
	r.copyIn(base+granule, makePattern(100, 4))
	r.mustSucceed(r.cu.Free(gone))
	r.mustSucceed(r.space.Drain(r.ctx))

	o := carrySpace(r, r.secondDevice())
	checkSameState(r, "state", o.space.State(), r.space.State())
	if got, want := collectHashes(o, o.space, 1), collectHashes(r, r.space, 1); !reflect.DeepEqual(got, want) {
		r.Errorf("hashes %v, want %v", got, want)
	}
	o.wantBytes("plain", keep, makePattern(1000, 1))
	o.wantBytes("large", big+granule, makePattern(granule, 2))
	o.wantBytes("pooled", pooled, makePattern(5000, 3))
	o.wantBytes("mapped", base+granule, makePattern(100, 4))
	// The module takes its variables over.
	om, log, err := o.cu.Load([]byte(Kernels), backend.LoadConfig{Globals: m.Variables().Base})
	if err != nil {
		r.Fatalf("%v\n%s", err, log.Error)
	}
	r.mustSucceed(o.runKernel(o.findKernel(om, "bump"), 1, joinArgs([]backend.Addr{a})))
	o.syncStream()
	o.wantBytes("counter", a, joinWords(8))
	// And both spaces go on alike.
	r.mustSucceed(r.cu.Free(keep))
	r.mustSucceed(o.cu.Free(keep))
	r.mustSucceed(r.space.UnmapMemory(base+granule, 2*granule))
	r.mustSucceed(o.space.UnmapMemory(base+granule, 2*granule))
	for i, n := range []uint64{100, 1 << 20, 5 << 20, 1000, 600, 1 << 20} {
		if x, y := r.allocBytes(n), o.allocBytes(n); x != y {
			r.Errorf("allocation %d: %#x, after the restore %#x", i, uint64(x), uint64(y))
		}
	}
	x, y := must(r.space.NewMemory(granule))(r), must(o.space.NewMemory(granule))(r)
	checkEqual(r, "next memory", y, x)
	r.mustSucceed(r.stream.FreeAsync(pooled))
	r.mustSucceed(o.stream.FreeAsync(pooled))
	r.mustSucceed(m.Unload())
	r.mustSucceed(om.Unload())
	o.mapOtherSpace(r)
	r.mustSucceed(r.space.Drain(r.ctx))
	checkSameState(r, "state at the end", o.space.State(), r.space.State())
}

// checkSameState compares the states of two spaces, but for the variables: a driver's places of these are no part of a
// state, and loading the module finds them out.
func checkSameState(r *rig, what string, got, want *backend.State) {
	r.Helper()
	got.Variables, want.Variables = nil, nil
	if !reflect.DeepEqual(got, want) {
		r.Errorf("%s %+v, want %+v", what, got, want)
	}
}

func testRestoreRefused(r *rig) {
	d := r.secondDevice()
	plain := func(a backend.Addr, n uint64) backend.Allocation {
		return backend.Allocation{Base: a, Size: n, Kind: backend.Plain, Context: 1, Access: true}
	}
	base := backend.DefaultBase
	for _, tc := range []struct {
		name string
		st   backend.State
		want backend.Result
	}{
		{"empty", backend.State{}, backend.Success},
		{"one", backend.State{Allocations: []backend.Allocation{plain(base, 100)}}, backend.Success},
		{"two over each other", backend.State{Allocations: []backend.Allocation{plain(base, 1000), plain(base+512, 100)}}, backend.InvalidValue},
		{"large over small", backend.State{Allocations: []backend.Allocation{plain(base, 1000), plain(base, granule)}}, backend.InvalidValue},
		{"crooked", backend.State{Allocations: []backend.Allocation{plain(base+4, 100)}}, backend.InvalidValue},
		{"over a granule's end", backend.State{Allocations: []backend.Allocation{plain(base+granule-512, 1000)}}, backend.InvalidValue},
		{"large, crooked", backend.State{Allocations: []backend.Allocation{plain(base+512, 3*granule)}}, backend.InvalidValue},
		{"below the space", backend.State{Allocations: []backend.Allocation{plain(base-granule, 100)}}, backend.InvalidValue},
		{"above the space", backend.State{Allocations: []backend.Allocation{plain(base+1<<40, 100)}}, backend.InvalidValue},
		{"nothing", backend.State{Allocations: []backend.Allocation{plain(base, 0)}}, backend.InvalidValue},
		{"more than all", backend.State{Allocations: []backend.Allocation{plain(base, smallMemory+1)}}, backend.InvalidValue},
		{"huge", backend.State{Allocations: []backend.Allocation{plain(base, 1<<63)}}, backend.InvalidValue},
		{"of no kind", backend.State{Allocations: []backend.Allocation{{Base: base, Size: 100, Access: true}}}, backend.InvalidValue},
		{"of no pool", backend.State{Allocations: []backend.Allocation{{Base: base, Size: 100, Kind: backend.Pooled, Pool: 3, Access: true}}}, backend.InvalidValue},
		{"of no memory", backend.State{Allocations: []backend.Allocation{{Base: base, Size: granule, Kind: backend.Mapped, Memory: 3}}}, backend.InvalidValue},
		{"memory without reservation", backend.State{
			NextMemory: 1, Memories: []backend.MemoryState{{ID: 1, Size: granule, Refs: 1}},
			Allocations: []backend.Allocation{{Base: base, Size: granule, Kind: backend.Mapped, Memory: 1}},
		}, backend.InvalidValue},
		{"memory of nobody", backend.State{NextMemory: 1, Memories: []backend.MemoryState{{ID: 1, Size: granule}}}, backend.InvalidValue},
		{"memory twice", backend.State{NextMemory: 1, Memories: []backend.MemoryState{{ID: 1, Size: granule, Refs: 1}, {ID: 1, Size: granule, Refs: 1}}}, backend.InvalidValue},
		{"memory to come", backend.State{Memories: []backend.MemoryState{{ID: 1, Size: granule, Refs: 1}}}, backend.InvalidValue},
		{"too much memory", backend.State{NextMemory: 1, Memories: []backend.MemoryState{{ID: 1, Size: 2 * smallMemory, Refs: 1}}}, backend.InvalidValue},
		{"reservations over each other", backend.State{Reservations: []backend.Range{{Base: base, Size: 2 * granule}, {Base: base + granule, Size: granule}}}, backend.InvalidValue},
		{"reservation of nothing", backend.State{Reservations: []backend.Range{{Base: base}}}, backend.InvalidValue},
		{"pool to come", backend.State{Pools: []backend.PoolState{{ID: 1}}}, backend.InvalidValue},
	} {
		if tc.st.Base == 0 {
			tc.st.Base, tc.st.Memory = base, smallMemory
		}
		s, err := d.NewSpace(backend.SpaceConfig{Memory: smallMemory, State: &tc.st})
		r.wantError(tc.name, err, tc.want)
		if err == nil {
			r.mustSucceed(s.Close())
		}
	}
	_, err := d.NewSpace(backend.SpaceConfig{Memory: smallMemory, State: &backend.State{Base: base, Memory: 2 * smallMemory}})
	r.wantError("another size", err, backend.InvalidValue)
	_, err = d.NewSpace(backend.SpaceConfig{Memory: smallMemory, State: &backend.State{Base: base + 1<<40, Memory: smallMemory}})
	r.wantError("another base", err, backend.InvalidValue)
}
