// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// exec is an instantiated graph. If all its work is the device's, an exec is a graph of the driver's, and a run is a
// single call; else this process carries the nodes out, each when its dependencies are over.
type exec struct {
	core.Exec
	context *cudaContext

	// Guarded by Mu.
	plan  *plan
	whole *wholeGraph // nil: not made since the graph or the set of disabled nodes has changed
	last  *mark       // of the latest run
}

// plan is a graph that was checked: the action of each node, in an order that keeps all dependencies.
type plan struct {
	steps  []*step
	device bool // the driver can run the whole graph
}

// step is the action of a node: beside id and deps, at most one field is set.
type step struct {
	id     backend.NodeID
	deps   []int // positions in the plan
	launch *launch
	box    *driver.Box
	fill   *backend.Fill
	task   func(*stream) (*task, error)
	host   func()
	record *event
	wait   *event
	child  *plan
}

// Instantiate implements backend.Context.
func (c *cudaContext) Instantiate(g *backend.Graph) (backend.Exec, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, err
	}
	own := g.Clone()
	p, err := c.newPlan(own)
	if err != nil {
		return nil, err
	}
	x := &exec{context: c, plan: p}
	x.Init(own, core.ExecHooks{CheckContext: c.CheckUsable, Plan: x.replaceGraph, Retire: x.retireGraph})
	return x, nil
}

func (c *cudaContext) newPlan(g *backend.Graph) (*plan, error) {
	nodes, err := core.OrderNodes(g)
	if err != nil {
		return nil, err
	}
	p := &plan{device: true}
	for _, n := range nodes {
		s, err := c.newStep(n.Node)
		if err != nil {
			return nil, fmt.Errorf("graph: node %d: %w", n.ID, err)
		}
		s.id, s.deps = n.ID, n.Deps
		p.device = p.device && s.onDevice()
		p.steps = append(p.steps, s)
	}
	return p, nil
}

// onDevice tells whether the driver can do the step. There is no node for a cooperative launch that all drivers know.
func (s *step) onDevice() bool {
	return s.host == nil && s.record == nil && s.wait == nil && s.child == nil && s.task == nil && (s.launch == nil || !s.launch.args.Cooperative)
}

func (c *cudaContext) newStep(n backend.Node) (*step, error) {
	s := &step{}
	var err error
	ok := true
	switch n := n.(type) {
	case backend.KernelNode:
		s.launch, err = c.checkLaunch(n.Launch)
	case backend.CopyNode:
		s.box, s.task, err = c.copyStep(n.Copy)
	case backend.FillNode:
		_, err = c.legacy.fillTask(n.Fill)
		if f := n.Fill; f.Width > 0 {
			s.fill = &f
		}
	case backend.ExchangeNode:
		begin := n.Lend
		if begin == nil {
			begin = beginWithSpans(n.Begin)
		}
		_, err = c.legacy.lendTask(n.Buffers, begin)
		s.task = func(st *stream) (*task, error) { return st.lendTask(n.Buffers, begin) }
	case backend.HostNode:
		s.host = n.Func
		ok = n.Func != nil
	case backend.RecordNode:
		s.record, ok = n.Event.(*event)
		ok = ok && s.record.context == c
	case backend.WaitNode:
		s.wait, ok = n.Event.(*event)
	case backend.ChildNode:
		s.child, err = c.newPlan(n.Graph)
	case backend.EmptyNode:
	default:
		ok = false
	}
	if !ok {
		return nil, backend.InvalidHandle
	}
	return s, err
}

// copyStep returns a copy that the device does by itself, or else a task.
func (c *cudaContext) copyStep(p backend.Copy) (*driver.Box, func(*stream) (*task, error), error) {
	j, err := c.legacy.copyTask(p)
	if err != nil || j.run == nil {
		return nil, nil, err
	}
	if j.waits {
		return nil, func(st *stream) (*task, error) { return st.copyTask(p) }, nil
	}
	return j.box, nil, nil
}

// driverNodes returns the plan for the driver. Disabled nodes are empty.
func (p *plan) driverNodes(off map[backend.NodeID]bool) []driver.Node {
	out := make([]driver.Node, len(p.steps))
	for i, s := range p.steps {
		out[i].Deps = s.deps
		if off[s.id] {
			continue
		}
		out[i].Box, out[i].Fill = s.box, s.fill
		if s.launch != nil {
			out[i].Launch = s.launch.forDriver()
		}
	}
	return out
}

// wholeGraph is a graph of the driver's, which is made again when the space has moved.
type wholeGraph struct {
	context *cudaContext
	plan    *plan
	off     map[backend.NodeID]bool

	mu   sync.Mutex // taken while the driver's context is alive
	exec driver.Exec
	made uint64 // of the context's events, when exec was made; 0: there is none
}

// currentExec returns the driver's graph, made if there is none. The context is alive.
func (w *wholeGraph) currentExec() (driver.Exec, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.context
	if w.made == c.marks.made {
		return w.exec, nil
	}
	x, err := c.space.device.backend.drv.Instantiate(c.ctx, w.plan.driverNodes(w.off))
	if err != nil {
		return driver.Exec{}, err
	}
	w.exec, w.made = x, c.marks.made
	return x, nil
}

// endGraph ends the driver's graph, which ends with the driver's context at the latest.
func (w *wholeGraph) endGraph() {
	c := w.context
	_ = c.whileAlive(func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.made != c.marks.made {
			return nil
		}
		w.made = 0
		return c.space.device.backend.drv.DestroyGraph(c.ctx, w.exec)
	})
}

// makeGraph makes the driver's graph unless it exists. The caller holds mu, and the context is alive.
func (x *exec) makeGraph() error {
	if x.whole != nil {
		return nil
	}
	w := &wholeGraph{context: x.context, plan: x.plan, off: x.CopyOff()}
	if _, err := w.currentExec(); err != nil {
		return err
	}
	x.whole = w
	return nil
}

// retireGraph ends the driver's graph when its last run is over. The caller holds mu.
func (x *exec) retireGraph() {
	w, last, c := x.whole, x.last, x.context
	if x.whole = nil; w == nil {
		return
	}
	if last == nil || !errors.Is(last.queryMark(), backend.NotReady) {
		w.endGraph()
		return
	}
	go func() {
		if last.waitFor(c.space.ctx) == nil {
			w.endGraph()
		}
	}()
}

// replaceGraph makes the plan of another graph of the same shape.
func (x *exec) replaceGraph(g *backend.Graph) error {
	p, err := x.context.newPlan(g)
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
	if len(x.plan.steps) == 0 {
		return nil
	}
	c := st.context
	j := &task{mark: c.newMark(false), direct: true}
	if x.last != nil {
		j.after = append(j.after, x.last)
	}
	var absent *driver.AbsentError
	if x.plan.device {
		err := c.whileAlive(x.makeGraph)
		if err == nil {
			w := x.whole
			j.run = func() error {
				g, err := w.currentExec()
				if err != nil {
					return err
				}
				return st.driverStream.drv.LaunchGraph(st.driverStream.ctx, g, st.driverStream.stream)
			}
			x.last = j.mark
			return st.enqueueTask(j)
		}
		if !errors.As(err, &absent) {
			return c.recordFault(err)
		}
	}
	r, err := x.plan.beginRun(c, x.CopyOff())
	if err != nil {
		return err
	}
	j.waits, j.always, j.steps, j.direct = true, true, true, false
	j.drop = r.dropRecordings
	j.run = func() error {
		_ = st.waitDevice() // host functions are called even if the context has a fault by now
		r.runSteps()
		return nil
	}
	x.last = j.mark
	err = st.enqueueTask(j)
	r.publishEvents()
	return err
}
