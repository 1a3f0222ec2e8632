// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"fmt"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// referenceEvent is a point of a context's time from which other points are measured: over a short time, because the
// driver's numbers have few digits.
type referenceEvent struct {
	event driver.Event
	prev  *referenceEvent
	at    time.Duration
	known bool
}

// clock relates the driver's times to the backend's.
type clock struct {
	context *cudaContext

	mu   sync.Mutex
	last *referenceEvent // over: the driver has no time between events of which one is not over
	next *referenceEvent // recorded, and not known to be over; nil: none
	made time.Time
}

// renewed is how old a reference event may be that other points are measured from.
const renewed = time.Second

// firstReference makes the event from which a new context of the driver's measures. The event's time is that before the
// event is recorded: then no event has a time in the future, and an event that is recorded after a move of a space has a
// later time than the events from before the move, however long a move takes.
func (b *Backend) firstReference(own *driverStream) (*referenceEvent, error) {
	at := b.elapsed()
	e, err := b.drv.NewEvent(own.ctx, true)
	if err == nil {
		err = b.drv.Record(own.ctx, e, own.stream)
	}
	if err == nil {
		err = own.waitIdle()
	}
	return &referenceEvent{event: e, at: at, known: true}, err
}

// restartClock measures from a reference event from here on.
func (k *clock) restartClock(m *referenceEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.next, k.made = m, nil, time.Now()
}

// currentReference returns the event from which the next recording in a driver stream is measured. The driver stream may
// have a long kernel, so a new event is returned to later callers, when it is over.
func (k *clock) currentReference(l *driverStream) (*referenceEvent, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.made) < renewed {
		return k.last, nil
	}
	if k.next != nil {
		err := l.drv.EventQuery(l.ctx, k.next.event)
		if err == nil {
			k.last, k.next, k.made = k.next, nil, time.Now()
		} else if backend.ResultOf(err) != backend.NotReady {
			return nil, err
		}
		return k.last, nil
	}
	e, err := k.context.marks.getEvent(true)
	if err != nil {
		return nil, err
	}
	if err := l.drv.Record(l.ctx, e, l.stream); err != nil {
		return nil, err
	}
	k.next = &referenceEvent{event: e, prev: k.last}
	return k.last, nil
}

// timeOf is the time of a mark that is done.
func (k *clock) timeOf(m *mark) (at time.Duration, err error) {
	k.mu.Lock()
	restored := m.base == nil
	k.mu.Unlock()
	if restored {
		return m.at, nil // also of a context that has ended
	}
	c := k.context
	err = c.whileAlive(func() error {
		at, err = k.timeOfAlive(m)
		return err
	})
	return at, c.recordFault(err)
}

// timeOfAlive is timeOf while the driver's context is alive.
func (k *clock) timeOfAlive(m *mark) (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.base == nil {
		return m.at, nil
	}
	m.mu.Lock()
	made := m.made
	m.mu.Unlock()
	if made != k.context.marks.made {
		// The event stands for a later mark by now: keepTime has the time of each mark that an event stands for.
		return 0, fmt.Errorf("time of an event that was recorded again: %w", backend.NotReady)
	}
	at, err := k.resolveReference(m.base)
	if err != nil {
		return 0, err
	}
	since, err := k.context.marks.drv.Elapsed(k.context.ctx, m.base.event, m.event)
	return at + since, err
}

// keepTime finds the time of a mark that is done, before the driver's context ends. The context is alive.
func (k *clock) keepTime(m *mark) error {
	at, err := k.timeOfAlive(m)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	m.at, m.base = at, nil
	return nil
}

// resolveReference finds the time of a reference event. The caller holds mu, and the driver's context is alive.
func (k *clock) resolveReference(x *referenceEvent) (time.Duration, error) {
	var chain []*referenceEvent
	for ; !x.known; x = x.prev {
		chain = append(chain, x)
	}
	c := k.context
	for i := len(chain) - 1; i >= 0; i-- {
		since, err := c.marks.drv.Elapsed(c.ctx, x.event, chain[i].event)
		if err != nil {
			return 0, err
		}
		chain[i].at, chain[i].known, chain[i].prev = x.at+since, true, nil
		x = chain[i]
	}
	return x.at, nil
}
