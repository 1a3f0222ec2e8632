// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// run is a run of a plan by this process: the decisions of the launch, and the marks that the run
// waits for.
type run struct {
	context *cudaContext
	*plan
	off   map[backend.NodeID]bool
	marks []*mark // by step: the mark that an event gets, or for which the step waits
	child []*run
}

// beginRun makes a run.
func (p *plan) beginRun(c *cudaContext, off map[backend.NodeID]bool) (*run, error) {
	n := len(p.steps)
	r := &run{context: c, plan: p, off: off, marks: make([]*mark, n), child: make([]*run, n)}
	for i, s := range p.steps {
		var err error
		switch {
		case s.record != nil:
			if _, err = s.record.currentMark(); err == nil {
				r.marks[i] = c.newMark(!s.record.cfg.NoTiming)
			}
		case s.wait != nil:
			r.marks[i], err = s.wait.currentMark()
		case s.child != nil:
			r.child[i], err = s.child.beginRun(c, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// publishEvents lets the events stand for this run.
func (r *run) publishEvents() {
	for i, s := range r.steps {
		if s.record != nil {
			s.record.bindMark(r.marks[i])
		}
		if s.child != nil {
			r.child[i].publishEvents()
		}
	}
}

// dropRecordings ends the recordings of a run that does not take place.
func (r *run) dropRecordings() {
	for i, s := range r.steps {
		if s.record != nil {
			r.marks[i].finishDropped()
		}
		if r.child[i] != nil {
			r.child[i].dropRecordings()
		}
	}
}

// runSteps carries a run out: each step when its dependencies are over.
func (r *run) runSteps() {
	over := make([]chan struct{}, len(r.steps))
	for i := range over {
		over[i] = make(chan struct{})
	}
	var all sync.WaitGroup
	for i, s := range r.steps {
		all.Go(func() {
			defer close(over[i])
			for _, d := range s.deps {
				<-over[d]
			}
			r.runStep(i, s)
		})
	}
	all.Wait()
}

// runStep carries out a step, to its end.
func (r *run) runStep(i int, s *step) {
	c := r.context
	var err error
	switch {
	case s.record != nil:
		c.moving.Lock()
		err = r.marks[i].recordIn(c.own)
		c.moving.Unlock()
	case s.wait != nil:
		if r.marks[i] != nil {
			_ = r.marks[i].waitFor(c.space.ctx) // fails only if the space is closed
		}
	case s.child != nil:
		r.child[i].runSteps()
	case s.host != nil:
		if c.Err() == nil { // else the program would use results that a kernel has not made
			s.host()
		}
	case !r.off[s.id] && c.Err() == nil:
		err = r.runOnDevice(s)
	}
	if err != nil {
		c.SetFault(err)
	}
}

// runOnDevice has the device do a step when the space is mapped, in a stream of its own.
func (r *run) runOnDevice(s *step) error {
	c := r.context
	g, active := c.space.gate, c.space.active
	active.Begin()
	defer active.End()
	if !g.Reenter() {
		return nil // the space is closed
	}
	defer g.Leave()
	var l *driverStream
	err := c.whileAlive(func() (err error) {
		l, err = c.space.device.backend.newDriverStream(c.ctx, 0, c.whileAlive)
		return err
	})
	if err != nil {
		return c.recordFault(err)
	}
	defer func() { _ = l.closeDriverStream() }() // the driver stream goes with the context at the latest
	st := c.plainStream(backend.StreamConfig{})
	st.driverStream = l
	switch {
	case s.launch != nil:
		err = c.whileAlive(func() error { return l.drv.Launch(l.ctx, l.stream, s.launch.forDriver()) })
	case s.box != nil:
		err = c.whileAlive(func() error { return st.copyBox(*s.box) })
	case s.fill != nil:
		err = c.whileAlive(func() error { return l.drv.Fill(l.ctx, l.stream, s.fill) })
	case s.task != nil:
		var j *task
		if j, err = s.task(st); err == nil {
			err = j.run()
		}
	}
	if err == nil {
		err = st.waitDevice()
	}
	return c.recordFault(err)
}
