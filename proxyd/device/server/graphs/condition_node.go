// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// condition is a value that kernels set, by which a node of a graph chooses the graph within itself that runs.
type condition struct {
	handle  dispatch.Condition
	of      *graph
	context *driver.Context
	assign  bool // whether there is an initial value
	initial uint32
	kind    backend.ConditionKind // of the node
	used    bool                  // there is a node
}

// nodeWith is the backend's node of the condition.
func (c *condition) nodeWith(bodies []*backend.Graph) backend.ConditionalNode {
	return backend.ConditionalNode{Condition: uint64(c.handle), Assign: c.assign, Initial: c.initial, Kind: c.kind, Bodies: bodies}
}

// GraphCondition implements dispatch.Backend, as all below.
func (p *NodeCalls) GraphCondition(_ *dispatch.Call, h dispatch.Condition, in dispatch.Graph, ctx dispatch.Context, value, flags uint32) dispatch.Result {
	const assignDefault = 1
	x, r := p.Context(ctx)
	if r != 0 {
		return r
	}
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(in)
	switch {
	case r != 0:
		return r
	case flags&^assignDefault != 0:
		return dispatch.ResultInvalidValue
	case !x.SetsConditions():
		return dispatch.ResultNotSupported
	}
	return p.conditions.Put(h, &condition{handle: h, of: g, context: x, assign: flags&assignDefault != 0, initial: value})
}

// GraphAddConditional adds a node with so many graphs, empty yet. A condition has a single node.
func (p *NodeCalls) GraphAddConditional(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, of dispatch.Condition, ctx dispatch.Context, kind int32, size uint32) dispatch.Result {
	const most = 1 << 10
	p.lockGraphs()
	defer p.unlockGraphs()
	c, ok := p.conditions.Get(of)
	k := backend.ConditionKind(kind)
	switch {
	case !ok || c.used || c.of.handle != in || ctx != 0 && ctx != c.context.Handle:
		return dispatch.ResultInvalidValue
	case k < backend.ConditionIf || k > backend.ConditionSwitch || size == 0 || size > most:
		return dispatch.ResultInvalidValue
	case k == backend.ConditionIf && size > 2 || k == backend.ConditionWhile && size > 1:
		return dispatch.ResultInvalidValue
	}
	work := graphWork{kind: conditionNode, context: c.context, condition: c}
	empty := make([]*backend.Graph, size)
	for i := range empty {
		empty[i] = &backend.Graph{}
		work.bodies = append(work.bodies, &graph{within: true, nodes: map[backend.NodeID]*graphNode{}})
	}
	c.kind = k
	if r := p.addNode(h, in, deps, c.nodeWith(empty), work); r != 0 {
		return r
	}
	c.used = true
	return 0
}

// GraphBody gives a graph within a conditional node its handle.
func (p *NodeCalls) GraphBody(_ *dispatch.Call, body dispatch.Graph, h dispatch.Node, index uint32) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, conditionNode)
	switch {
	case r != 0:
		return r
	case uint64(index) >= uint64(len(n.bodies)) || n.bodies[index].handle != 0:
		return dispatch.ResultInvalidValue
	}
	if r := p.graphs.Put(body, n.bodies[index]); r != 0 {
		return r
	}
	n.bodies[index].handle = body
	return 0
}

// hasConditions tells whether there are conditional nodes: such graphs cannot be copied.
func (g *graph) hasConditions() bool {
	for _, n := range g.nodes {
		if n.kind == conditionNode || slices.ContainsFunc(n.graphsWithin(), (*graph).hasConditions) {
			return true
		}
	}
	return false
}

// checkConditions says why a graph with conditions cannot be instantiated, or "".
func (p *Graphs) checkConditions(g *graph) (result int32, why string) {
	for _, c := range p.conditions.Values() {
		if c.of == g && !c.used {
			return instantiateUnused, "a conditional handle has no node"
		}
	}
	for _, n := range g.nodes {
		for _, body := range n.bodies {
			if why := body.checkBody(); why != "" {
				return instantiateOperation, why
			}
			if result, why := p.checkConditions(body); why != "" {
				return result, why
			}
		}
	}
	return 0, ""
}

// checkBody says which node a conditional node may not run, or "".
func (g *graph) checkBody() string {
	for _, n := range g.nodes {
		switch n.kind {
		case KernelNode, MemcpyNode, MemsetNode, emptyNode, conditionNode, childNode:
		default:
			return "a graph within a conditional node has a node of type " + kindNames[n.kind]
		}
		if n.collective != nil {
			return "a graph within a conditional node has a collective"
		}
		if n.child != nil {
			if why := n.child.checkBody(); why != "" {
				return why
			}
		}
	}
	return ""
}
