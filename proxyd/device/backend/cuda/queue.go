// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// task is a piece of work in the queue of a stream.
type task struct {
	after []*mark         // of other streams; the device does this work later than that
	until []chan struct{} // channels that this process waits for first
	run   func() error    // nil: no action
	// waits says that run takes its time: run waits for the device, or for other work. Else run only tells the driver.
	waits  bool
	always bool // run even if the context has a fault
	mark   *mark
	drop   func()          // called instead when the space was closed, or nil
	steps  bool            // its steps enter the gate themselves: between them they wait for others
	fence  bool            // the task consists of its mark only
	direct bool            // the caller takes run's error, if the task did not have to wait
	box    *driver.Box     // of a copy that the device does by itself
	given  bool            // the task is the program's: see backend.Progress
	begun  bool            // guarded by the stream's Mu
	where  core.AddressUse // where the task, or work of the driver's that the task makes, may use memory
}

// enqueueTask submits work of the program's, in the order that the legacy stream makes.
func (st *stream) enqueueTask(j *task) error {
	c := st.context
	c.mu.Lock()
	defer c.mu.Unlock()
	j.after = append(j.after, st.orderMarks()...)
	j.given = true
	return st.submitTask(j)
}

// Progress implements backend.Stream. Work that the driver was given counts as done, which is true while the space is
// unmapped.
func (st *stream) Progress() backend.Progress {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	p := backend.Progress{Given: st.Given(), Done: st.Done}
	if j := st.Current; j != nil {
		p.Begun = j.begun && j.given // a fence is no piece of work
	}
	return p
}

// setBegun notes that a task has begun, or that it could begin again.
func (st *stream) setBegun(j *task, begun bool) {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	j.begun = begun
}

// markRestartable notes that the present task could begin again from its start. A node of a graph is no task of a
// stream.
func (st *stream) markRestartable() {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	if st.Current != nil {
		st.Current.begun = false
	}
}

// countTask counts a task that is done. The caller holds Mu.
func (st *stream) countTask(j *task) {
	if j.given {
		st.Done++
	}
}

// submitTask carries a task out: at once if no task is before it and it need not wait, else in its turn.
func (st *stream) submitTask(j *task) error {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	if j.given {
		st.CountGiven()
	}
	if st.ended {
		st.countTask(j)
		if j.mark != nil {
			j.mark.finishDropped() // no work was left in the stream
		}
		return nil
	}
	g := st.context.space.gate
	if !st.HasWork() && !j.waits && len(j.until) == 0 && allIssued(j.after) && g.TryEnter() {
		defer g.Leave()
		err := st.issueTask(j)
		st.countTask(j)
		if err != nil && !j.direct {
			st.context.SetFault(err)
			return nil
		}
		return err
	}
	if st.AddWork(j) {
		go st.runQueuedWork()
	}
	return nil
}

// allIssued tells whether the driver knows of all marks.
func allIssued(marks []*mark) bool {
	for _, m := range marks {
		select {
		case <-m.issued:
		default:
			return false
		}
	}
	return true
}

// issueTask carries a task out, which is the stream's next.
func (st *stream) issueTask(j *task) error {
	c := st.context
	var err error
	if c.Err() == nil {
		for _, m := range j.after {
			if err = m.blockDriverStream(st.driverStream); err != nil {
				break
			}
		}
	}
	if err == nil && j.run != nil && (j.always || c.Err() == nil) {
		if j.waits {
			err = j.run()
		} else {
			err = c.whileAlive(j.run)
		}
	}
	err = c.recordFault(err)
	if j.mark != nil {
		err = errors.Join(err, j.mark.recordIn(st.driverStream))
	}
	if backend.ResultOf(err) == backend.ContextIsDestroyed {
		return nil // the goroutine that has ended the context knows
	}
	return err
}

// runQueuedWork carries out the queued tasks until the queue is empty.
func (st *stream) runQueuedWork() {
	active := st.context.space.active
	active.Begin()
	defer active.End()
	for j := st.TakeNext(); j != nil; j = st.TakeNext() {
		st.runTask(j)
		st.Mu.Lock()
		st.Current = nil
		st.countTask(j)
		st.Mu.Unlock()
	}
}

// runTask carries out a task when its time has come.
func (st *stream) runTask(j *task) {
	s := st.context.space
	if !s.awaitDependencies(j) || !s.gate.Enter() {
		if j.drop != nil {
			j.drop()
		}
		if j.mark != nil {
			j.mark.finishDropped()
		}
		return
	}
	st.setBegun(j, true)
	if j.steps {
		s.gate.Leave()
		s.active.End()
		defer s.active.Begin()
	} else {
		defer s.gate.Leave()
	}
	if err := st.issueTask(j); err != nil {
		st.context.SetFault(err)
	}
}

// awaitDependencies waits for the channels and marks that a task needs first; meanwhile the task does not make the
// space runnable. awaitDependencies returns false if the space was closed.
func (s *space) awaitDependencies(j *task) (live bool) {
	if len(j.until) == 0 && allIssued(j.after) {
		return true
	}
	s.active.Wait(func() {
		live = awaitAll(s.ctx, j.until) == nil
		for _, m := range j.after {
			select {
			case <-m.issued:
			case <-s.ctx.Done():
				live = false
			}
		}
	})
	return live
}

// waitDevice waits, within a task, until the device has done the earlier work.
func (st *stream) waitDevice() error {
	m := st.context.newMark(false)
	if err := m.recordIn(st.driverStream); err != nil {
		return err
	}
	if m.waitFor(st.context.space.ctx) != nil {
		return errClosed
	}
	return st.context.Err()
}
