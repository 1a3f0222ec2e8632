// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// stream is a stream of the program, and a driver stream. Work that the driver can take goes to it at once. After work
// that must wait, a goroutine carries out all further work in the stream's order.
type stream struct {
	context      *cudaContext
	cfg          backend.StreamConfig
	driverStream *driverStream

	mu    sync.Mutex
	gone  bool
	ended bool // the driver stream is closed
	queue []*task
	busy  bool
	now   *task  // taken off the queue and not done
	given uint64 // pieces of the program's work
	done  uint64
	room  chan struct{} // closed when the queue is no longer full; nil when no goroutine waits
}

// plainStream is a stream that has no driver stream yet.
func (c *cudaContext) plainStream(cfg backend.StreamConfig) *stream {
	cfg.Priority = min(max(cfg.Priority, backend.GreatestPriority), backend.LeastPriority)
	return &stream{context: c, cfg: cfg}
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
	if err := c.checkUsable(); err != nil {
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

// checkUsable returns an error if the stream or its context cannot be used. All calls begin with it.
func (st *stream) checkUsable() error {
	if err := st.context.checkUsable(); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.gone {
		return fmt.Errorf("stream: %w", backend.InvalidHandle)
	}
	return nil
}

// waitReady is checkUsable for calls that queue work. It waits while the queue is full.
func (st *stream) waitReady() error {
	for {
		if err := st.checkUsable(); err != nil {
			return err
		}
		st.mu.Lock()
		if len(st.queue) < maxQueued {
			st.mu.Unlock()
			return nil
		}
		if st.room == nil {
			st.room = make(chan struct{})
		}
		room := st.room
		st.mu.Unlock()
		select {
		case <-room:
		case <-st.context.space.gate.Unlimited():
			return st.checkUsable()
		case <-st.context.space.ctx.Done():
			return errClosed
		}
	}
}

// isEmpty tells whether no work is left.
func (st *stream) isEmpty() bool {
	st.mu.Lock()
	queued, ended := st.busy || len(st.queue) > 0, st.ended
	st.mu.Unlock()
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
	st.mu.Lock()
	if n := len(st.queue); n > 0 && st.queue[n-1].fence {
		m := st.queue[n-1].mark
		st.mu.Unlock()
		return m
	}
	st.mu.Unlock()
	m := st.context.newMark(false)
	_ = st.submitTask(&task{mark: m, always: true, fence: true})
	return m
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
	err := st.enqueueTask(&task{mark: m, always: true, direct: true})
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
	return st.enqueueTask(&task{after: []*mark{m}, direct: true})
}

// Host implements backend.Stream.
func (st *stream) Host(f func()) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	return st.enqueueTask(&task{waits: true, always: true, run: func() error {
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
	if err := st.checkUsable(); err != nil {
		return err
	}
	st.mu.Lock()
	queued := st.busy || len(st.queue) > 0
	st.mu.Unlock()
	if queued {
		return fmt.Errorf("stream: %w", backend.NotReady)
	}
	return st.queryDriver()
}

// Synchronize implements backend.Stream.
func (st *stream) Synchronize(ctx context.Context) error {
	if err := st.checkUsable(); err != nil {
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
	return st.context.checkUsable()
}

// Destroy implements backend.Stream.
func (st *stream) Destroy() error {
	if err := st.checkUsable(); err != nil {
		return err
	}
	c := st.context
	if st == c.legacy {
		return fmt.Errorf("the legacy stream: %w", backend.InvalidHandle)
	}
	st.mu.Lock()
	was := st.gone
	st.gone = true
	st.mu.Unlock()
	if was {
		return fmt.Errorf("stream: %w", backend.InvalidHandle)
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
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.busy || len(st.queue) > 0 {
		return false
	}
	st.ended = true
	delete(c.streams, st)
	_ = st.driverStream.closeDriverStream() // the driver stream goes with the context at the latest
	return true
}
