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

// stream is a stream of the program, and a lane. What can be handed to the driver at once is; behind what cannot, a
// goroutine carries on in the stream's order.
type stream struct {
	context *cudaContext
	cfg     backend.StreamConfig
	lane    *lane

	mu    sync.Mutex
	gone  bool
	ended bool // the lane is closed
	queue []*job
	busy  bool
	now   *job   // taken off the queue and not done
	given uint64 // pieces of the program's work
	done  uint64
	room  chan struct{} // closed when the queue is no longer full; nil when no goroutine waits
}

// newStream makes a stream.
func (c *cudaContext) newStream(cfg backend.StreamConfig) (*stream, error) {
	cfg.Priority = min(max(cfg.Priority, backend.GreatestPriority), backend.LeastPriority)
	st := &stream{context: c, cfg: cfg}
	err := c.alive(func() (err error) {
		st.lane, err = c.space.device.backend.newLane(c.ctx, cfg.Priority, c.alive)
		return err
	})
	if err != nil {
		return nil, c.seen(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[st] = true
	return st, nil
}

// NewStream implements backend.Context.
func (c *cudaContext) NewStream(cfg backend.StreamConfig) (backend.Stream, error) {
	if err := c.check(); err != nil {
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

// check is what all calls begin with.
func (st *stream) check() error {
	if err := st.context.check(); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.gone {
		return fmt.Errorf("stream: %w", backend.InvalidHandle)
	}
	return nil
}

// ready is check for calls that queue something: ready waits while the queue is full.
func (st *stream) ready() error {
	for {
		if err := st.check(); err != nil {
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
			return st.check()
		case <-st.context.space.ctx.Done():
			return errClosed
		}
	}
}

// empty tells whether no work is left.
func (st *stream) empty() bool {
	st.mu.Lock()
	queued, ended := st.busy || len(st.queue) > 0, st.ended
	st.mu.Unlock()
	if queued || ended {
		return ended
	}
	err := st.query()
	return backend.ResultOf(err) != backend.NotReady
}

// query asks the driver, and notes a fault.
func (st *stream) query() error {
	return st.context.seen(st.lane.alive(func() error { return st.lane.drv.Query(st.lane.ctx, st.lane.stream) }))
}

// fence is a mark behind all that is queued. A fence waits for no other stream, and none for it. Asking again while
// nothing else was queued returns the same mark: else the queue of a stream that waits would grow with each question.
func (st *stream) fence() *mark {
	st.mu.Lock()
	if n := len(st.queue); n > 0 && st.queue[n-1].fence {
		m := st.queue[n-1].mark
		st.mu.Unlock()
		return m
	}
	st.mu.Unlock()
	m := st.context.newMark(false)
	_ = st.submit(&job{mark: m, always: true, fence: true})
	return m
}

// order is what work of this stream waits for in other streams. The caller holds the context's mu, which orders
// streams.
func (st *stream) order() []*mark {
	c := st.context
	var marks []*mark
	switch {
	case st == c.legacy:
		for o := range c.streams {
			if o != st && !o.cfg.NonBlocking && !o.empty() {
				marks = append(marks, o.fence())
			}
		}
	case !st.cfg.NonBlocking && !c.legacy.empty():
		marks = append(marks, c.legacy.fence())
	}
	return marks
}

// Record implements backend.Stream.
func (st *stream) Record(x backend.Event) error {
	if err := st.ready(); err != nil {
		return err
	}
	e, ok := x.(*event)
	if !ok || e.context != st.context {
		return fmt.Errorf("record an event of another context: %w", backend.InvalidHandle)
	}
	if _, err := e.now(); err != nil {
		return err
	}
	m := st.context.newMark(!e.cfg.NoTiming)
	err := st.enqueue(&job{mark: m, always: true, direct: true})
	e.set(m)
	return err
}

// Wait implements backend.Stream.
func (st *stream) Wait(x backend.Event) error {
	if err := st.ready(); err != nil {
		return err
	}
	e, ok := x.(*event)
	if !ok {
		return fmt.Errorf("wait for an event: %w", backend.InvalidHandle)
	}
	m, err := e.now()
	if err != nil || m == nil {
		return err
	}
	return st.enqueue(&job{after: []*mark{m}, direct: true})
}

// Host implements backend.Stream.
func (st *stream) Host(f func()) error {
	if err := st.ready(); err != nil {
		return err
	}
	return st.enqueue(&job{waits: true, always: true, run: func() error {
		// A function is called even if the context has a fault by now.
		_ = st.settle()
		if !st.context.space.waitAside(f) {
			return errClosed
		}
		return nil
	}})
}

// Query implements backend.Stream.
func (st *stream) Query() error {
	if err := st.check(); err != nil {
		return err
	}
	st.mu.Lock()
	queued := st.busy || len(st.queue) > 0
	st.mu.Unlock()
	if queued {
		return fmt.Errorf("stream: %w", backend.NotReady)
	}
	return st.query()
}

// Synchronize implements backend.Stream.
func (st *stream) Synchronize(ctx context.Context) error {
	if err := st.check(); err != nil {
		return err
	}
	marks := []*mark{}
	if st == st.context.legacy {
		marks = st.context.work(blocking)
	} else if !st.empty() {
		marks = append(marks, st.fence())
	}
	for _, m := range marks {
		if err := m.wait(ctx); err != nil {
			return err
		}
	}
	return st.context.check()
}

// Destroy implements backend.Stream.
func (st *stream) Destroy() error {
	if err := st.check(); err != nil {
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
	if st.end() {
		return nil
	}
	go func() {
		for !st.end() {
			if st.fence().wait(c.space.ctx) != nil {
				return // the stream goes with the context
			}
		}
	}()
	return nil
}

// end closes a stream that is empty.
func (st *stream) end() bool {
	c := st.context
	c.mu.Lock()
	defer c.mu.Unlock()
	if !st.empty() {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.busy || len(st.queue) > 0 {
		return false
	}
	st.ended = true
	delete(c.streams, st)
	_ = st.lane.close() // the lane goes with the context at the latest
	return true
}
