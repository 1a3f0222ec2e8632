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

func overlap(r *rig) {
	// Each stream waits for something that the other stream does, twice. With kernels: a kernel spins until the other
	// stream writes.
	a := r.alloc(4096)
	other := must(r.cu.NewStream(backend.StreamConfig{}))(r)
	spin := r.function(r.load(), "spin")
	r.ok(r.run(spin, 1, args([]backend.Addr{a})))
	r.ok(r.stream.Fill(backend.Fill{Addr: a + 1024, Value: 1, Element: 4, Width: 1}))
	r.ok(other.Fill(backend.Fill{Addr: a, Value: 1, Element: 4, Width: 1}))
	r.ok(other.Launch(backend.Launch{Function: spin, Grid: one, Block: one, Params: args([]backend.Addr{a + 1024})}))
	r.ok(other.Synchronize(r.ctx))
	r.sync()

	ping, pong := make(chan struct{}), make(chan struct{})
	r.ok(r.stream.Host(func() { ping <- struct{}{}; <-pong }))
	r.ok(other.Host(func() { <-ping; pong <- struct{}{} }))
	r.ok(r.cu.Synchronize(r.ctx))
}

func legacyStream(r *rig) {
	// order is what blocking and non-blocking streams did around the legacy one's work.
	a := must(r.cu.NewStream(backend.StreamConfig{}))(r)
	b := must(r.cu.NewStream(backend.StreamConfig{}))(r)
	free := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	legacy := r.cu.Legacy()
	gate := make(chan struct{})
	var first, second atomic.Bool
	r.ok(a.Host(func() { <-gate; first.Store(true) }))
	r.ok(legacy.Host(func() { second.Store(first.Load()) }))
	var third atomic.Bool
	r.ok(b.Host(func() { third.Store(second.Load()) }))
	r.want("legacy stream", legacy.Query(), backend.NotReady)
	ran := make(chan struct{})
	r.ok(free.Host(func() { close(ran) }))
	<-ran // the function waits for no stream
	r.ok(free.Synchronize(r.ctx))
	close(gate)
	r.ok(b.Synchronize(r.ctx))
	if !third.Load() {
		r.Error("the legacy stream did not order the others")
	}
	// Synchronizing the legacy stream waits for the blocking streams.
	gate = make(chan struct{})
	var done atomic.Bool
	r.ok(a.Host(func() { <-gate; done.Store(true) }))
	go close(gate)
	r.ok(legacy.Synchronize(r.ctx))
	if !done.Load() {
		r.Error("the legacy stream did not wait")
	}
	// Another context's legacy stream has nothing to do with this wait.
	gate = make(chan struct{})
	r.ok(a.Host(func() { <-gate }))
	other := must(r.space.NewContext(0))(r)
	r.ok(other.Legacy().Host(func() {}))
	r.ok(other.Legacy().Synchronize(r.ctx))
	// The work of a destroyed stream is waited for.
	r.ok(a.Destroy())
	r.ok(legacy.Host(func() {}))
	r.want("legacy stream", legacy.Query(), backend.NotReady)
	close(gate)
	r.ok(legacy.Synchronize(r.ctx))
	r.want("destroy the legacy stream", legacy.Destroy(), backend.InvalidHandle)
}

func priorities(r *rig) {
	for _, tc := range []struct{ ask, want int }{{0, 0}, {-1, -1}, {5, 0}, {-99, backend.GreatestPriority}} {
		s := must(r.cu.NewStream(backend.StreamConfig{Priority: tc.ask, NonBlocking: true}))(r)
		equal(r, "priority", s.Config(), backend.StreamConfig{Priority: tc.want, NonBlocking: true})
	}
}

func events(r *rig) {
	e := must(r.cu.NewEvent(backend.EventConfig{NoTiming: true}))(r)
	equal(r, "config", e.Config(), backend.EventConfig{NoTiming: true})
	r.ok(e.Query()) // never recorded
	r.ok(e.Synchronize(r.ctx))
	gate := make(chan struct{})
	r.ok(r.stream.Host(func() { <-gate }))
	r.ok(r.stream.Record(e))
	r.want("query", e.Query(), backend.NotReady)
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
	// Recording again is what counts.
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	r.ok(other.Record(e))
	r.ok(e.Synchronize(r.ctx))
	close(gate)
	foreign := must(must(r.space.NewContext(0))(r).NewEvent(backend.EventConfig{}))(r)
	r.want("record another context's event", r.stream.Record(foreign), backend.InvalidHandle)
	r.ok(r.stream.Wait(foreign))
	r.sync()
}

func eventTimes(r *rig) {
	first := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	second := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	_, err := first.Time()
	r.want("never recorded", err, backend.InvalidHandle)
	r.ok(r.stream.Record(first))
	gate := make(chan struct{})
	r.ok(r.stream.Host(func() { <-gate }))
	r.ok(r.stream.Record(second))
	_, err = second.Time()
	r.want("not done", err, backend.NotReady)
	r.ok(first.Synchronize(r.ctx))
	tick := time.Now()
	for time.Since(tick) < time.Microsecond {
		continue
	}
	close(gate)
	r.sync()
	from, to := must(first.Time())(r), must(second.Time())(r)
	if to < from || to-from > time.Minute {
		r.Errorf("from %v to %v", from, to)
	}
	silent := must(r.cu.NewEvent(backend.EventConfig{NoTiming: true}))(r)
	r.ok(r.stream.Record(silent))
	r.sync()
	_, err = silent.Time()
	r.want("without timing", err, backend.InvalidHandle)
	// A restored event brings its time.
	at := 5 * time.Second
	old := must(r.cu.NewEvent(backend.EventConfig{At: &at}))(r)
	r.ok(old.Query())
	equal(r, "restored time", must(old.Time())(r), at)
}

func waitEvent(r *rig) {
	a := r.alloc(8)
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	e := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.ok(other.Wait(e)) // never recorded
	gate := make(chan struct{})
	r.ok(r.stream.Host(func() { <-gate }))
	r.ok(r.stream.Fill(backend.Fill{Addr: a, Value: 1, Element: 4, Width: 1}))
	r.ok(r.stream.Record(e))
	r.ok(other.Wait(e))
	r.ok(other.Copy(backend.Copy{Src: dev(a), Dst: dev(a + 4), Width: 4}))
	// What is recorded later is not waited for, and a destroyed event keeps its meaning.
	never := make(chan struct{})
	r.ok(r.stream.Host(func() { <-never }))
	r.ok(r.stream.Record(e))
	r.ok(e.Destroy())
	r.want("waits", other.Query(), backend.NotReady)
	close(gate)
	r.ok(other.Synchronize(r.ctx))
	close(never)
	r.has("after the event", a, words(1, 1))
	// Over devices.
	o := newRig(r.T, r.b, r.secondDevice(), r.apart())
	gate = make(chan struct{})
	e = must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.ok(r.stream.Host(func() { <-gate }))
	r.ok(r.stream.Record(e))
	r.ok(o.stream.Wait(e))
	r.want("waits", o.stream.Query(), backend.NotReady)
	close(gate)
	o.sync()
}

func waitValue(r *rig) {
	a := r.alloc(64)
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
		r.ok(r.stream.Write(a, tc.size, tc.before))
		r.sync()
		r.ok(r.stream.WaitValue(a, tc.size, tc.value, tc.cond))
		r.ok(r.stream.Fill(backend.Fill{Addr: a + 32, Value: 1, Element: 4, Width: 1}))
		if r.stream.Query() == nil {
			r.Errorf("%s: it did not wait", tc.name)
		}
		r.ok(other.Write(a, tc.size, tc.after))
		r.sync()
		r.ok(other.Synchronize(r.ctx))
	}
	r.want("crooked address", r.stream.WaitValue(a+2, 4, 0, backend.Equal), backend.InvalidValue)
	r.want("2 bytes", r.stream.WaitValue(a, 2, 0, backend.Equal), backend.InvalidValue)
	r.want("no condition", r.stream.WaitValue(a, 4, 0, 7), backend.InvalidValue)
	r.want("nowhere", r.stream.WaitValue(4096, 4, 0, backend.Equal), backend.InvalidValue)
	r.want("write nowhere", r.stream.Write(4096, 4, 0), backend.InvalidValue)
	r.want("write crooked", r.stream.Write(a+4, 8, 0), backend.InvalidValue)
	r.want("write 3 bytes", r.stream.Write(a, 3, 0), backend.InvalidValue)
}

func hostFunctions(r *rig) {
	a := r.alloc(4)
	var seen []byte
	var calls []int
	h := make([]byte, 4)
	r.ok(r.stream.Fill(backend.Fill{Addr: a, Value: 7, Element: 1, Width: 4}))
	r.ok(r.stream.Copy(backend.Copy{Src: dev(a), Dst: mem(h), Width: 4}))
	for i := range 100 {
		r.ok(r.stream.Host(func() {
			calls = append(calls, i)
			seen = append(seen[:0], h...)
		}))
	}
	r.sync()
	equal(r, "what a host function sees", string(seen), "\x07\x07\x07\x07")
	for i, n := range calls {
		equal(r, "call", n, i)
	}
	equal(r, "calls", len(calls), 100)
	// A host function may give work to other streams.
	other := must(r.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	r.ok(r.stream.Host(func() {
		if err := other.Fill(backend.Fill{Addr: a, Value: 9, Element: 1, Width: 4}); err != nil {
			r.Error(err)
		}
	}))
	r.sync()
	r.ok(other.Synchronize(r.ctx))
	r.has("from a host function", a, []byte{9, 9, 9, 9})
}

func destroyed(r *rig) {
	s := must(r.cu.NewStream(backend.StreamConfig{}))(r)
	a := r.alloc(4)
	e := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.ok(e.Destroy())
	r.want("record", s.Record(e), backend.InvalidHandle)
	r.want("wait", s.Wait(e), backend.InvalidHandle)
	r.want("query", e.Query(), backend.InvalidHandle)
	r.want("synchronize", e.Synchronize(r.ctx), backend.InvalidHandle)
	_, err := e.Time()
	r.want("time", err, backend.InvalidHandle)
	r.want("destroy the event twice", e.Destroy(), backend.InvalidHandle)

	m := r.load()
	add := r.function(m, "add")
	r.ok(s.Launch(backend.Launch{Function: add, Grid: one, Block: one, Params: args([]backend.Addr{a}, 5)}))
	r.ok(s.Destroy())
	r.ok(r.cu.Synchronize(r.ctx))
	r.has("work of a stream that is gone", a, words(5))
	r.want("fill", s.Fill(backend.Fill{Addr: a, Element: 1, Width: 1}), backend.InvalidHandle)
	r.want("query", s.Query(), backend.InvalidHandle)
	r.want("synchronize", s.Synchronize(r.ctx), backend.InvalidHandle)
	r.want("destroy the stream twice", s.Destroy(), backend.InvalidHandle)

	r.ok(r.run(add, 1, args([]backend.Addr{a}, 5)))
	r.ok(m.Unload())
	r.sync()
	r.has("a launch before the module went", a, words(10))
	r.want("unload twice", m.Unload(), backend.InvalidHandle)
	r.want("launch", r.run(add, 1, args([]backend.Addr{a}, 5)), backend.InvalidHandle)
	_, err = m.Function("add")
	r.want("function", err, backend.InvalidHandle)
	_, err = add.Attribute(backend.FuncMaxThreads)
	r.want("attribute", err, backend.InvalidHandle)
}
