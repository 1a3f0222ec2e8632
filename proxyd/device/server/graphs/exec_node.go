// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// findNode finds a node of an executable graph: else INVALID_VALUE. The caller holds the lock.
func (e *graphExec) findNode(h dispatch.Node) (*graphNode, dispatch.Result) {
	id, ok := e.ids[h]
	if !ok {
		return nil, dispatch.ResultInvalidValue
	}
	return e.graph.nodes[id], 0
}

// setExec gives a node of an executable graph other work of the same type. setExec takes the lock.
func (p *Graphs) setExec(exec dispatch.Graphexec, h dispatch.Node, does backend.Node, work graphWork) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, r := p.findExec(exec)
	if r != 0 {
		return r
	}
	n, r := e.findNode(h)
	switch {
	case r != 0:
		return r
	case n.kind != work.kind:
		return dispatch.ResultInvalidValue
	}
	if err := e.b.Set(n.id, does); err != nil {
		return p.Result(err)
	}
	work.attributes, work.counts, work.child = n.attributes, n.counts, n.child
	n.graphWork = work
	if n.kind == childNode {
		return 0
	}
	return p.Result(e.graph.data.Set(n.id, does))
}

// setExecTo is setExec with the work of a call, which is recorded.
func (p *Graphs) setExecTo(c *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, ctx dispatch.Context, call func(*dispatch.Call) dispatch.Result) dispatch.Result {
	if ctx == 0 {
		ctx = p.contextOf(h)
	}
	rec, r := p.recordCall(c, ctx, call)
	if r != 0 {
		return r
	}
	does, err := rec.recordedNode()
	if err != nil {
		return p.Result(err)
	}
	return p.setExec(exec, h, does, rec.graphWork)
}

// GraphNodeSetEnabled implements dispatch.Backend, as all below.
func (p *ExecCalls) GraphNodeSetEnabled(_ *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, on uint32) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, r := p.findExec(exec)
	if r != 0 {
		return r
	}
	n, r := e.findNode(h)
	if r != 0 {
		return r
	}
	return p.Result(e.b.Enable(n.id, on != 0))
}

func (p *ExecCalls) GraphNodeGetEnabled(_ *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node) (uint32, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, r := p.findExec(exec)
	if r != 0 {
		return 0, r
	}
	n, r := e.findNode(h)
	if r != 0 {
		return 0, r
	}
	on, err := e.b.Enabled(n.id)
	if err != nil || !on {
		return 0, p.Result(err)
	}
	return 1, 0
}

func (p *ExecCalls) GraphExecKernel(c *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, function dispatch.Function, kernel dispatch.Kernel, ctx dispatch.Context, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, params []uint8, _ uint32) dispatch.Result {
	call := p.launchCall(function, backend.Dim{X: gridX, Y: gridY, Z: gridZ}, backend.Dim{X: blockX, Y: blockY, Z: blockZ}, shared, params, p.attributesOf(h))
	rec, r := p.recordCall(c, ctx, call)
	if r != 0 {
		return r
	}
	does, err := rec.recordedNode()
	if err != nil {
		return p.Result(err)
	}
	rec.function, rec.kernel = function, kernel
	return p.setExec(exec, h, does, rec.graphWork)
}

func (p *ExecCalls) GraphExecMemcpyNodeSetParams(c *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, what dispatch.Memcpy3d, ctx dispatch.Context) dispatch.Result {
	return p.setExecTo(c, exec, h, ctx, p.copyCall(what))
}

func (p *ExecCalls) GraphExecMemsetNodeSetParams(c *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, what dispatch.Memset, ctx dispatch.Context) dispatch.Result {
	return p.setExecTo(c, exec, h, ctx, p.fillCall(what))
}

func (p *ExecCalls) GraphExecHost(_ *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, ticket uint64) dispatch.Result {
	return p.setExec(exec, h, p.hostNode(ticket), graphWork{kind: HostNode, ticket: ticket})
}

// GraphExecChild gives the node a graph of the same shape.
func (p *ExecCalls) GraphExecChild(_ *dispatch.Call, exec dispatch.Graphexec, h dispatch.Node, child dispatch.Graph) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	e, r := p.findExec(exec)
	if r != 0 {
		return r
	}
	n, r := e.findNode(h)
	if r != 0 {
		return r
	}
	g, r := p.findGraph(child)
	if r != 0 {
		return r
	}
	if n.kind != childNode || g.hasMemory() || g.hasConditions() {
		return dispatch.ResultInvalidValue
	}
	now, err := n.child.wholeGraph()
	if err != nil {
		return p.Result(err)
	}
	next, err := g.wholeGraph()
	if err != nil {
		return p.Result(err)
	}
	if _, err := next.SameShape(now); err != nil {
		return dispatch.ResultInvalidValue
	}
	within, r := p.copyWithin(g, false)
	if r != 0 {
		return r
	}
	if err := e.b.Set(n.id, backend.ChildNode{Graph: next}); err != nil {
		p.endGraph(within)
		return p.Result(err)
	}
	p.endGraph(n.child)
	n.child = within
	return 0
}
