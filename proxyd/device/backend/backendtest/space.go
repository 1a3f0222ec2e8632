// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"runtime"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

func testDevices(r *rig) {
	list := r.b.Devices()
	for i, d := range list {
		info := d.Info()
		at := &info.Attributes
		if info.Name == "" || info.UUID == [16]byte{} || info.Memory < 256<<20 {
			r.Errorf("device %d: %+v", i, info)
		}
		for _, a := range []backend.Attribute{
			backend.MaxThreadsPerBlock, backend.MaxBlockX, backend.MaxGridX, backend.WarpSize, backend.Multiprocessors, backend.ComputeMajor,
			backend.UnifiedAddressing, backend.VirtualMemory, backend.MemoryPools, backend.CooperativeLaunch, backend.StreamPriorities,
			backend.MaxSharedPerBlock, backend.MaxRegistersPerBlock, backend.MaxPitch, backend.CanMapHostMemory, backend.ConcurrentKernels,
		} {
			if at[a] <= 0 {
				r.Errorf("device %d: attribute %d is %d", i, a, at[a])
			}
		}
		checkEqual(r, "PCI bus as an attribute", uint32(at[backend.PCIBusID]), info.PCI.Bus)
		for _, o := range list[:i] {
			if o.Info().UUID == info.UUID || o.Info().PCI == info.PCI {
				r.Errorf("device %d is another one, too", i)
			}
		}
	}
}

func testSpaces(r *rig) {
	d := r.secondDevice()
	const tib = 1 << 40
	for _, tc := range []struct {
		name string
		cfg  backend.SpaceConfig
		want backend.Result
	}{
		{"default", backend.SpaceConfig{}, backend.Success},
		{"elsewhere", backend.SpaceConfig{Base: 20 * tib, Memory: 1 << 30}, backend.Success},
		{"base not aligned", backend.SpaceConfig{Base: 20*tib + backend.Granule}, backend.InvalidValue},
		{"memory not aligned", backend.SpaceConfig{Memory: 12345}, backend.InvalidValue},
		{"beyond all addresses", backend.SpaceConfig{Base: 128 * tib}, backend.InvalidValue},
		{"too large", backend.SpaceConfig{Memory: 4 * tib}, backend.InvalidValue},
	} {
		s, err := d.NewSpace(tc.cfg)
		r.wantError(tc.name, err, tc.want)
		if err != nil {
			continue
		}
		free, total := s.Info()
		want := tc.cfg.Memory
		if want == 0 {
			want = d.Info().Memory
		}
		if free != want || total != want {
			r.Errorf("%s: %d of %d bytes are free, want %d", tc.name, free, total, want)
		}
		r.mustSucceed(s.Close())
	}
	for _, tc := range []struct{ memory, want uint64 }{{1 << 30, tib}, {16 << 30, tib}, {17 << 30, 2 * tib}, {80 << 30, 5 * tib}} {
		checkEqual(r, "size of a space", backend.SpaceSize(tc.memory), tc.want)
	}
}

func testMapping(r *rig) {
	other := must(r.dev.NewSpace(backend.SpaceConfig{Memory: smallMemory}))(r)
	r.wantError("map a second space", other.Map(), backend.AlreadyMapped)
	r.wantError("unmap what is not mapped", other.Unmap(), backend.NotMapped)
	r.mustSucceed(r.space.Map())

	// Work given to a space that is not mapped waits.
	ctx := must(other.NewContext(0))(r)
	s := ctx.Legacy()
	a := must(ctx.Alloc(4))(r)
	checkEqual(r, "first address of both spaces", a, r.allocBytes(4))
	r.mustSucceed(s.Fill(backend.Fill{Addr: a, Value: 5, Element: 1, Width: 4}))
	r.wantError("query", s.Query(), backend.NotReady)

	// A space with work under way stays mapped.
	gate, begun := make(chan struct{}), make(chan struct{})
	r.mustSucceed(r.stream.Copy(backend.Copy{
		Dst: backend.CopySide{Addr: uint64(r.allocBytes(4))}, Src: backend.CopySide{Host: slowMemory{begun, gate}}, Width: 4,
	}))
	<-begun
	r.wantError("unmap a busy space", r.space.Unmap(), backend.NotReady)
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: r.allocBytes(4), Value: 1, Element: 1, Width: 4}))
	r.space.Hold()
	close(gate)
	for r.space.Unmap() != nil {
		runtime.Gosched() // the work ends, and later work does not begin
	}
	r.wantError("what was held back", r.stream.Query(), backend.NotReady)
	r.mustSucceed(r.space.Map())
	r.space.Hold()
	r.mustSucceed(r.space.Map())
	r.mustSucceed(r.space.Drain(r.ctx))
	r.mustSucceed(r.space.Unmap())
	r.mustSucceed(other.Map())
	r.mustSucceed(s.Synchronize(r.ctx))
	r.mustSucceed(other.Drain(r.ctx))
	r.mustSucceed(other.Unmap())
	r.mustSucceed(r.space.Map())
	r.wantBytes("memory of the first space", r.allocBytes(4), make([]byte, 4))
	r.mustSucceed(other.Close())
}

// testExchanging: two spaces of a device meet in a collective, so neither may keep the device during its wait for the
// other.
func testExchanging(r *rig) {
	other := must(r.dev.NewSpace(backend.SpaceConfig{Memory: smallMemory}))(r)
	there := must(must(other.NewContext(0))(r).Alloc(8))(r)
	here := r.allocBytes(8)
	began := make(chan func(error), 1)
	r.mustSucceed(r.stream.Exchange([]backend.Buffer{{Addr: here, Size: 8, Write: true}}, func(b [][]byte, done func(error)) {
		copy(b[0], "abcdefgh")
		began <- done
	}))
	r.mustSucceed(r.stream.Copy(backend.Copy{Dst: backend.CopySide{Addr: uint64(here) + 4}, Src: backend.CopySide{Addr: uint64(here)}, Width: 4}))
	done := <-began
	for r.space.Unmap() != nil { // the work has begun, and is about to wait
		runtime.Gosched()
	}
	r.mustSucceed(other.Map())
	s := must(other.NewContext(0))(r).Legacy()
	r.mustSucceed(s.Fill(backend.Fill{Addr: there, Value: 1, Element: 1, Width: 8}))
	r.mustSucceed(s.Synchronize(r.ctx))
	done(nil)
	r.wantError("what follows it waits for the device", r.stream.Query(), backend.NotReady)
	r.mustSucceed(other.Unmap())
	r.mustSucceed(r.space.Map())
	r.mustSucceed(r.stream.Synchronize(r.ctx))
	r.wantBytes("memory after it", here, []byte("abcdabcd"))
	r.mustSucceed(other.Close())
}

// slowMemory is memory of a program that is read slowly.
type slowMemory struct{ begun, over chan struct{} }

func (s slowMemory) Read(uint64, []byte) error {
	close(s.begun)
	<-s.over
	return nil
}

func (slowMemory) Write(uint64, []byte) error { return nil }

// testWaiting: work that waits for other work does not keep the device, and goes on when the space is mapped again.
func testWaiting(r *rig) {
	a := r.allocBytes(8)
	begun, over := make(chan struct{}), make(chan struct{})
	inGraph, graphOver := make(chan struct{}), make(chan struct{})
	g := &backend.Graph{}
	must(g.Add(backend.HostNode{Func: func() { close(inGraph); <-graphOver }}))(r)
	exec := must(r.cu.Instantiate(g))(r)
	for _, w := range []struct {
		name       string
		begin, end func()
	}{
		{"host function", func() { r.mustSucceed(r.stream.Host(func() { close(begun); <-over })); <-begun }, func() { close(over) }},
		{"host function of a graph", func() { r.mustSucceed(r.stream.Graph(exec)); <-inGraph }, func() { close(graphOver) }},
		{"wait for a value", func() { r.mustSucceed(r.stream.WaitValue(a, 4, 1, backend.Equal)) }, func() { r.mustSucceed(r.newStream().Write(a, 4, 1)) }},
	} {
		w.begin()
		r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a + 4, Value: 1, Element: 1, Width: 4}))
		for r.space.Unmap() != nil {
			runtime.Gosched() // the work is about to wait
		}
		w.end()
		r.wantError(w.name, r.stream.Query(), backend.NotReady)
		r.mustSucceed(r.space.Map())
		r.mustSucceed(r.stream.Synchronize(r.ctx))
	}
}

// testWorkStates: a space returns the state of its work, and calls Changed when it has changed, mapped or not.
func testWorkStates(r *rig) {
	changed := make(chan struct{}, 1)
	r.mustSucceed(r.space.Unmap())
	s := must(r.dev.NewSpace(backend.SpaceConfig{Memory: smallMemory, Changed: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}}))(r)
	until := func(want backend.WorkState) {
		r.Helper()
		for s.Work() != want {
			select {
			case <-changed:
			case <-r.ctx.Done():
				r.Fatalf("its work does not come to state %d: %d", want, s.Work())
			}
		}
	}
	cu := must(s.NewContext(0))(r)
	a := must(cu.Alloc(8))(r)
	one := must(cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	two := must(cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	event := must(cu.NewEvent(backend.EventConfig{}))(r)
	until(backend.Idle)
	began := make(chan func(error), 1)
	r.mustSucceed(one.Exchange([]backend.Buffer{{Addr: a, Size: 4, Write: true}}, func(_ [][]byte, done func(error)) { began <- done }))
	until(backend.Runnable) // once the space is mapped
	r.mustSucceed(s.Map())
	done := <-began
	r.mustSucceed(one.Fill(backend.Fill{Addr: a, Value: 1, Element: 1, Width: 4}))
	r.mustSucceed(one.Record(event))
	r.mustSucceed(two.Wait(event))
	r.mustSucceed(two.Fill(backend.Fill{Addr: a + 4, Value: 1, Element: 1, Width: 4}))
	until(backend.Waiting)
	for s.Unmap() != nil {
		runtime.Gosched() // the work is about to wait
	}
	until(backend.Waiting)
	done(nil)
	until(backend.Runnable)
	r.mustSucceed(s.Map())
	r.mustSucceed(s.Drain(r.ctx))
	until(backend.Idle)
	r.mustSucceed(one.WaitValue(a, 4, 7, backend.Equal))
	until(backend.Waiting)
	r.mustSucceed(two.Write(a, 4, 7))
	until(backend.Idle)
	r.mustSucceed(s.Close())
	r.mustSucceed(r.space.Map())
}

// newStream makes another stream, which does not wait for the first stream.
func (r *rig) newStream() backend.Stream {
	return must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
}

func testClosedSpace(r *rig) {
	a := r.allocBytes(16)
	began, never := make(chan struct{}), make(chan struct{})
	defer close(never)
	r.mustSucceed(r.stream.Host(func() { close(began); <-never }))
	<-began
	r.mustSucceed(r.space.Close())
	r.wantError("close twice", r.space.Close(), backend.ContextIsDestroyed)
	r.wantError("map", r.space.Map(), backend.ContextIsDestroyed)
	_, err := r.cu.Alloc(4)
	r.wantError("alloc", err, backend.ContextIsDestroyed)
	r.wantError("free", r.cu.Free(a), backend.ContextIsDestroyed)
	r.wantError("fill", r.stream.Fill(backend.Fill{Addr: a, Element: 1, Width: 1}), backend.ContextIsDestroyed)
	_, err = r.space.NewContext(0)
	r.wantError("context", err, backend.ContextIsDestroyed)
	_, err = r.space.NewMemory(backend.Granule)
	r.wantError("memory", err, backend.ContextIsDestroyed)
}

// testClosedExchange: an exchange keeps the bytes of a closed space until the exchange ends.
func testClosedExchange(r *rig) {
	cu := r.cu
	b := r.allocBytes(1 << 20)
	held := make(chan []byte)
	var done func(error)
	r.mustSucceed(cu.Legacy().Exchange([]backend.Buffer{{Addr: b, Size: 1 << 20}}, func(bytes [][]byte, d func(error)) {
		done = d
		go func() { held <- bytes[0] }()
	}))
	bytes := <-held
	r.mustSucceed(r.space.Close())
	for i := range bytes {
		bytes[i]++
	}
	done(nil)
}

// testClosedKernel: kernels are cut short.
func testClosedKernel(r *rig) {
	m := r.loadKernels()
	b := r.allocBytes(4)
	spinning := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	r.mustSucceed(spinning.Launch(backend.Launch{Function: r.findKernel(m, "spin"), Grid: one, Block: one, Params: joinArgs([]backend.Addr{b})}))
	r.mustSucceed(r.space.Close())
}

func testContexts(r *rig) {
	checkEqual(r, "first context", r.cu.ID(), 1)
	second := must(r.space.NewContext(0))(r)
	checkEqual(r, "second context", second.ID(), 2)
	_, err := r.space.NewContext(2)
	r.wantError("a number in use", err, backend.InvalidValue)
	checkEqual(r, "a number of its own", must(r.space.NewContext(9))(r).ID(), 9)
	checkEqual(r, "the next number", must(r.space.NewContext(0))(r).ID(), 10)

	free, _ := r.space.Info()
	a := must(second.Alloc(3 * backend.Granule))(r)
	b := must(second.Alloc(100))(r)
	keep := r.allocBytes(100)
	r.mustSucceed(second.Legacy().Fill(backend.Fill{Addr: a, Element: 4, Width: 100}))
	graph := must(second.Instantiate(&backend.Graph{}))(r)
	r.mustSucceed(second.Destroy())
	r.mustSucceed(graph.Destroy())
	r.wantError("destroy the graph twice", graph.Destroy(), backend.InvalidHandle)
	for _, gone := range []backend.Addr{a, b} {
		if _, ok := r.space.Lookup(gone); ok {
			r.Errorf("%#x outlived its context", uint64(gone))
		}
	}
	if _, ok := r.space.Lookup(keep); !ok {
		r.Error("another context's memory is gone")
	}
	r.mustSucceed(r.cu.Free(keep))
	left, _ := r.space.Info()
	checkEqual(r, "free bytes", left, free)
	r.wantError("destroy twice", second.Destroy(), backend.ContextIsDestroyed)
	_, err = second.Alloc(4)
	r.wantError("alloc", err, backend.ContextIsDestroyed)
	_, err = second.NewStream(backend.StreamConfig{})
	r.wantError("stream", err, backend.ContextIsDestroyed)
	_, err = second.NewEvent(backend.EventConfig{})
	r.wantError("event", err, backend.ContextIsDestroyed)
	_, _, err = second.Load([]byte(Kernels), backend.LoadConfig{})
	r.wantError("load", err, backend.ContextIsDestroyed)
	r.wantError("fill", second.Legacy().Fill(backend.Fill{Addr: a, Element: 4, Width: 1}), backend.ContextIsDestroyed)
	checkEqual(r, "the number is free again", must(r.space.NewContext(2))(r).ID(), 2)
}

func testLimits(r *rig) {
	for _, l := range []backend.Limit{backend.LimitStackSize, backend.LimitPrintfFIFO, backend.LimitMallocHeap} {
		v := must(r.cu.Limit(l))(r)
		if v == 0 {
			r.Errorf("limit %d is 0", l)
		}
		r.mustSucceed(r.cu.SetLimit(l, 2*v))
		checkEqual(r, "limit", must(r.cu.Limit(l))(r), 2*v)
	}
	_, err := r.cu.Limit(99)
	r.wantError("no limit", err, backend.UnsupportedLimit)
	r.wantError("no limit", r.cu.SetLimit(99, 1), backend.UnsupportedLimit)
	_, err = r.cu.Limit(backend.LimitSyncDepth)
	r.wantError("dynamic parallelism", err, backend.UnsupportedLimit)
	r.wantError("stack without bound", r.cu.SetLimit(backend.LimitStackSize, 1<<40), backend.InvalidValue)
}
