// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// moment is a point of a context's time from which other points are measured: over a short time, because the driver's
// numbers have few digits.
type moment struct {
	event driver.Event
	prev  *moment
	at    time.Duration
	known bool
}

// clock relates the driver's times to the backend's.
type clock struct {
	context *cudaContext

	mu   sync.Mutex
	last *moment // over: the driver has no time between events of which one is not over
	next *moment // recorded, and not known to be over; nil: none
	made time.Time
}

// renewed is how old a moment may be that other points are measured from.
const renewed = time.Second

func (k *clock) startClock(c *cudaContext) error {
	k.context = c
	e, err := c.marks.getEvent(true)
	if err == nil {
		err = c.own.drv.Record(c.ctx, e, c.own.stream)
	}
	if err == nil {
		err = c.own.waitIdle()
	}
	k.last, k.made = &moment{event: e, at: c.space.device.backend.elapsed(), known: true}, time.Now()
	return err
}

// currentMoment returns the moment from which the next recording in a lane is measured. The lane may have a long kernel, so
// a new moment is returned to later callers, when it is over.
func (k *clock) currentMoment(l *lane) (*moment, error) {
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
	k.next = &moment{event: e, prev: k.last}
	return k.last, nil
}

// timeOf is the time of a mark that is done.
func (k *clock) timeOf(m *mark) (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.base == nil {
		return m.at, nil
	}
	at, err := k.resolveMoment(m.base)
	if err != nil {
		return 0, err
	}
	c := k.context
	var since time.Duration
	err = c.whileAlive(func() error {
		since, err = c.marks.drv.Elapsed(c.ctx, m.base.event, m.event)
		return err
	})
	return at + since, c.recordFault(err)
}

// resolveMoment finds the time of a moment. The caller holds mu.
func (k *clock) resolveMoment(x *moment) (time.Duration, error) {
	var chain []*moment
	for ; !x.known; x = x.prev {
		chain = append(chain, x)
	}
	c := k.context
	for i := len(chain) - 1; i >= 0; i-- {
		var since time.Duration
		err := c.whileAlive(func() (err error) {
			since, err = c.marks.drv.Elapsed(c.ctx, x.event, chain[i].event)
			return err
		})
		if err != nil {
			return 0, c.recordFault(err)
		}
		chain[i].at, chain[i].known, chain[i].prev = x.at+since, true, nil
		x = chain[i]
	}
	return x.at, nil
}
