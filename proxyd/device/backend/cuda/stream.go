// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// stream is one of the program's, and a lane. What can be handed to the driver at once is; behind what cannot, a goroutine
// carries on in the stream's order.
type stream struct {
	context *cudaContext
	cfg     backend.StreamConfig
	lane    *lane

	mu    sync.Mutex
	gone  bool
	ended bool // the lane is closed
	queue []*job
	busy  bool
	room  chan struct{} // closed when the queue is no longer full; nil when nobody waits
}

// job is a piece of work.
type job struct {
	after []*mark         // of other streams; the device does this work later than that
	until []chan struct{} // what this process waits for first
	run   func() error    // nil: nothing to do
	// waits says that run takes its time: it waits for the device, or for others. Else it only tells the driver.
	waits  bool
	always bool // run even if the context has a fault
	mark   *mark
	drop   func()      // called instead when the space was closed, or nil
	steps  bool        // its steps enter the gate themselves: between them they wait for others
	direct bool        // the caller takes run's error, if nothing had to be waited for
	box    *driver.Box // of a copy that the device does by itself
}

// maxQueued is how many jobs a stream holds before it makes its program wait, as a device does.
const maxQueued = 1 << 16

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

// ready is check for calls that queue something: it waits while the queue is full.
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

// fence is a mark behind all that is queued. It waits for no other stream, and none for it.
func (st *stream) fence() *mark {
	m := st.context.newMark(false)
	_ = st.submit(&job{mark: m, always: true})
	return m
}

// order is what work of this stream waits for in others. The caller holds the context's mu, which orders streams.
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

// enqueue submits work of the program's, in the order that the legacy stream makes.
func (st *stream) enqueue(j *job) error {
	c := st.context
	c.mu.Lock()
	defer c.mu.Unlock()
	j.after = append(j.after, st.order()...)
	return st.submit(j)
}

// submit has a job done: now if nothing is before it and nothing has to be waited for, else in its turn.
func (st *stream) submit(j *job) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		if j.mark != nil {
			j.mark.pass() // nothing was left in it
		}
		return nil
	}
	g := st.context.space.gate
	if len(st.queue) == 0 && !st.busy && !j.waits && len(j.until) == 0 && issued(j.after) && g.TryEnter() {
		defer g.Leave()
		err := st.issue(j)
		if err != nil && !j.direct {
			st.context.fail(err)
			return nil
		}
		return err
	}
	st.queue = append(st.queue, j)
	if !st.busy {
		st.busy = true
		go st.work()
	}
	return nil
}

// issued tells whether the driver knows of all marks.
func issued(marks []*mark) bool {
	for _, m := range marks {
		select {
		case <-m.issued:
		default:
			return false
		}
	}
	return true
}

// issue carries a job out, which is the stream's next.
func (st *stream) issue(j *job) error {
	c := st.context
	var err error
	if c.Err() == nil {
		for _, m := range j.after {
			if err = m.holdBack(st.lane); err != nil {
				break
			}
		}
	}
	if err == nil && j.run != nil && (j.always || c.Err() == nil) {
		if j.waits {
			err = j.run()
		} else {
			err = c.alive(j.run)
		}
	}
	err = c.seen(err)
	if j.mark != nil {
		err = errors.Join(err, j.mark.record(st.lane))
	}
	if backend.ResultOf(err) == backend.ContextIsDestroyed {
		return nil // whoever has ended it knows
	}
	return err
}

// work carries out what is queued, until nothing is.
func (st *stream) work() {
	for {
		st.mu.Lock()
		if len(st.queue) == 0 {
			st.queue, st.busy = nil, false
			st.mu.Unlock()
			return
		}
		j := st.queue[0]
		st.queue[0] = nil
		st.queue = st.queue[1:]
		if st.room != nil && len(st.queue) <= maxQueued/2 {
			close(st.room)
			st.room = nil
		}
		st.mu.Unlock()
		st.do(j)
	}
}

// do carries out a job when its time has come.
func (st *stream) do(j *job) {
	s := st.context.space
	live := await(s.ctx, j.until) == nil
	for _, m := range j.after {
		select {
		case <-m.issued:
		case <-s.ctx.Done():
			live = false
		}
	}
	if !live || !j.steps && !s.gate.Enter() {
		if j.drop != nil {
			j.drop()
		}
		if j.mark != nil {
			j.mark.pass()
		}
		return
	}
	if !j.steps {
		defer s.gate.Leave()
	}
	if err := st.issue(j); err != nil {
		st.context.fail(err)
	}
}

// settle waits, within a job, until the device has done what is before it.
func (st *stream) settle() error {
	m := st.context.newMark(false)
	if err := m.record(st.lane); err != nil {
		return err
	}
	if m.wait(st.context.space.ctx) != nil {
		return errClosed
	}
	return st.context.Err()
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
		if !st.context.space.gate.Aside(f) {
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
				return // it goes with the context
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
	_ = st.lane.close() // it goes with the context at the latest
	return true
}
