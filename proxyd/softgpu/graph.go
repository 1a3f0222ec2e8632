// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
)

// exec is an instantiated graph.
type exec struct {
	core.Exec
	context *cudaContext

	// Of Mu.
	plan *plan
	last *mark // of the latest run
}

// plan is a graph that was checked: the task of each node, in an order that keeps all dependencies.
type plan struct {
	steps []*step
	chain bool // each step depends on the step before and on no other
	of    *conditions
}

type step struct {
	id     backend.NodeID
	deps   []int // positions in the plan
	task   task
	host   func()
	record *event
	wait   *event
	child  *plan
	choice *choice
}

// Instantiate implements backend.Context.
func (c *cudaContext) Instantiate(g *backend.Graph) (backend.Exec, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, err
	}
	own := g.Clone()
	p, err := c.planGraph(own, newConditions())
	if err != nil {
		return nil, err
	}
	x := &exec{context: c, plan: p}
	x.Init(own, core.ExecHooks{CheckContext: c.CheckUsable, Plan: x.replaceGraph})
	return x, nil
}

func (c *cudaContext) planGraph(g *backend.Graph, of *conditions) (*plan, error) {
	nodes, err := core.OrderNodes(g)
	if err != nil {
		return nil, err
	}
	p := &plan{chain: true, of: of}
	for i, n := range nodes {
		s, err := c.makeStep(n.Node, of)
		if err != nil {
			return nil, fmt.Errorf("graph: node %d: %w", n.ID, err)
		}
		s.id, s.deps = n.ID, n.Deps
		p.chain = p.chain && (i == 0 && len(s.deps) == 0 || len(s.deps) == 1 && s.deps[0] == i-1)
		p.steps = append(p.steps, s)
	}
	return p, nil
}

func (c *cudaContext) makeStep(n backend.Node, of *conditions) (*step, error) {
	s := &step{}
	var err error
	ok := true
	switch n := n.(type) {
	case backend.KernelNode:
		s.task, err = c.launchTask(&n.Launch, of)
	case backend.CopyNode:
		s.task, err = c.copyTask(n.Copy)
	case backend.FillNode:
		s.task, err = c.fillTask(n.Fill)
	case backend.ExchangeNode:
		s.task, err = c.exchangeTask(n.Buffers, n.Begin)
	case backend.HostNode:
		s.host = n.Func
		ok = n.Func != nil
	case backend.RecordNode:
		s.record, ok = n.Event.(*event)
		ok = ok && s.record.context == c
	case backend.WaitNode:
		s.wait, ok = n.Event.(*event)
	case backend.ChildNode:
		s.child, err = c.planGraph(n.Graph, of)
	case backend.ConditionalNode:
		s.choice, err = c.planChoice(n, of)
	case backend.EmptyNode:
	default:
		ok = false
	}
	if !ok {
		return nil, backend.InvalidHandle
	}
	s.task.usesSeen = s.task.usesSeen || s.task.uses != nil && c.space.isRestoring()
	return s, err
}

// run is a run of a plan: the decisions of the launch, and the marks that the run waits for.
type run struct {
	context *cudaContext
	*plan
	off     map[backend.NodeID]bool
	records []*eventRecording
	waits   []*mark
	child   []*run
}

// beginRun makes a run.
func (p *plan) beginRun(c *cudaContext, off map[backend.NodeID]bool) (*run, error) {
	n := len(p.steps)
	r := &run{context: c, plan: p, off: off, records: make([]*eventRecording, n), waits: make([]*mark, n), child: make([]*run, n)}
	for i, s := range p.steps {
		var err error
		var now *eventRecording
		switch {
		case s.record != nil:
			if _, err = s.record.currentRecording(); err == nil {
				r.records[i] = &eventRecording{mark: newMark()}
			}
		case s.wait != nil:
			if now, err = s.wait.currentRecording(); now != nil {
				r.waits[i] = now.mark
			}
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
			s.record.bindMark(r.records[i])
		}
		if s.child != nil {
			r.child[i].publishEvents()
		}
	}
}

// reachRecordings reaches the marks of the recordings of a run that does not take place, so that waits for them end.
func (r *run) reachRecordings() {
	for i, rec := range r.records {
		if rec != nil {
			rec.mark.reachMark()
		}
		if r.child[i] != nil {
			r.child[i].reachRecordings()
		}
	}
}

// runLaunch carries out the run of a launch.
func (r *run) runLaunch() {
	r.of.clearValues()
	r.runSteps()
}

// runSteps carries a run out: each step when its dependencies are over.
func (r *run) runSteps() {
	for _, s := range r.steps {
		if s.choice != nil && s.choice.assign {
			s.choice.of.setValue(s.choice.condition, s.choice.initial)
		}
	}
	over := make([]*mark, len(r.steps))
	for i := range over {
		over[i] = newMark()
	}
	var all sync.WaitGroup
	for i, s := range r.steps {
		work := func() {
			defer over[i].reachMark()
			deps := make([]*mark, 0, len(s.deps)+1)
			for _, d := range s.deps {
				deps = append(deps, over[d])
			}
			r.runStep(i, s, r.context.space.awaitMarks(unreachedMarks(append(deps, r.waits[i]))) == nil)
		}
		if r.chain {
			work()
			continue
		}
		all.Add(1)
		go func() { defer all.Done(); work() }()
	}
	all.Wait()
}

// runStep carries out a step; live is false when the space was closed.
func (r *run) runStep(i int, s *step, live bool) {
	switch {
	case s.record != nil:
		r.records[i].at = r.context.space.device.backend.timeSinceStart()
		r.records[i].mark.reachMark()
	case s.child != nil:
		r.child[i].runSteps()
	case !live:
	case s.choice != nil:
		r.runChoice(s.choice)
	case s.host != nil:
		if r.context.Err() == nil { // after a fault the host function would read results that a kernel has not written
			s.host()
		}
	case s.task.run != nil && !r.off[s.id] && r.context.Err() == nil:
		r.runTask(s.task)
	}
}

// runTask does a step's work when the space is mapped.
func (r *run) runTask(t task) {
	g, active := r.context.space.gate, r.context.space.active
	active.Begin()
	defer active.End()
	if !g.Reenter() {
		return
	}
	defer g.Leave()
	op := &operation{uses: t.uses, wrote: t.wrote, usesSeen: t.usesSeen}
	op.uses = op.usesAtBegin(r.context.space)
	for _, u := range op.uses {
		u.beginOperation(op)
		defer u.reclaimer.endOperation(op)
	}
	if err := t.run(op); err != nil {
		r.context.SetFault(err)
	}
}

// replaceGraph makes the plan of another graph of the same shape.
func (x *exec) replaceGraph(g *backend.Graph) error {
	p, err := x.context.planGraph(g, newConditions())
	if err != nil {
		return err
	}
	x.plan = p
	return nil
}

// Graph implements backend.Stream.
func (st *stream) Graph(b backend.Exec) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	x, ok := b.(*exec)
	if !ok || x.context != st.context {
		return fmt.Errorf("launch a graph of another context: %w", backend.InvalidHandle)
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if err := x.CheckLaunch(); err != nil {
		return err
	}
	r, err := x.plan.beginRun(st.context, x.CopyOff())
	if err != nil {
		return err
	}
	op := &operation{always: true, entersItself: true, mark: newMark(), run: func(*operation) error { r.runLaunch(); return nil }, drop: r.reachRecordings}
	if x.last != nil {
		op.deps = append(op.deps, x.last)
	}
	x.last = op.mark
	st.submitOperation(op)
	r.publishEvents()
	return nil
}
