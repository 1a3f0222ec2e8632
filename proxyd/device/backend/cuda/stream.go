// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
)

// stream is a stream of the program, and a driver stream. Work that the driver can take goes to it at once. After work
// that must wait, a goroutine carries out all further work in the stream's order.
type stream struct {
	core.StreamQueue[task]
	context      *cudaContext
	cfg          backend.StreamConfig
	driverStream *driverStream
	ended        bool // the driver stream is closed; guarded by Mu
}

// plainStream is a stream that has no driver stream yet.
func (c *cudaContext) plainStream(cfg backend.StreamConfig) *stream {
	cfg.Priority = min(max(cfg.Priority, backend.GreatestPriority), backend.LeastPriority)
	st := &stream{context: c, cfg: cfg}
	st.Init(&c.ContextState)
	return st
}

// newStream makes a stream.
func (c *cudaContext) newStream(cfg backend.StreamConfig) (*stream, error) {
	c.space.steady.RLock()
	defer c.space.steady.RUnlock()
	st := c.plainStream(cfg)
	err := c.whileAlive(func() (err error) {
		st.driverStream, err = c.space.device.backend.newDriverStream(c.ctx, st.cfg.Priority, c.whileAlive)
		return err
	})
	if err != nil {
		return nil, c.recordFault(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[st] = true
	return st, nil
}

// NewStream implements backend.Context.
func (c *cudaContext) NewStream(cfg backend.StreamConfig) (backend.Stream, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, err
	}
	st, err := c.newStream(cfg)
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Config implements backend.Stream.
func (st *stream) Config() backend.StreamConfig { return st.cfg }

// waitReady waits while the queue is full. Each call that queues work begins with it.
func (st *stream) waitReady() error {
	return st.WaitReady(st.context.space.gate, st.context.space.ctx.Done())
}

// isEmpty tells whether no work is left.
func (st *stream) isEmpty() bool {
	st.Mu.Lock()
	queued, ended := st.HasWork(), st.ended
	st.Mu.Unlock()
	if queued || ended {
		return ended
	}
	err := st.queryDriver()
	return backend.ResultOf(err) != backend.NotReady
}

// queryDriver asks the driver, and notes a fault.
func (st *stream) queryDriver() error {
	return st.context.recordFault(st.driverStream.alive(func() error { return st.driverStream.drv.Query(st.driverStream.ctx, st.driverStream.stream) }))
}

// fenceMark returns a mark behind all queued work. A fence waits for no other stream, and no other stream for it.
// Without new work in between, the next call returns the same mark: else each call would lengthen the queue of a stream
// that waits.
func (st *stream) fenceMark() *mark {
	st.Mu.Lock()
	if n := len(st.Queue); n > 0 && st.Queue[n-1].fence {
		m := st.Queue[n-1].mark
		st.Mu.Unlock()
		return m
	}
	st.Mu.Unlock()
	m := st.context.newMark(false)
	_ = st.submitTask(&task{mark: m, always: true, fence: true, where: core.UsesOnly()})
	return m
}

// useMark returns a mark behind all work that may use memory in a range, or nil if there is no such work.
func (st *stream) useMark(a backend.Addr, n uint64) *mark {
	if m, all := st.driverUseMark(a, n); all {
		return m
	}
	return st.fenceMark()
}

// driverUseMark is useMark if no queued work may use memory in the range: the mark is behind the work that the driver was
// given, which is before all queued work. all is false if queued work has to be waited for, too.
func (st *stream) driverUseMark(a backend.Addr, n uint64) (m *mark, all bool) {
	mayUse := func(j *task) bool { return j.where.MayUse(a, n) }
	st.Mu.Lock()
	defer st.Mu.Unlock()
	switch {
	case slices.ContainsFunc(st.Queue, mayUse), st.Current != nil && mayUse(st.Current):
		return nil, false
	case st.ended, backend.ResultOf(st.queryDriver()) != backend.NotReady:
		return nil, true
	case !st.context.space.gate.TryEnter():
		return nil, false
	}
	defer st.context.space.gate.Leave()
	m = st.context.newMark(false)
	_ = m.recordIn(st.driverStream) // on an error the mark is passed
	return m, true
}

// orderMarks returns the marks in other streams that work of this stream waits for. The caller holds the context's
// mu, which orders streams.
func (st *stream) orderMarks() []*mark {
	c := st.context
	var marks []*mark
	switch {
	case st == c.legacy:
		for o := range c.streams {
			if o != st && !o.cfg.NonBlocking && !o.isEmpty() {
				marks = append(marks, o.fenceMark())
			}
		}
	case !st.cfg.NonBlocking && !c.legacy.isEmpty():
		marks = append(marks, c.legacy.fenceMark())
	}
	return marks
}

// Record implements backend.Stream.
func (st *stream) Record(x backend.Event) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	e, ok := x.(*event)
	if !ok || e.context != st.context {
		return fmt.Errorf("record an event of another context: %w", backend.InvalidHandle)
	}
	if _, err := e.currentMark(); err != nil {
		return err
	}
	m := st.context.newMark(!e.cfg.NoTiming)
	err := st.enqueueTask(&task{mark: m, always: true, direct: true, where: core.UsesOnly()})
	e.bindMark(m)
	return err
}

// Wait implements backend.Stream.
func (st *stream) Wait(x backend.Event) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	e, ok := x.(*event)
	if !ok {
		return fmt.Errorf("wait for an event: %w", backend.InvalidHandle)
	}
	m, err := e.currentMark()
	if err != nil || m == nil {
		return err
	}
	return st.enqueueTask(&task{after: []*mark{m}, direct: true, where: core.UsesOnly()})
}

// Host implements backend.Stream.
func (st *stream) Host(f func()) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	return st.enqueueTask(&task{waits: true, always: true, where: core.UsesOnly(), run: func() error {
		// A function is called even if the context has a fault by now.
		_ = st.waitDevice()
		if !st.context.space.waitUnmappable(f) {
			return errClosed
		}
		return nil
	}})
}

// Query implements backend.Stream.
func (st *stream) Query() error {
	if err := st.CheckUsable(); err != nil {
		return err
	}
	st.Mu.Lock()
	queued := st.HasWork()
	st.Mu.Unlock()
	if queued {
		return fmt.Errorf("stream: %w", backend.NotReady)
	}
	return st.queryDriver()
}

// Synchronize implements backend.Stream.
func (st *stream) Synchronize(ctx context.Context) error {
	if err := st.CheckUsable(); err != nil {
		return err
	}
	freed := st.context.space.freed.marksOf(func(o *stream) bool { return o == st }) // before the fences
	marks := []*mark{}
	if st == st.context.legacy {
		marks = st.context.pendingWork(isBlocking)
	} else if !st.isEmpty() {
		marks = append(marks, st.fenceMark())
	}
	for _, m := range marks {
		if err := m.waitFor(ctx); err != nil {
			return err
		}
	}
	st.context.space.freed.finishMarks(freed)
	return st.context.CheckUsable()
}

// Destroy implements backend.Stream.
func (st *stream) Destroy() error {
	if err := st.CheckUsable(); err != nil {
		return err
	}
	c := st.context
	if st == c.legacy {
		return fmt.Errorf("the legacy stream: %w", backend.InvalidHandle)
	}
	if err := st.MarkDestroyed(); err != nil {
		return err
	}
	if st.closeEmpty() {
		return nil
	}
	go func() {
		for !st.closeEmpty() {
			if st.fenceMark().waitFor(c.space.ctx) != nil {
				return // the stream goes with the context
			}
		}
	}()
	return nil
}

// closeEmpty closes a stream that is empty.
func (st *stream) closeEmpty() bool {
	c := st.context
	c.mu.Lock()
	defer c.mu.Unlock()
	if !st.isEmpty() {
		return false
	}
	st.Mu.Lock()
	defer st.Mu.Unlock()
	if st.HasWork() {
		return false
	}
	st.ended = true
	delete(c.streams, st)
	_ = st.driverStream.closeDriverStream() // the driver stream goes with the context at the latest
	return true
}
