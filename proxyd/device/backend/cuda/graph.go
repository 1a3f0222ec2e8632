// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// exec is an instantiated graph. If all its work is the device's, an exec is a graph of the driver's, and a run is a
// single call; else this process carries the nodes out, each when its dependencies are over.
type exec struct {
	context *cudaContext

	mu    sync.Mutex
	gone  bool
	graph *backend.Graph
	plan  *plan
	off   map[backend.NodeID]bool
	whole *driver.Exec // nil: not made since the graph or what is off has changed
	last  *mark        // of the latest run
}

// plan is a graph that was checked: what each node does, in an order that keeps all dependencies.
type plan struct {
	steps  []*step
	device bool // the driver can run the whole graph
}

// step is what a node does: one of these, or nothing.
type step struct {
	id     backend.NodeID
	deps   []int // positions in the plan
	launch *driver.Launch
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
	if err := c.checkUsable(); err != nil {
		return nil, err
	}
	own := g.Clone()
	p, err := c.newPlan(own)
	if err != nil {
		return nil, err
	}
	return &exec{context: c, graph: own, plan: p, off: map[backend.NodeID]bool{}}, nil
}

func (c *cudaContext) newPlan(g *backend.Graph) (*plan, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	p := &plan{device: true}
	at := make(map[backend.NodeID]int, len(order))
	for i, id := range order {
		at[id] = i
		n, err := g.Node(id)
		if err != nil {
			return nil, err
		}
		s, err := c.newStep(n)
		if err != nil {
			return nil, fmt.Errorf("graph: node %d: %w", id, err)
		}
		s.id = id
		deps, err := g.Deps(id)
		if err != nil {
			return nil, err
		}
		for _, d := range deps {
			s.deps = append(s.deps, at[d])
		}
		p.device = p.device && s.onDevice()
		p.steps = append(p.steps, s)
	}
	return p, nil
}

// onDevice tells whether the driver can do the step. There is no node for a cooperative launch that all drivers know.
func (s *step) onDevice() bool {
	return s.host == nil && s.record == nil && s.wait == nil && s.child == nil && s.task == nil && (s.launch == nil || !s.launch.Cooperative)
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

// copyStep is a copy that the device does by itself, or another.
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

// driverNodes is the plan for the driver. What is off does nothing.
func (p *plan) driverNodes(off map[backend.NodeID]bool) []driver.Node {
	out := make([]driver.Node, len(p.steps))
	for i, s := range p.steps {
		out[i].Deps = s.deps
		if !off[s.id] {
			out[i].Launch, out[i].Box, out[i].Fill = s.launch, s.box, s.fill
		}
	}
	return out
}

// makeGraph has the driver's graph be there. The caller holds mu, and the context is alive.
func (x *exec) makeGraph() error {
	if x.whole != nil {
		return nil
	}
	c := x.context
	w, err := c.space.device.backend.drv.Instantiate(c.ctx, x.plan.driverNodes(x.off))
	if err != nil {
		return err
	}
	x.whole = &w
	return nil
}

// retireGraph ends the driver's graph when its last run is over. The caller holds mu.
func (x *exec) retireGraph() {
	w, last, c := x.whole, x.last, x.context
	if x.whole = nil; w == nil {
		return
	}
	end := func() {
		_ = c.whileAlive(func() error { return c.space.device.backend.drv.DestroyGraph(c.ctx, *w) }) // the graph goes with the context at the latest
	}
	if last == nil || !errors.Is(last.queryMark(), backend.NotReady) {
		end()
		return
	}
	go func() {
		if last.waitFor(c.space.ctx) == nil {
			end()
		}
	}()
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
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone {
		return fmt.Errorf("launch a graph: %w", backend.InvalidHandle)
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
			w := *x.whole
			j.run = func() error { return st.lane.drv.LaunchGraph(st.lane.ctx, w, st.lane.stream) }
			x.last = j.mark
			return st.enqueueTask(j)
		}
		if !errors.As(err, &absent) {
			return c.noteFault(err)
		}
	}
	off := make(map[backend.NodeID]bool, len(x.off))
	for id := range x.off {
		off[id] = true
	}
	r, err := x.plan.beginRun(c, off)
	if err != nil {
		return err
	}
	j.waits, j.always, j.steps, j.direct = true, true, true, false
	j.drop = r.passRecordings
	j.run = func() error {
		_ = st.waitDevice() // host functions are called even if the context has a fault by now
		r.carryOut()
		return nil
	}
	x.last = j.mark
	err = st.enqueueTask(j)
	r.publishEvents()
	return err
}

func (x *exec) checkUsable() error {
	if err := x.context.checkUsable(); err != nil {
		return err
	}
	if x.gone {
		return fmt.Errorf("graph: %w", backend.InvalidHandle)
	}
	return nil
}

// Update implements backend.Exec.
func (x *exec) Update(g *backend.Graph) (backend.NodeID, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.checkUsable(); err != nil {
		return 0, err
	}
	if id, err := g.SameShape(x.graph); err != nil {
		return id, err
	}
	next := x.graph.Clone()
	ids := g.Nodes()
	for i, id := range next.Nodes() {
		n, err := g.Node(ids[i])
		if err == nil {
			err = next.Set(id, n)
		}
		if err != nil {
			return ids[i], err
		}
	}
	return 0, x.replaceGraph(next)
}

// replaceGraph takes a valid graph over.
func (x *exec) replaceGraph(g *backend.Graph) error {
	p, err := x.context.newPlan(g)
	if err != nil {
		return err
	}
	x.graph, x.plan = g, p
	x.retireGraph()
	return nil
}

// Set implements backend.Exec.
func (x *exec) Set(id backend.NodeID, n backend.Node) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.checkUsable(); err != nil {
		return err
	}
	next := x.graph.Clone()
	if err := next.Set(id, n); err != nil {
		return err
	}
	return x.replaceGraph(next)
}

// findSwitchable finds a node that can be switched off.
func (x *exec) findSwitchable(id backend.NodeID) error {
	if err := x.checkUsable(); err != nil {
		return err
	}
	n, err := x.graph.Node(id)
	if err != nil {
		return err
	}
	switch n.(type) {
	case backend.KernelNode, backend.CopyNode, backend.FillNode:
		return nil
	}
	return fmt.Errorf("graph: node %d cannot be switched off: %w", id, backend.InvalidValue)
}

// Enable implements backend.Exec.
func (x *exec) Enable(id backend.NodeID, on bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.findSwitchable(id); err != nil {
		return err
	}
	if on == !x.off[id] {
		return nil
	}
	if on {
		delete(x.off, id)
	} else {
		x.off[id] = true
	}
	x.retireGraph()
	return nil
}

// Enabled implements backend.Exec.
func (x *exec) Enabled(id backend.NodeID) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.findSwitchable(id); err != nil {
		return false, err
	}
	return !x.off[id], nil
}

// Destroy implements backend.Exec.
func (x *exec) Destroy() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone {
		return fmt.Errorf("graph: %w", backend.InvalidHandle)
	}
	x.gone = true
	x.retireGraph()
	return nil
}
