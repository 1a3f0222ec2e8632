// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"bytes"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

var kindNames = map[int32]string{
	KernelNode: "KERNEL", MemcpyNode: "MEMCPY", MemsetNode: "MEMSET", HostNode: "HOST", childNode: "GRAPH", emptyNode: "EMPTY",
	waitNode: "WAIT_EVENT", recordNode: "EVENT_RECORD", allocNode: "MEM_ALLOC", freeNode: "MEM_FREE", BatchNode: "BATCH_MEM_OP", conditionNode: "CONDITIONAL",
}

// GraphDot implements dispatch.Backend: the graph in the language of Graphviz, as much as there is room for, and its
// full length. Flags ask for more or less detail; the text is always the same.
func (p *Calls) GraphDot(_ *dispatch.Call, h dispatch.Graph, _ uint32, n uint64) (dot []uint8, length uint64, r dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(h)
	if r != 0 {
		return nil, 0, r
	}
	var w bytes.Buffer
	w.WriteString("digraph dot {\n")
	g.writeDot(&w, "graph_1")
	w.WriteString("}\n")
	return w.Bytes()[:min(uint64(w.Len()), n)], uint64(w.Len()), 0
}

func (g *graph) writeDot(w *bytes.Buffer, name string) {
	fmt.Fprintf(w, "subgraph cluster_%s {\nlabel=%q\n", name, name)
	node := func(id backend.NodeID) string { return fmt.Sprintf("%q", fmt.Sprintf("%s_node_%d", name, id)) }
	for _, id := range g.data.Nodes() {
		n := g.nodes[id]
		fmt.Fprintf(w, "%s [label=%q]\n", node(id), fmt.Sprintf("%d\n%s%s", id, kindNames[n.kind], n.describeWork()))
		for i, within := range n.graphsWithin() {
			inner := fmt.Sprintf("%s_%d", name, id)
			if i > 0 {
				inner = fmt.Sprintf("%s_%d", inner, i)
			}
			within.writeDot(w, inner)
		}
	}
	for _, e := range g.data.Edges() {
		fmt.Fprintf(w, "%s -> %s\n", node(e.From), node(e.To))
	}
	w.WriteString("}\n")
}

// describeWork describes the node's kernel launch, copy or fill; "" for other nodes.
func (n *graphNode) describeWork() string {
	does, err := n.in.data.Node(n.id)
	if err != nil {
		return ""
	}
	switch d := does.(type) {
	case backend.KernelNode:
		l := &d.Launch
		return fmt.Sprintf("\n%s\n<<<(%d,%d,%d),(%d,%d,%d),%d>>>", l.Function.Name(), l.Grid.X, l.Grid.Y, l.Grid.Z, l.Block.X, l.Block.Y, l.Block.Z, l.Shared)
	case backend.CopyNode:
		return fmt.Sprintf("\n%#x -> %#x\n%d x %d x %d", d.Copy.Src.Addr, d.Copy.Dst.Addr, d.Copy.Width, max(d.Copy.Height, 1), max(d.Copy.Depth, 1))
	case backend.FillNode:
		return fmt.Sprintf("\n%#x = %#x\n%d x %d x %d", uint64(d.Fill.Addr), d.Fill.Value, d.Fill.Element, d.Fill.Width, max(d.Fill.Height, 1))
	}
	return ""
}
