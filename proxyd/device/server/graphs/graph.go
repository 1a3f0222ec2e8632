// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"maps"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// findGraph finds a graph: INVALID_VALUE if there is none. The caller holds the lock, as for all functions here that
// are no methods of dispatch.Backend.
func (p *Graphs) findGraph(h dispatch.Graph) (*graph, dispatch.Result) {
	g, ok := p.graphs.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidValue
	}
	return g, 0
}

// graphNode finds a node: INVALID_VALUE if there is none.
func (p *Graphs) graphNode(h dispatch.Node) (*graphNode, dispatch.Result) {
	n, ok := p.nodes.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidValue
	}
	return n, 0
}

// nodeIDs are the numbers of nodes of this graph.
func (p *Graphs) nodeIDs(g *graph, nodes []dispatch.Node) ([]backend.NodeID, dispatch.Result) {
	out := make([]backend.NodeID, len(nodes))
	for i, h := range nodes {
		n, r := p.graphNode(h)
		if r != 0 {
			return nil, r
		}
		if n.in != g {
			return nil, dispatch.ResultInvalidValue
		}
		out[i] = n.id
	}
	return out, 0
}

// nodeHandles are the handles of nodes.
func (g *graph) nodeHandles(ids []backend.NodeID) []dispatch.Node {
	out := make([]dispatch.Node, len(ids))
	for i, id := range ids {
		out[i] = g.nodes[id].handle
	}
	return out
}

// copyGraph copies a graph; named: its nodes, and the graphs in them, get handles.
func (p *Graphs) copyGraph(g *graph, named bool) (*graph, dispatch.Result) {
	c := &graph{original: g, data: *g.data.Clone(), nodes: make(map[backend.NodeID]*graphNode, len(g.nodes))}
	for _, id := range g.data.Nodes() {
		old := g.nodes[id]
		n := &graphNode{original: old.handle, id: id, in: c, graphWork: old.graphWork}
		n.attributes = maps.Clone(old.attributes)
		n.child, n.bodies = nil, nil
		c.nodes[id] = n
		var r dispatch.Result
		if old.child != nil {
			if n.child, r = p.copyWithin(old.child, named); r != 0 {
				p.endGraph(c)
				return nil, r
			}
		}
		for _, body := range old.bodies {
			b, r := p.copyWithin(body, named)
			if r != 0 {
				p.endGraph(c)
				return nil, r
			}
			n.bodies = append(n.bodies, b)
		}
		p.useMemory(n.memory)
		if !named {
			continue
		}
		if n.handle, r = p.nodes.Make(n); r != 0 {
			p.endGraph(c)
			return nil, r
		}
	}
	return c, 0
}

// copyWithin copies a graph that goes into a node.
func (p *Graphs) copyWithin(g *graph, named bool) (*graph, dispatch.Result) {
	c, r := p.copyGraph(g, named)
	if r != 0 {
		return nil, r
	}
	c.within = true
	if named {
		if c.handle, r = p.graphs.Make(c); r != 0 {
			p.endGraph(c)
			return nil, r
		}
	}
	return c, 0
}

// endGraph forgets a graph and its contents.
func (p *Graphs) endGraph(g *graph) {
	for _, n := range g.nodes {
		p.endNode(n)
	}
	if g.handle != 0 {
		p.graphs.Drop(g.handle)
		p.conditions.DropIf(func(c *condition) bool { return c.of == g })
	}
}

// graphsWithin are the graphs in a node.
func (n *graphNode) graphsWithin() []*graph {
	if n.child != nil {
		return []*graph{n.child}
	}
	return n.bodies
}

// endNode forgets a node; the graph still has the node.
func (p *Graphs) endNode(n *graphNode) {
	for _, within := range n.graphsWithin() {
		p.endGraph(within)
	}
	p.unuseMemory(n.memory)
	if n.handle != 0 {
		p.nodes.Drop(n.handle)
	}
}

// wholeGraph is the graph for the backend to run: with the graphs in nodes as they are now.
func (g *graph) wholeGraph() (*backend.Graph, error) {
	out := g.data.Clone()
	for id, n := range g.nodes {
		var whole []*backend.Graph
		for _, within := range n.graphsWithin() {
			w, err := within.wholeGraph()
			if err != nil {
				return nil, err
			}
			whole = append(whole, w)
		}
		var does backend.Node
		switch {
		case n.child != nil:
			does = backend.ChildNode{Graph: whole[0]}
		case n.condition != nil:
			does = n.condition.nodeWith(whole)
		default:
			continue
		}
		if err := out.Set(id, does); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// GraphCreate implements dispatch.Backend, as all below.
func (p *Calls) GraphCreate(_ *dispatch.Call, h dispatch.Graph, flags uint32) dispatch.Result {
	if flags != 0 {
		return dispatch.ResultInvalidValue
	}
	p.lockGraphs()
	defer p.unlockGraphs()
	return p.graphs.Put(h, &graph{handle: h, nodes: map[backend.NodeID]*graphNode{}})
}

func (p *Calls) GraphDestroy(_ *dispatch.Call, h dispatch.Graph) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(h)
	switch {
	case r != 0:
		return r
	case g.within:
		return dispatch.ResultInvalidValue
	}
	p.endGraph(g)
	return 0
}

func (p *Calls) GraphClone(_ *dispatch.Call, clone, h dispatch.Graph) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(h)
	switch {
	case r != 0:
		return r
	case g.hasMemory() || g.hasConditions():
		return dispatch.ResultNotSupported
	}
	c, r := p.copyGraph(g, true)
	if r != 0 {
		return r
	}
	if r = p.graphs.Put(clone, c); r != 0 {
		p.endGraph(c)
		return r
	}
	c.handle = clone
	return 0
}

func (p *Calls) GraphNodeFindInClone(_ *dispatch.Call, original dispatch.Node, clone dispatch.Graph) (dispatch.Node, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(clone)
	if r != 0 || g.original == nil || original == 0 {
		return 0, dispatch.ResultInvalidValue
	}
	for _, n := range g.nodes {
		if n.original == original {
			return n.handle, 0
		}
	}
	return 0, dispatch.ResultInvalidValue
}

// listUpTo follows CUDA's convention for lists: the length alone unless the list is wanted, else up to n items and NULL
// behind.
func listUpTo[T any](all []T, wanted bool, n uint64) ([]T, uint64) {
	const most = 1 << 16
	if !wanted {
		return nil, uint64(len(all))
	}
	got := min(uint64(len(all)), n)
	if n <= most {
		all = append(slices.Clone(all[:got]), make([]T, n-got)...)
		return all, got
	}
	return all[:got], got
}

func (p *Calls) GraphGetNodes(_ *dispatch.Call, h dispatch.Graph, wanted bool, n uint64) ([]dispatch.Node, uint64, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(h)
	if r != 0 {
		return nil, 0, r
	}
	nodes, got := listUpTo(g.nodeHandles(g.data.Nodes()), wanted, n)
	return nodes, got, 0
}

func (p *Calls) GraphGetRootNodes(_ *dispatch.Call, h dispatch.Graph, wanted bool, n uint64) ([]dispatch.Node, uint64, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(h)
	if r != 0 {
		return nil, 0, r
	}
	depends := map[backend.NodeID]bool{}
	for _, e := range g.data.Edges() {
		depends[e.To] = true
	}
	roots := slices.DeleteFunc(g.data.Nodes(), func(id backend.NodeID) bool { return depends[id] })
	nodes, got := listUpTo(g.nodeHandles(roots), wanted, n)
	return nodes, got, 0
}

func (p *Calls) GraphGetEdges(c *dispatch.Call, h dispatch.Graph, wantFrom, wantTo bool, n uint64) (from, to []dispatch.Node, got uint64, r dispatch.Result) {
	from, to, _, got, r = p.GraphGetEdgesV2(c, h, wantFrom, wantTo, false, n)
	return from, to, got, r
}

func (p *Calls) GraphGetEdgesV2(_ *dispatch.Call, h dispatch.Graph, wantFrom, wantTo, _ bool, n uint64) (from, to []dispatch.Node, edges []dispatch.Edge, got uint64, r dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(h)
	if r != 0 {
		return nil, nil, nil, 0, r
	}
	if wantFrom != wantTo {
		return nil, nil, nil, 0, dispatch.ResultInvalidValue
	}
	for _, e := range g.data.Edges() {
		from = append(from, g.nodes[e.From].handle)
		to = append(to, g.nodes[e.To].handle)
	}
	from, _ = listUpTo(from, wantFrom, n)
	to, got = listUpTo(to, wantTo, n)
	return from, to, make([]dispatch.Edge, len(to)), got, 0
}

func (p *Calls) GraphNodeGetDependencies(c *dispatch.Call, node dispatch.Node, wanted bool, n uint64) ([]dispatch.Node, uint64, dispatch.Result) {
	deps, _, got, r := p.GraphNodeGetDependenciesV2(c, node, wanted, false, n)
	return deps, got, r
}

func (p *Calls) GraphNodeGetDependenciesV2(_ *dispatch.Call, h dispatch.Node, wanted, _ bool, n uint64) ([]dispatch.Node, []dispatch.Edge, uint64, dispatch.Result) {
	return p.listNeighbours(h, wanted, n, func(g *graph, id backend.NodeID) []backend.NodeID {
		deps, _ := g.data.Deps(id)
		return deps
	})
}

func (p *Calls) GraphNodeGetDependentNodes(c *dispatch.Call, node dispatch.Node, wanted bool, n uint64) ([]dispatch.Node, uint64, dispatch.Result) {
	deps, _, got, r := p.GraphNodeGetDependentNodesV2(c, node, wanted, false, n)
	return deps, got, r
}

func (p *Calls) GraphNodeGetDependentNodesV2(_ *dispatch.Call, h dispatch.Node, wanted, _ bool, n uint64) ([]dispatch.Node, []dispatch.Edge, uint64, dispatch.Result) {
	return p.listNeighbours(h, wanted, n, func(g *graph, id backend.NodeID) []backend.NodeID {
		var out []backend.NodeID
		for _, e := range g.data.Edges() {
			if e.From == id {
				out = append(out, e.To)
			}
		}
		return out
	})
}

// listNeighbours hands out the nodes beside a node. listNeighbours takes the lock.
func (p *Graphs) listNeighbours(h dispatch.Node, wanted bool, n uint64, of func(*graph, backend.NodeID) []backend.NodeID) ([]dispatch.Node, []dispatch.Edge, uint64, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	node, r := p.graphNode(h)
	if r != 0 {
		return nil, nil, 0, r
	}
	nodes, got := listUpTo(node.in.nodeHandles(of(node.in, node.id)), wanted, n)
	return nodes, make([]dispatch.Edge, len(nodes)), got, 0
}

func (p *Calls) GraphAddDependencies(c *dispatch.Call, h dispatch.Graph, from, to []dispatch.Node, n uint64) dispatch.Result {
	return p.GraphAddDependenciesV2(c, h, from, to, nil, n)
}

func (p *Calls) GraphAddDependenciesV2(_ *dispatch.Call, h dispatch.Graph, from, to []dispatch.Node, edges []dispatch.Edge, _ uint64) dispatch.Result {
	return p.connectNodes(h, from, to, edges, (*backend.Graph).Connect)
}

func (p *Calls) GraphRemoveDependencies(c *dispatch.Call, h dispatch.Graph, from, to []dispatch.Node, n uint64) dispatch.Result {
	return p.GraphRemoveDependenciesV2(c, h, from, to, nil, n)
}

func (p *Calls) GraphRemoveDependenciesV2(_ *dispatch.Call, h dispatch.Graph, from, to []dispatch.Node, edges []dispatch.Edge, _ uint64) dispatch.Result {
	return p.connectNodes(h, from, to, edges, (*backend.Graph).Disconnect)
}

// connectNodes changes dependencies. connectNodes takes the lock.
func (p *Graphs) connectNodes(h dispatch.Graph, from, to []dispatch.Node, kinds []dispatch.Edge, change func(*backend.Graph, ...backend.Edge) error) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(h)
	if r != 0 {
		return r
	}
	if len(from) != len(to) {
		return dispatch.ResultInvalidValue
	}
	for _, e := range kinds {
		if e != (dispatch.Edge{}) {
			return dispatch.ResultNotSupported // programmatic launches need compute capability 9.0
		}
	}
	a, r := p.nodeIDs(g, from)
	if r != 0 {
		return r
	}
	b, r := p.nodeIDs(g, to)
	if r != 0 {
		return r
	}
	edges := make([]backend.Edge, len(a))
	for i := range a {
		edges[i] = backend.Edge{From: a[i], To: b[i]}
	}
	return p.Result(change(&g.data, edges...))
}

func (p *Calls) GraphDestroyNode(_ *dispatch.Call, h dispatch.Node) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.graphNode(h)
	switch {
	case r != 0:
		return r
	case n.kind == allocNode || n.kind == freeNode:
		return dispatch.ResultNotSupported
	}
	p.endNode(n)
	if n.condition != nil {
		n.condition.used = false
	}
	delete(n.in.nodes, n.id)
	return p.Result(n.in.data.Remove(n.id))
}
