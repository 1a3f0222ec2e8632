// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// graphExec is an executable graph: the form that the backend runs, and a copy of the graph, as its description. The
// program names its nodes by the nodes of the original graph.
type graphExec struct {
	b       backend.Exec
	context *driver.Context
	flags   uint64
	graph   *graph
	ids     map[dispatch.Node]backend.NodeID
}

// findExec finds an executable graph: INVALID_HANDLE if there is none. The caller holds the lock.
func (p *Graphs) findExec(h dispatch.Graphexec) (*graphExec, dispatch.Result) {
	e, ok := p.execs.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidHandle
	}
	return e, 0
}

// collectContexts are the contexts in which the graph's nodes work.
func (g *graph) collectContexts(into map[*driver.Context]bool) {
	for _, n := range g.nodes {
		if n.context != nil {
			into[n.context] = true
		}
		for _, within := range n.graphsWithin() {
			within.collectContexts(into)
		}
	}
}

// isWithoutWork tells whether the graph's nodes, if any, only order others. CUDA launches such a graph in any context: its
// own is that in which it was instantiated.
func (g *graph) isWithoutWork() bool {
	for _, n := range g.nodes {
		if n.kind != emptyNode {
			return false
		}
	}
	return true
}

// tallyLaunch adds a launch of the graph to the counts.
func (g *graph) tallyLaunch(into map[uint64]uint32) {
	for _, n := range g.nodes {
		for _, c := range n.counts {
			into[c.Key] += c.N
		}
		for _, within := range n.graphsWithin() {
			within.tallyLaunch(into)
		}
	}
}

// Results of instantiating, in the driver's numbers.
const (
	instantiated         = 0
	instantiateError     = 1
	instantiateStructure = 2
	instantiateOperation = 3
	instantiateContexts  = 4
	instantiateUnused    = 5
)

// flags of instantiating.
const (
	flagsKnown   = 0xf
	deviceLaunch = 4
)

// GraphInstantiate implements dispatch.Backend, as all below.
func (p *ExecCalls) GraphInstantiate(c *dispatch.Call, h dispatch.Graph, params dispatch.Instantiate, _ uint32) (exec dispatch.Graphexec, out dispatch.Instantiate, log string, r dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	out = params
	out.ErrorNode = 0
	fail := func(result int32, r dispatch.Result) (dispatch.Graphexec, dispatch.Instantiate, string, dispatch.Result) {
		out.Result = result
		return 0, out, log, r
	}
	g, r := p.findGraph(h)
	switch {
	case r != 0:
		return fail(instantiateError, r)
	case params.Flags&^flagsKnown != 0 || g.within:
		return fail(instantiateError, dispatch.ResultInvalidValue)
	case params.Flags&deviceLaunch != 0:
		return fail(instantiateOperation, dispatch.ResultNotSupported)
	}
	if result, why := p.checkConditions(g); why != "" {
		log = why
		return fail(result, dispatch.ResultNotSupported)
	}
	contexts := map[*driver.Context]bool{}
	g.collectContexts(contexts)
	if len(contexts) > 1 {
		log = "nodes of several contexts"
		return fail(instantiateContexts, dispatch.ResultNotSupported)
	}
	var x *driver.Context
	for x = range contexts {
	}
	if x == nil {
		if x, r = p.Current(c); r != 0 {
			return fail(instantiateError, r)
		}
	}
	if x.Gone.Load() {
		return fail(instantiateError, dispatch.ResultContextIsDestroyed)
	}
	if g.hasMemory() && p.isInstantiated(g) {
		return fail(instantiateError, dispatch.ResultNotSupported)
	}
	e := &graphExec{context: x, flags: params.Flags, ids: map[dispatch.Node]backend.NodeID{}}
	whole, err := g.wholeGraph()
	if err == nil {
		e.b, err = x.Backend.Instantiate(whole)
	}
	if err != nil {
		log = err.Error()
		out.ErrorNode = findRefused(x, g)
		return fail(instantiateStructure, p.Result(err))
	}
	if exec, r = p.enterExec(e, g); r != 0 {
		_ = e.b.Destroy() // e.b is unused
		return fail(instantiateError, r)
	}
	out.Result = instantiated
	return exec, out, "", 0
}

// enterExec gives an executable graph its copy of the graph, and a handle.
func (p *ExecCalls) enterExec(e *graphExec, g *graph) (dispatch.Graphexec, dispatch.Result) {
	own, r := p.copyGraph(g, false)
	if r != 0 {
		return 0, r
	}
	e.graph = own
	for id, n := range g.nodes {
		e.ids[n.handle] = id
	}
	h, r := p.execs.Make(e)
	if r != 0 {
		p.endGraph(own)
	}
	return h, r
}

// isInstantiated tells whether there is an executable graph of g: with nodes that allocate there may be only one.
func (p *ExecCalls) isInstantiated(g *graph) bool {
	for _, e := range p.execs.Values() {
		if e.graph.original == g {
			return true
		}
	}
	return false
}

// findRefused finds the node for which a graph is refused.
func findRefused(x *driver.Context, g *graph) dispatch.Node {
	for _, id := range g.data.Nodes() {
		var alone backend.Graph
		does, err := g.data.Node(id)
		if err == nil {
			_, err = alone.Add(does)
		}
		if err == nil {
			var b backend.Exec
			if b, err = x.Backend.Instantiate(&alone); err == nil {
				_ = b.Destroy() // b is unused
			}
		}
		if err != nil {
			return g.nodes[id].handle
		}
	}
	return 0
}

func (p *ExecCalls) GraphCounts(_ *dispatch.Call, h dispatch.Graphexec, n uint32) ([]dispatch.Ncclcount, uint32, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, r := p.findExec(h)
	if r != 0 {
		return nil, 0, r
	}
	all := map[uint64]uint32{}
	e.graph.tallyLaunch(all)
	if uint64(len(all)) > uint64(n) {
		return nil, 0, dispatch.ResultInvalidValue
	}
	out := make([]dispatch.Ncclcount, 0, len(all))
	for key, n := range all {
		out = append(out, dispatch.Ncclcount{Key: key, N: n})
	}
	return out, uint32(len(out)), 0
}

func (p *ExecCalls) GraphExecGetFlags(_ *dispatch.Call, h dispatch.Graphexec) (uint64, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, r := p.findExec(h)
	if r != 0 {
		return 0, r
	}
	return e.flags, 0
}

func (p *ExecCalls) GraphExecDestroy(_ *dispatch.Call, h dispatch.Graphexec) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, ok := p.execs.Drop(h)
	if !ok {
		return dispatch.ResultInvalidHandle
	}
	p.endGraph(e.graph)
	return p.Result(e.b.Destroy())
}

// GraphUpload has no work to do: an instantiated graph is where it runs.
func (p *ExecCalls) GraphUpload(c *dispatch.Call, h dispatch.Graphexec, stream dispatch.Stream) dispatch.Result {
	if _, r := p.Stream(c, stream); r != 0 {
		return r
	}
	p.lockGraphs()
	defer p.unlockGraphs()
	_, r := p.findExec(h)
	return r
}

func (p *ExecCalls) GraphLaunch(c *dispatch.Call, h dispatch.Graphexec, stream dispatch.Stream) dispatch.Result {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	p.lockGraphs()
	e, r := p.findExec(h)
	if r == 0 && st.Context != e.context && e.graph.isWithoutWork() {
		p.unlockGraphs()
		return 0
	}
	if r == 0 {
		r = p.markAllocated(e)
	}
	var afters []func()
	if r == 0 {
		if q := driver.QueuedBy(c); q != nil && e.graph.hasEffects() {
			q.Unrepeatable()
		}
		p.markFreed(e)
		afters = e.graph.issueCollectives(nil)
	}
	p.unlockGraphs()
	if r != 0 {
		return r
	}
	err := st.Backend.Graph(e.b)
	after := func() {
		for _, f := range afters {
			f()
		}
	}
	if len(afters) > 0 && (err != nil || st.Backend.Host(after) != nil) {
		after()
	}
	return p.Result(err)
}

// issueCollectives gives the graph's collectives to their communicators, in the order in which they were captured.
// issueCollectives returns the functions that are to be called when the launch is over. The caller holds the lock.
func (g *graph) issueCollectives(afters []func()) []func() {
	for _, id := range g.data.Nodes() {
		switch n := g.nodes[id]; {
		case n.child != nil:
			afters = n.child.issueCollectives(afters)
		case n.collective != nil:
			afters = append(afters, n.collective())
		}
	}
	return afters
}

// addLaunch makes a captured launch a graph in a graph.
func (p *Graphs) addLaunch(h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, exec dispatch.Graphexec) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, r := p.findExec(exec)
	if r != 0 {
		return r
	}
	return p.addChild(h, in, deps, e.graph)
}

// Results of updating, in the driver's numbers.
const (
	updateError      = 1
	UpdateTopology   = 2
	UpdateType       = 3
	updateParameters = 5
	updateUnsupport  = 6
)

func (p *ExecCalls) GraphUpdate(_ *dispatch.Call, h dispatch.Graphexec, with dispatch.Graph) (info dispatch.Execupdate, r dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, r := p.findExec(h)
	if r != 0 {
		return dispatch.Execupdate{Result: updateError}, r
	}
	g, r := p.findGraph(with)
	if r != 0 {
		return dispatch.Execupdate{Result: updateError}, r
	}
	if info.Result, info.ErrorNode = e.differsFrom(g); info.Result != 0 {
		return info, dispatch.ResultGraphExecUpdateFailure
	}
	whole, err := g.wholeGraph()
	if err != nil {
		return dispatch.Execupdate{Result: updateError}, p.Result(err)
	}
	if id, err := e.b.Update(whole); err != nil {
		info.Result = updateParameters
		if backend.ResultOf(err) == backend.GraphExecUpdateFailure {
			info.Result = UpdateTopology
		}
		if n := g.nodes[id]; n != nil {
			info.ErrorNode = n.handle
		}
		return info, dispatch.ResultGraphExecUpdateFailure
	}
	return info, e.adoptWork(p.Graphs, g)
}

// differsFrom compares how many nodes there are, their types, in their order, and memory, which belongs to a single graph.
func (e *graphExec) differsFrom(g *graph) (result int32, at dispatch.Node) {
	mine, theirs := e.graph.data.Nodes(), g.data.Nodes()
	switch {
	case len(theirs) > len(mine):
		return UpdateTopology, g.nodes[theirs[len(mine)]].handle
	case len(theirs) < len(mine):
		return UpdateTopology, 0
	}
	for i, id := range theirs {
		a, b := e.graph.nodes[mine[i]], g.nodes[id]
		switch {
		case a.kind != b.kind:
			return UpdateType, b.handle
		case a.memory != b.memory || a.frees != b.frees || a.kind == conditionNode:
			return updateUnsupport, b.handle
		}
	}
	return 0, 0
}

// adoptWork takes over the nodes' work from a graph of the same shape.
func (e *graphExec) adoptWork(p *Graphs, g *graph) dispatch.Result {
	mine := e.graph.data.Nodes()
	for i, id := range g.data.Nodes() {
		does, err := g.data.Node(id)
		if err == nil {
			err = e.graph.data.Set(mine[i], does)
		}
		if err != nil {
			return p.Result(err)
		}
		n := e.graph.nodes[mine[i]]
		old := n.child
		n.graphWork = g.nodes[id].graphWork
		if old == nil {
			continue
		}
		child, r := p.copyWithin(n.child, false)
		n.child = child
		if r != 0 {
			n.child = old
			return r
		}
		p.endGraph(old)
	}
	return 0
}
