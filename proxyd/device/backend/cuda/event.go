// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// events are unused events of the driver's: making an event takes longer than recording. They end with the driver's
// context.
type events struct {
	drv *driver.Driver

	mu   sync.Mutex
	free [2][]driver.Event // without and with timing

	// ctx and made are written under mu and the context's ending, and read under either.
	ctx  driver.Context
	made uint64 // how many contexts of the driver's the context has had: see replaceContext
}

// replaceContext has events be of another context of the driver's. Events of the context before are gone.
func (p *events) replaceContext(ctx driver.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.free = ctx, [2][]driver.Event{}
	p.made++
}

func kindOf(timing bool) int {
	if timing {
		return 1
	}
	return 0
}

func (p *events) getEvent(timing bool) (driver.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := &p.free[kindOf(timing)]
	if n := len(*list); n > 0 {
		e := (*list)[n-1]
		*list = (*list)[:n-1]
		return e, nil
	}
	return p.drv.NewEvent(p.ctx, timing)
}

// putEvent takes an event back, unless the event was of an earlier context of the driver's.
func (p *events) putEvent(e driver.Event, timing bool, made uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if made != p.made {
		return
	}
	p.free[kindOf(timing)] = append(p.free[kindOf(timing)], e)
}

// mark is a point in a stream's work. The driver does not know a mark before its issue.
type mark struct {
	context *cudaContext
	timing  bool
	issued  chan struct{} // closed when event is recorded, or the mark was passed otherwise

	mu    sync.Mutex
	event driver.Event
	made  uint64          // of the context's events, when event was recorded: see queryMark
	has   bool            // event is recorded, and ours
	over  bool            // the work is done
	at    time.Duration   // by the backend's clock, of a restored event
	base  *referenceEvent // the origin of a timed mark
}

func (c *cudaContext) newMark(timing bool) *mark {
	return &mark{context: c, timing: timing, issued: make(chan struct{})}
}

// patience waits between questions to a device: at first it does not pause, then with growing pauses.
type patience struct {
	began time.Time
	timer *time.Timer
}

// eager is the time for which a wait has no pauses, as in the driver itself.
const eager = 200 * time.Microsecond

// pauseBeforeRetry returns after a while, or with ctx's error.
func (p *patience) pauseBeforeRetry(ctx context.Context) error {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	if time.Since(p.began) < eager {
		runtime.Gosched()
		return ctx.Err()
	}
	if p.timer == nil {
		p.timer = time.NewTimer(50 * time.Microsecond)
	} else {
		p.timer.Reset(min(time.Millisecond, time.Since(p.began)/10))
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		p.timer.Stop()
		return ctx.Err()
	}
}

// recordIn issues the mark in a stream. The mark is passed at once if that fails: the context has a fault then, or is
// gone.
func (m *mark) recordIn(l *driverStream) error {
	defer close(m.issued)
	c := m.context
	err := c.whileAlive(func() error {
		e, err := c.marks.getEvent(m.timing)
		if err != nil {
			return err
		}
		if m.timing {
			if m.base, err = c.clock.currentReference(l); err != nil {
				return err
			}
		}
		if err := l.drv.Record(c.ctx, e, l.stream); err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.event, m.made, m.has = e, c.marks.made, true
		return nil
	})
	if err != nil {
		m.finishMark()
	}
	return c.recordFault(err)
}

// finishDropped passes the mark, because its work was dropped.
func (m *mark) finishDropped() {
	m.finishMark()
	close(m.issued)
}

// finishMark notes that the work is done.
func (m *mark) finishMark() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	m.over = true
	if m.has && !m.timing {
		m.context.marks.putEvent(m.event, false, m.made) // a waiter for this mark has asked the driver already
		m.has = false
	}
}

// queryMark returns nil if the mark's work is done, NotReady, or the context's fault.
func (m *mark) queryMark() error {
	select {
	case <-m.issued:
	default:
		return backend.NotReady
	}
	m.mu.Lock()
	over, has, e, made := m.over, m.has, m.event, m.made
	m.mu.Unlock()
	if over || !has {
		return nil
	}
	c := m.context
	err := c.whileAlive(func() error {
		if c.marks.made != made {
			return nil // all work was done before the driver's context ended
		}
		return c.marks.drv.EventQuery(c.ctx, e)
	})
	if backend.ResultOf(err) == backend.NotReady {
		return backend.NotReady
	}
	m.finishMark()
	return c.recordFault(err)
}

// waitFor returns when the mark's work is done, or was dropped, or returns ctx's error. waitFor polls, because a
// thread that waits in the driver could not be called back.
func (m *mark) waitFor(ctx context.Context) error {
	select {
	case <-m.issued:
	case <-ctx.Done():
		return ctx.Err()
	}
	var p patience
	for errors.Is(m.queryMark(), backend.NotReady) {
		if err := p.pauseBeforeRetry(ctx); err != nil {
			return err
		}
	}
	return nil
}

// blockDriverStream has later work of a driver stream wait for the mark on the device.
func (m *mark) blockDriverStream(l *driverStream) error {
	m.mu.Lock()
	done := m.over || !m.has
	m.mu.Unlock()
	if done {
		return nil
	}
	// The mark may be another context's, which may have ended: then there is no work to wait for.
	return m.context.whileAlive(func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.over || m.made != m.context.marks.made {
			return nil // as in queryMark
		}
		return l.drv.WaitEvent(l.ctx, l.stream, m.event)
	})
}

// event is an event of the program, which stands for a mark.
type event struct {
	context *cudaContext
	cfg     backend.EventConfig

	mu   sync.Mutex
	gone bool
	last *mark // nil: never recorded
}

// NewEvent implements backend.Context.
func (c *cudaContext) NewEvent(cfg backend.EventConfig) (backend.Event, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, err
	}
	e := &event{context: c, cfg: cfg}
	if cfg.At != nil {
		e.last = c.newMark(false)
		e.last.at = *cfg.At
		e.last.finishDropped()
		e.cfg.At = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[e] = true
	return e, nil
}

// Config implements backend.Event.
func (e *event) Config() backend.EventConfig { return e.cfg }

// currentMark returns the mark that the event stands for.
func (e *event) currentMark() (*mark, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return nil, fmt.Errorf("event: %w", backend.InvalidHandle)
	}
	return e.last, nil
}

// bindMark lets the event stand for a mark, which is queued already: a later wait for the event must find the mark.
func (e *event) bindMark(m *mark) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = m
}

// Query implements backend.Event.
func (e *event) Query() error {
	m, err := e.currentMark()
	if err == nil {
		err = e.context.CheckUsable()
	}
	if err == nil && m != nil {
		err = m.queryMark()
	}
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	return nil
}

// Synchronize implements backend.Event.
func (e *event) Synchronize(ctx context.Context) error {
	m, err := e.currentMark()
	if err != nil {
		return err
	}
	if m != nil {
		if err := m.waitFor(ctx); err != nil {
			return err
		}
	}
	e.context.space.ranges.releaseSurplus()
	return e.context.CheckUsable()
}

// Time implements backend.Event.
func (e *event) Time() (time.Duration, error) {
	m, err := e.currentMark()
	switch {
	case err != nil:
		return 0, err
	case m == nil || e.cfg.NoTiming:
		return 0, fmt.Errorf("time of an event that has none: %w", backend.InvalidHandle)
	}
	if err := m.queryMark(); err != nil {
		return 0, fmt.Errorf("time of an event: %w", err)
	}
	return e.context.clock.timeOf(m)
}

// Destroy implements backend.Event.
func (e *event) Destroy() error {
	e.context.mu.Lock()
	delete(e.context.events, e)
	e.context.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return fmt.Errorf("event: %w", backend.InvalidHandle)
	}
	e.gone = true
	return nil
}
