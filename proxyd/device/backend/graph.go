// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"slices"
)

// NodeID names a node within its graph, and within the executable graph made from that. Numbers are never used again.
type NodeID uint32

// Node is the action of a node of a graph: a KernelNode, CopyNode, FillNode, HostNode, EmptyNode, RecordNode,
// WaitNode, ChildNode, ConditionalNode and ExchangeNode. They act like the stream's methods of the same name.
type Node interface{ nodeKind() string }

// The kinds of nodes.
type (
	// KernelNode launches a kernel.
	KernelNode struct{ Launch Launch }
	// CopyNode copies.
	CopyNode struct{ Copy Copy }
	// FillNode sets memory.
	FillNode struct{ Fill Fill }
	// HostNode calls a function.
	HostNode struct{ Func func() }
	// EmptyNode has no action; other nodes can depend on it.
	EmptyNode struct{}
	// RecordNode records an event.
	RecordNode struct{ Event Event }
	// WaitNode waits for the work that an event stands for when the graph is launched.
	WaitNode struct{ Event Event }
	// ChildNode runs a graph. Add and Set copy the graph.
	ChildNode struct{ Graph *Graph }
	// ConditionalNode runs at most one of its graphs, chosen by the value of a condition, which kernels of the
	// executable graph set. The value is 0 when a launch begins. Add and Set copy the graphs. Only contexts that are
	// ConditionSetters have such nodes.
	ConditionalNode struct {
		Condition uint64 // by which kernels name the condition
		Assign    bool   // the value is set to Initial whenever a run begins of the graph that has the node
		Initial   uint32
		Kind      ConditionKind
		Bodies    []*Graph
	}
	// ExchangeNode is a collective. Lend, if not nil, is called instead of Begin, where streams are Lenders.
	ExchangeNode struct {
		Buffers []Buffer
		Begin   func(bytes [][]byte, done func(error))
		Lend    func(spans []Span, done func(error))
	}
)

func (KernelNode) nodeKind() string   { return "kernel" }
func (CopyNode) nodeKind() string     { return "copy" }
func (FillNode) nodeKind() string     { return "fill" }
func (HostNode) nodeKind() string     { return "host" }
func (EmptyNode) nodeKind() string    { return "empty" }
func (RecordNode) nodeKind() string   { return "record" }
func (WaitNode) nodeKind() string     { return "wait" }
func (ChildNode) nodeKind() string    { return "child" }
func (ExchangeNode) nodeKind() string { return "exchange" }

func (ConditionalNode) nodeKind() string { return "conditional" }

// ConditionKind says which graph of a ConditionalNode runs, in the driver's numbers.
type ConditionKind int32

// The kinds of conditions.
const (
	ConditionIf     ConditionKind = iota // the first if the value is not 0, else the second, if there is any
	ConditionWhile                       // the first, again and again while the value is not 0
	ConditionSwitch                      // the body with the number that the value is, if there is any
)

// Choose returns the number of the graph that is to run, of n graphs, or false if no graph is to run.
func (k ConditionKind) Choose(value uint32, n int) (int, bool) {
	switch {
	case k == ConditionSwitch:
		return int(value), uint64(value) < uint64(n)
	case value != 0:
		return 0, true
	}
	return 1, k == ConditionIf && n > 1
}

// ConditionSetter is a Context with kernels that can set conditions.
type ConditionSetter interface {
	SetsConditions() bool
}

// Edge is a dependency: To begins when From is done.
type Edge struct{ From, To NodeID }

// Graph is a set of nodes with dependencies: plain data, of no context. The zero value is empty. Unlike all else here
// a Graph is not safe for concurrent use.
type Graph struct {
	nodes []graphNode // ascending by id
	next  NodeID
}

type graphNode struct {
	id   NodeID
	node Node
	deps []NodeID
}

func (g *Graph) findNode(id NodeID) (int, error) {
	i, ok := slices.BinarySearchFunc(g.nodes, id, func(n graphNode, id NodeID) int { return int(n.id) - int(id) })
	if !ok {
		return 0, fmt.Errorf("graph: node %d: %w", id, InvalidValue)
	}
	return i, nil
}

// Add adds a node that depends on other nodes of the graph.
func (g *Graph) Add(n Node, deps ...NodeID) (NodeID, error) {
	for i, d := range deps {
		if _, err := g.findNode(d); err != nil {
			return 0, err
		}
		if slices.Contains(deps[:i], d) {
			return 0, fmt.Errorf("graph: node %d twice: %w", d, InvalidValue)
		}
	}
	n, err := copyChild(n)
	if err != nil {
		return 0, err
	}
	g.next++
	g.nodes = append(g.nodes, graphNode{g.next, n, slices.Clone(deps)})
	return g.next, nil
}

// copyChild copies the graphs within a node, so that no graph can come to hold itself.
func copyChild(n Node) (Node, error) {
	switch c := n.(type) {
	case nil:
		return nil, fmt.Errorf("graph: no node: %w", InvalidValue)
	case ChildNode:
		if c.Graph == nil {
			return nil, fmt.Errorf("graph: no node: %w", InvalidValue)
		}
		return ChildNode{c.Graph.Clone()}, nil
	case ConditionalNode:
		bodies := make([]*Graph, len(c.Bodies))
		for i, b := range c.Bodies {
			bodies[i] = b.Clone()
		}
		c.Bodies = bodies
		return c, nil
	}
	return n, nil
}

// Node returns the action of a node.
func (g *Graph) Node(id NodeID) (Node, error) {
	i, err := g.findNode(id)
	if err != nil {
		return nil, err
	}
	return g.nodes[i].node, nil
}

// Set changes the action of a node, not its kind.
func (g *Graph) Set(id NodeID, n Node) error {
	i, err := g.findNode(id)
	if err != nil {
		return err
	}
	if n, err = copyChild(n); err != nil {
		return err
	}
	if g.nodes[i].node.nodeKind() != n.nodeKind() {
		return fmt.Errorf("graph: node %d is of kind %s: %w", id, g.nodes[i].node.nodeKind(), InvalidValue)
	}
	g.nodes[i].node = n
	return nil
}

// Remove removes a node with its dependencies.
func (g *Graph) Remove(id NodeID) error {
	i, err := g.findNode(id)
	if err != nil {
		return err
	}
	g.nodes = slices.Delete(g.nodes, i, i+1)
	for k := range g.nodes {
		g.nodes[k].deps = slices.DeleteFunc(g.nodes[k].deps, func(d NodeID) bool { return d == id })
	}
	return nil
}

// Nodes lists all nodes in the order in which they were added.
func (g *Graph) Nodes() []NodeID {
	out := make([]NodeID, len(g.nodes))
	for i, n := range g.nodes {
		out[i] = n.id
	}
	return out
}

// Edges lists all dependencies, by the node that depends.
func (g *Graph) Edges() []Edge {
	var out []Edge
	for _, n := range g.nodes {
		for _, d := range n.deps {
			out = append(out, Edge{d, n.id})
		}
	}
	return out
}

// Connect adds dependencies. If an edge is there already, is of a node on itself, or closes a circle,
// Connect adds no edge and returns InvalidValue.
func (g *Graph) Connect(edges ...Edge) error {
	old := g.Clone()
	for _, e := range edges {
		_, err := g.findNode(e.From)
		to, err2 := g.findNode(e.To)
		if err != nil || err2 != nil || slices.Contains(g.nodes[to].deps, e.From) || e.From == e.To {
			g.nodes = old.nodes
			return fmt.Errorf("graph: dependency of %d on %d: %w", e.To, e.From, InvalidValue)
		}
		g.nodes[to].deps = append(g.nodes[to].deps, e.From)
	}
	if _, err := g.Order(); err != nil {
		g.nodes = old.nodes
		return err
	}
	return nil
}

// Disconnect removes dependencies. If one of them is not there, Disconnect removes no edge and returns InvalidValue.
func (g *Graph) Disconnect(edges ...Edge) error {
	old := g.Clone()
	for _, e := range edges {
		to, err := g.findNode(e.To)
		at := -1
		if err == nil {
			at = slices.Index(g.nodes[to].deps, e.From)
		}
		if at < 0 {
			g.nodes = old.nodes
			return fmt.Errorf("graph: dependency of %d on %d is not there: %w", e.To, e.From, InvalidValue)
		}
		g.nodes[to].deps = slices.Delete(g.nodes[to].deps, at, at+1)
	}
	return nil
}

// Clone copies the graph; nodes keep their numbers.
func (g *Graph) Clone() *Graph {
	c := &Graph{nodes: slices.Clone(g.nodes), next: g.next}
	for i := range c.nodes {
		c.nodes[i].deps = slices.Clone(c.nodes[i].deps)
		c.nodes[i].node, _ = copyChild(c.nodes[i].node) // there is a node
	}
	return c
}

// Order lists the nodes so that each stands behind its dependencies, and else in the order of their numbers.
func (g *Graph) Order() ([]NodeID, error) {
	left := make(map[NodeID]int, len(g.nodes))
	after := make(map[NodeID][]NodeID)
	var ready, out []NodeID
	for _, n := range g.nodes {
		left[n.id] = len(n.deps)
		for _, d := range n.deps {
			after[d] = append(after[d], n.id)
		}
		if len(n.deps) == 0 {
			ready = append(ready, n.id)
		}
	}
	for len(ready) > 0 {
		id := ready[0]
		ready = ready[1:]
		out = append(out, id)
		for _, a := range after[id] {
			if left[a]--; left[a] == 0 {
				i, _ := slices.BinarySearch(ready, a)
				ready = slices.Insert(ready, i, a)
			}
		}
	}
	if len(out) != len(g.nodes) {
		return nil, fmt.Errorf("graph: dependencies in a circle: %w", InvalidValue)
	}
	return out, nil
}

// Deps lists the nodes on which a node depends.
func (g *Graph) Deps(id NodeID) ([]NodeID, error) {
	i, err := g.findNode(id)
	if err != nil {
		return nil, err
	}
	return slices.Clone(g.nodes[i].deps), nil
}

// SameShape compares the nodes of two graphs in their order. If they differ in more than their parameters,
// it returns GraphExecUpdateFailure and the node of g.
func (g *Graph) SameShape(other *Graph) (NodeID, error) {
	for i, n := range g.nodes {
		bad := fmt.Errorf("graph: node %d differs in kind or dependencies: %w", n.id, GraphExecUpdateFailure)
		if i >= len(other.nodes) {
			return n.id, bad
		}
		o := other.nodes[i]
		if n.node.nodeKind() != o.node.nodeKind() || len(n.deps) != len(o.deps) {
			return n.id, bad
		}
		for _, d := range o.deps {
			k, _ := other.findNode(d)
			if k >= len(g.nodes) || !slices.Contains(n.deps, g.nodes[k].id) {
				return n.id, bad
			}
		}
		if c, ok := n.node.(ChildNode); ok {
			if _, err := c.Graph.SameShape(o.node.(ChildNode).Graph); err != nil {
				return n.id, bad
			}
		}
		if c, ok := n.node.(ConditionalNode); ok && !c.isLike(o.node.(ConditionalNode)) {
			return n.id, bad
		}
	}
	if len(g.nodes) != len(other.nodes) {
		return 0, fmt.Errorf("graph: %d nodes, not %d: %w", len(g.nodes), len(other.nodes), GraphExecUpdateFailure)
	}
	return 0, nil
}

// isLike tells whether two nodes have the same condition and graphs of the same shape.
func (n ConditionalNode) isLike(o ConditionalNode) bool {
	if n.Condition != o.Condition || n.Kind != o.Kind || len(n.Bodies) != len(o.Bodies) {
		return false
	}
	for i, b := range n.Bodies {
		if _, err := b.SameShape(o.Bodies[i]); err != nil {
			return false
		}
	}
	return true
}

// Exec is an instantiated graph.
type Exec interface {
	// Update takes over all nodes' parameters from a graph of the same shape. For another graph, Update has no effect
	// and returns GraphExecUpdateFailure with the node of g that is different, or 0.
	Update(g *Graph) (NodeID, error)
	// Set changes a node's parameters. Runs queued before are not changed.
	Set(id NodeID, n Node) error
	// Enable lets a kernel, copy or fill node do its work or be empty.
	Enable(id NodeID, on bool) error
	Enabled(id NodeID) (bool, error)
	// Destroy succeeds also after a fault of the context, and after the context was destroyed. Runs queued before are carried
	// out. A second call returns InvalidHandle.
	Destroy() error
}
