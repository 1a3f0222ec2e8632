// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// event stands for a point in a stream's work.
type event struct {
	context *cudaContext
	cfg     backend.EventConfig

	mu       sync.Mutex
	gone     bool
	recorded *recordings
}

// recordings is the latest recording of an event, shared with the events of other contexts that were opened to stand
// for the same.
type recordings struct {
	mu   sync.Mutex
	last *eventRecording // nil: never recorded
}

// lastRecording is the recording that the events stand for.
func (r *recordings) lastRecording() *eventRecording {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// eventRecording is a use of an event. at is written before the mark is reached.
type eventRecording struct {
	mark *mark
	at   time.Duration
}

// NewEvent implements backend.Context.
func (c *cudaContext) NewEvent(cfg backend.EventConfig) (backend.Event, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, err
	}
	e := &event{context: c, cfg: cfg, recorded: &recordings{}}
	if cfg.At != nil {
		last := &eventRecording{mark: newMark(), at: *cfg.At}
		last.mark.reachMark()
		e.recorded.last = last
		e.cfg.At = nil
	}
	return e, nil
}

// Config implements backend.Event.
func (e *event) Config() backend.EventConfig { return e.cfg }

// currentRecording is the recording that the event stands for.
func (e *event) currentRecording() (*eventRecording, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return nil, fmt.Errorf("event: %w", backend.InvalidHandle)
	}
	return e.recorded.lastRecording(), nil
}

// bindMark lets the event stand for a recording, with work that is queued already: a later wait for the event must find
// the recording.
func (e *event) bindMark(r *eventRecording) {
	e.recorded.mu.Lock()
	defer e.recorded.mu.Unlock()
	e.recorded.last = r
}

// Query implements backend.Event.
func (e *event) Query() error {
	r, err := e.currentRecording()
	if err == nil {
		err = e.context.CheckUsable()
	}
	if err == nil && r != nil && !r.mark.isReached() {
		return fmt.Errorf("event: %w", backend.NotReady)
	}
	return err
}

// Synchronize implements backend.Event.
func (e *event) Synchronize(ctx context.Context) error {
	r, err := e.currentRecording()
	if err != nil {
		return err
	}
	if r != nil {
		if err := r.mark.waitReached(ctx); err != nil {
			return err
		}
	}
	return e.context.CheckUsable()
}

// Time implements backend.Event.
func (e *event) Time() (time.Duration, error) {
	r, err := e.currentRecording()
	switch {
	case err != nil:
		return 0, err
	case r == nil || e.cfg.NoTiming:
		return 0, fmt.Errorf("time of an event that has none: %w", backend.InvalidHandle)
	case !r.mark.isReached():
		return 0, fmt.Errorf("time of an event: %w", backend.NotReady)
	}
	return r.at, nil
}

// Destroy implements backend.Event.
func (e *event) Destroy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return fmt.Errorf("event: %w", backend.InvalidHandle)
	}
	e.gone = true
	return nil
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
	if _, err := e.currentRecording(); err != nil {
		return err
	}
	r := &eventRecording{mark: newMark()}
	st.submitOperation(&operation{mark: r.mark, always: true, where: core.UsesOnly(), run: func(*operation) error {
		r.at = st.context.space.device.backend.timeSinceStart()
		return nil
	}})
	e.bindMark(r)
	return nil
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
	r, err := e.currentRecording()
	if err != nil {
		return err
	}
	if r != nil && !r.mark.isReached() {
		st.submitOperation(&operation{deps: []*mark{r.mark}, where: core.UsesOnly()})
	}
	return nil
}

// checkWord checks an address of 4 or 8 bytes.
func (c *cudaContext) checkWord(a backend.Addr, size int) error {
	if size != 4 && size != 8 || uint64(a)%uint64(size) != 0 {
		return fmt.Errorf("a word of %d bytes at %#x: %w", size, uint64(a), backend.InvalidValue)
	}
	return c.space.checkRange(a, uint64(size))
}

// Write implements backend.Stream.
func (st *stream) Write(a backend.Addr, size int, value uint64) error {
	return st.enqueueTask(func(c *cudaContext) (task, error) {
		return task{run: func(*operation) error {
			b, err := c.space.reachBytes(a, uint64(size))
			if err == nil {
				storeWord(b[0], value)
			}
			return err
		}, uses: c.space.spacesHolding(a, uint64(size)), wrote: writes{wordWriter, []splice.Span{{Base: uint64(a), Size: uint64(size)}}}}, c.checkWord(a, size)
	})
}

// WaitValue implements backend.Stream.
func (st *stream) WaitValue(a backend.Addr, size int, value uint64, cond backend.Condition) error {
	return st.enqueueTask(func(c *cudaContext) (task, error) {
		if cond > backend.Nor {
			return task{}, fmt.Errorf("wait for a value: condition %d: %w", cond, backend.InvalidValue)
		}
		return task{run: func(op *operation) error { return c.waitValue(op, a, size, value, cond) }, wrote: readsOnly}, c.checkWord(a, size)
	})
}

// waitValue looks at a word until the condition holds: the program's writes to pinned memory are not reported.
func (c *cudaContext) waitValue(op *operation, a backend.Addr, size int, value uint64, cond backend.Condition) error {
	op.setProgress(false, backend.PartialKernel{}) // a wait that begins again has the same result
	const soonest, latest, away = 20 * time.Microsecond, time.Millisecond, 100 * time.Millisecond
	s, pause := c.space, soonest
	timer := time.NewTimer(0)
	defer timer.Stop()
	for most := latest; ; most = away {
		var met bool
		var err error
		isAway := false
		if !s.waitWithinOperation(func() {
			for !met && !isAway && err == nil && c.Err() == nil {
				select {
				case <-s.ctx.Done():
					err = errClosed
				case <-timer.C:
					met, isAway, err = s.wordHolds(op, a, size, value, cond, false)
					timer.Reset(pause)
					pause = min(2*pause, most)
				}
			}
		}) {
			return errClosed
		}
		if isAway { // the space is mapped now
			met, _, err = s.wordHolds(op, a, size, value, cond, true)
		}
		if met || err != nil || c.Err() != nil {
			return err
		}
	}
}

// wordHolds looks at a word, of a space that need not be mapped. If the word's memory was swapped out, wordHolds swaps
// it in if fetch is true, and else returns away.
func (s *space) wordHolds(op *operation, a backend.Addr, size int, value uint64, cond backend.Condition, fetch bool) (met, away bool, err error) {
	for _, u := range s.spacesHolding(a, uint64(size)) {
		if fetch {
			u.beginOperation(op)
		} else if !u.reclaimer.beginOperation(op) {
			return false, true, nil
		}
		defer u.reclaimer.endOperation(op)
	}
	b, err := s.reachBytes(a, uint64(size))
	if err != nil {
		return false, false, err
	}
	return cond.Holds(loadWord(b[0]), value, size), false, nil
}
