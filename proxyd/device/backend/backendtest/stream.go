// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

var errPeerGone = errors.New("the peer is gone")

func testOverlap(r *rig) {
	// Each stream waits for the other stream, twice. With kernels: a kernel spins until the other stream writes.
	a := r.allocBytes(4096)
	other := must(r.cu.NewStream(backend.StreamConfig{}))(r)
	spin := r.findKernel(r.loadKernels(), "spin")
	r.mustSucceed(r.runKernel(spin, 1, joinArgs([]backend.Addr{a})))
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a + 1024, Value: 1, Element: 4, Width: 1}))
	r.mustSucceed(other.Fill(backend.Fill{Addr: a, Value: 1, Element: 4, Width: 1}))
	r.mustSucceed(other.Launch(backend.Launch{Function: spin, Grid: one, Block: one, Params: joinArgs([]backend.Addr{a + 1024})}))
	r.mustSucceed(other.Synchronize(r.ctx))
	r.syncStream()

	ping, pong := make(chan struct{}), make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { ping <- struct{}{}; <-pong }))
	r.mustSucceed(other.Host(func() { <-ping; pong <- struct{}{} }))
	r.mustSucceed(r.cu.Synchronize(r.ctx))
}

func testLegacyStream(r *rig) {
	// In which order blocking and non-blocking streams work around the legacy stream.
	a := must(r.cu.NewStream(backend.StreamConfig{}))(r)
	b := must(r.cu.NewStream(backend.StreamConfig{}))(r)
	free := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	legacy := r.cu.Legacy()
	gate := make(chan struct{})
	var first, second atomic.Bool
	r.mustSucceed(a.Host(func() { <-gate; first.Store(true) }))
	r.mustSucceed(legacy.Host(func() { second.Store(first.Load()) }))
	var third atomic.Bool
	r.mustSucceed(b.Host(func() { third.Store(second.Load()) }))
	r.wantError("legacy stream", legacy.Query(), backend.NotReady)
	ran := make(chan struct{})
	r.mustSucceed(free.Host(func() { close(ran) }))
	<-ran // the function waits for no stream
	r.mustSucceed(free.Synchronize(r.ctx))
	close(gate)
	r.mustSucceed(b.Synchronize(r.ctx))
	if !third.Load() {
		r.Error("the legacy stream did not order the others")
	}
	// Synchronizing the legacy stream waits for the blocking streams.
	gate = make(chan struct{})
	var done atomic.Bool
	r.mustSucceed(a.Host(func() { <-gate; done.Store(true) }))
	go close(gate)
	r.mustSucceed(legacy.Synchronize(r.ctx))
	if !done.Load() {
		r.Error("the legacy stream did not wait")
	}
	// Another context's legacy stream does not wait for this stream.
	gate = make(chan struct{})
	r.mustSucceed(a.Host(func() { <-gate }))
	other := must(r.space.NewContext(0))(r)
	r.mustSucceed(other.Legacy().Host(func() {}))
	r.mustSucceed(other.Legacy().Synchronize(r.ctx))
	// The work of a destroyed stream is waited for.
	r.mustSucceed(a.Destroy())
	r.mustSucceed(legacy.Host(func() {}))
	r.wantError("legacy stream", legacy.Query(), backend.NotReady)
	close(gate)
	r.mustSucceed(legacy.Synchronize(r.ctx))
	r.wantError("destroy the legacy stream", legacy.Destroy(), backend.InvalidHandle)
}

func testPriorities(r *rig) {
	for _, tc := range []struct{ ask, want int }{{0, 0}, {-1, -1}, {5, 0}, {-99, backend.GreatestPriority}} {
		s := must(r.cu.NewStream(backend.StreamConfig{Priority: tc.ask, NonBlocking: true}))(r)
		checkEqual(r, "priority", s.Config(), backend.StreamConfig{Priority: tc.want, NonBlocking: true})
	}
}

func testEvents(r *rig) {
	e := must(r.cu.NewEvent(backend.EventConfig{NoTiming: true}))(r)
	checkEqual(r, "config", e.Config(), backend.EventConfig{NoTiming: true})
	r.mustSucceed(e.Query()) // never recorded
	r.mustSucceed(e.Synchronize(r.ctx))
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.stream.Record(e))
	r.wantError("query", e.Query(), backend.NotReady)
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := e.Synchronize(ctx); !errors.Is(err, context.Canceled) {
		r.Errorf("synchronize with a context that is done: %v", err)
	}
	if err := r.stream.Synchronize(ctx); !errors.Is(err, context.Canceled) {
		r.Errorf("synchronize with a context that is done: %v", err)
	}
	if err := r.space.Drain(ctx); !errors.Is(err, context.Canceled) {
		r.Errorf("drain with a context that is done: %v", err)
	}
	// The latest recording counts.
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	r.mustSucceed(other.Record(e))
	r.mustSucceed(e.Synchronize(r.ctx))
	close(gate)
	foreign := must(must(r.space.NewContext(0))(r).NewEvent(backend.EventConfig{}))(r)
	r.wantError("record another context's event", r.stream.Record(foreign), backend.InvalidHandle)
	r.mustSucceed(r.stream.Wait(foreign))
	r.syncStream()
}

func testEventTimes(r *rig) {
	first := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	second := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	_, err := first.Time()
	r.wantError("never recorded", err, backend.InvalidHandle)
	r.mustSucceed(r.stream.Record(first))
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.stream.Record(second))
	_, err = second.Time()
	r.wantError("not done", err, backend.NotReady)
	r.mustSucceed(first.Synchronize(r.ctx))
	tick := time.Now()
	for time.Since(tick) < time.Microsecond {
		continue
	}
	close(gate)
	r.syncStream()
	from, to := must(first.Time())(r), must(second.Time())(r)
	if to < from || to-from > time.Minute {
		r.Errorf("from %v to %v", from, to)
	}
	silent := must(r.cu.NewEvent(backend.EventConfig{NoTiming: true}))(r)
	r.mustSucceed(r.stream.Record(silent))
	r.syncStream()
	_, err = silent.Time()
	r.wantError("without timing", err, backend.InvalidHandle)
	// A restored event brings its time.
	at := 5 * time.Second
	old := must(r.cu.NewEvent(backend.EventConfig{At: &at}))(r)
	r.mustSucceed(old.Query())
	checkEqual(r, "restored time", must(old.Time())(r), at)
}

func testWaitEvent(r *rig) {
	a := r.allocBytes(8)
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	e := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.mustSucceed(other.Wait(e)) // never recorded
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Value: 1, Element: 4, Width: 1}))
	r.mustSucceed(r.stream.Record(e))
	r.mustSucceed(other.Wait(e))
	r.mustSucceed(other.Copy(backend.Copy{Src: deviceAt(a), Dst: deviceAt(a + 4), Width: 4}))
	// Other does not wait for later recordings, and a destroyed event keeps its meaning.
	never := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-never }))
	r.mustSucceed(r.stream.Record(e))
	r.mustSucceed(e.Destroy())
	r.wantError("waits", other.Query(), backend.NotReady)
	close(gate)
	r.mustSucceed(other.Synchronize(r.ctx))
	close(never)
	r.wantBytes("after the event", a, joinWords(1, 1))
	// The same across devices.
	o := newRig(r.T, r.b, r.secondDevice(), r.configApart())
	gate = make(chan struct{})
	e = must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.mustSucceed(r.stream.Record(e))
	r.mustSucceed(o.stream.Wait(e))
	r.wantError("waits", o.stream.Query(), backend.NotReady)
	close(gate)
	o.syncStream()
}

func testWaitValue(r *rig) {
	a := r.allocBytes(64)
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	for _, tc := range []struct {
		name          string
		cond          backend.Condition
		size          int
		before, after uint64
		value         uint64
	}{
		{"equal", backend.Equal, 4, 1, 5, 5},
		{"equal, 8 bytes", backend.Equal, 8, 5, 5<<40 | 5, 5<<40 | 5},
		{"at least", backend.AtLeast, 4, 4, 6, 5},
		{"at least, around the end", backend.AtLeast, 4, 0xfffffff0, 3, 2},
		{"at least, around the end of 8 bytes", backend.AtLeast, 8, ^uint64(5), 3, 2},
		{"and", backend.And, 4, 0xf0, 0x08, 0x0f},
		{"nor", backend.Nor, 4, 0xffffffff, 0xfffffffe, 0},
	} {
		r.mustSucceed(r.stream.Write(a, tc.size, tc.before))
		r.syncStream()
		r.mustSucceed(r.stream.WaitValue(a, tc.size, tc.value, tc.cond))
		r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a + 32, Value: 1, Element: 4, Width: 1}))
		if r.stream.Query() == nil {
			r.Errorf("%s: the stream did not wait for the value", tc.name)
		}
		r.mustSucceed(other.Write(a, tc.size, tc.after))
		r.syncStream()
		r.mustSucceed(other.Synchronize(r.ctx))
	}
	r.wantError("crooked address", r.stream.WaitValue(a+2, 4, 0, backend.Equal), backend.InvalidValue)
	r.wantError("2 bytes", r.stream.WaitValue(a, 2, 0, backend.Equal), backend.InvalidValue)
	r.wantError("no condition", r.stream.WaitValue(a, 4, 0, 7), backend.InvalidValue)
	r.wantError("nowhere", r.stream.WaitValue(4096, 4, 0, backend.Equal), backend.InvalidValue)
	r.wantError("write nowhere", r.stream.Write(4096, 4, 0), backend.InvalidValue)
	r.wantError("write crooked", r.stream.Write(a+4, 8, 0), backend.InvalidValue)
	r.wantError("write 3 bytes", r.stream.Write(a, 3, 0), backend.InvalidValue)
}

func testHostFunctions(r *rig) {
	a := r.allocBytes(4)
	var seen []byte
	var calls []int
	h := make([]byte, 4)
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Value: 7, Element: 1, Width: 4}))
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: deviceAt(a), Dst: hostBytes(h), Width: 4}))
	for i := range 100 {
		r.mustSucceed(r.stream.Host(func() {
			calls = append(calls, i)
			seen = append(seen[:0], h...)
		}))
	}
	r.syncStream()
	checkEqual(r, "what a host function sees", string(seen), "\x07\x07\x07\x07")
	for i, n := range calls {
		checkEqual(r, "call", n, i)
	}
	checkEqual(r, "calls", len(calls), 100)
	// A host function may give work to other streams.
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	r.mustSucceed(r.stream.Host(func() {
		if err := other.Fill(backend.Fill{Addr: a, Value: 9, Element: 1, Width: 4}); err != nil {
			r.Error(err)
		}
	}))
	r.syncStream()
	r.mustSucceed(other.Synchronize(r.ctx))
	r.wantBytes("from a host function", a, []byte{9, 9, 9, 9})
}

func testDestroyed(r *rig) {
	s := must(r.cu.NewStream(backend.StreamConfig{}))(r)
	a := r.allocBytes(4)
	e := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.mustSucceed(e.Destroy())
	r.wantError("record", s.Record(e), backend.InvalidHandle)
	r.wantError("wait", s.Wait(e), backend.InvalidHandle)
	r.wantError("query", e.Query(), backend.InvalidHandle)
	r.wantError("synchronize", e.Synchronize(r.ctx), backend.InvalidHandle)
	_, err := e.Time()
	r.wantError("time", err, backend.InvalidHandle)
	r.wantError("destroy the event twice", e.Destroy(), backend.InvalidHandle)

	m := r.loadKernels()
	add := r.findKernel(m, "add")
	r.mustSucceed(s.Launch(backend.Launch{Function: add, Grid: one, Block: one, Params: joinArgs([]backend.Addr{a}, 5)}))
	r.mustSucceed(s.Destroy())
	r.mustSucceed(r.cu.Synchronize(r.ctx))
	r.wantBytes("work of a stream that is gone", a, joinWords(5))
	r.wantError("fill", s.Fill(backend.Fill{Addr: a, Element: 1, Width: 1}), backend.InvalidHandle)
	r.wantError("query", s.Query(), backend.InvalidHandle)
	r.wantError("synchronize", s.Synchronize(r.ctx), backend.InvalidHandle)
	r.wantError("destroy the stream twice", s.Destroy(), backend.InvalidHandle)

	r.mustSucceed(r.runKernel(add, 1, joinArgs([]backend.Addr{a}, 5)))
	r.mustSucceed(m.Unload())
	r.syncStream()
	r.wantBytes("a launch before the module went", a, joinWords(10))
	r.wantError("unload twice", m.Unload(), backend.InvalidHandle)
	r.wantError("launch", r.runKernel(add, 1, joinArgs([]backend.Addr{a}, 5)), backend.InvalidHandle)
	_, err = m.Function("add")
	r.wantError("function", err, backend.InvalidHandle)
	_, err = add.Attribute(backend.FuncMaxThreads)
	r.wantError("attribute", err, backend.InvalidHandle)
}
