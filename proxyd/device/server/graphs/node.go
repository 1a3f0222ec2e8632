// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/memory"
)

// addRecorded makes a node of a recorded call. addRecorded takes the lock.
func (p *Graphs) addRecorded(h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, rec *recorder) dispatch.Result {
	n, err := rec.recordedNode()
	if err != nil {
		return p.Result(err)
	}
	p.lockGraphs()
	defer p.unlockGraphs()
	r := p.addNode(h, in, deps, n, rec.graphWork)
	if r != 0 && rec.memory != nil && rec.memory.users == 0 {
		rec.memory.users = 1
		p.unuseMemory(rec.memory)
	}
	return r
}

// addNode adds a node. The caller holds the lock.
func (p *Graphs) addNode(h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, does backend.Node, work graphWork) dispatch.Result {
	g, r := p.findGraph(in)
	if r != 0 {
		return r
	}
	ids, r := p.nodeIDs(g, deps)
	if r != 0 {
		return r
	}
	n := &graphNode{handle: h, in: g, graphWork: work}
	if r := p.nodes.Put(h, n); r != 0 {
		return r
	}
	id, err := g.data.Add(does, ids...)
	if err != nil {
		p.nodes.Drop(h)
		return p.Result(err)
	}
	n.id = id
	g.nodes[id] = n
	p.useMemory(n.memory)
	return 0
}

// recordNewNode records a call and makes a node of the recording.
func (p *Graphs) recordNewNode(c *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, ctx dispatch.Context, call func(*dispatch.Call) dispatch.Result) dispatch.Result {
	rec, r := p.recordCall(c, ctx, call)
	if r != 0 {
		return r
	}
	return p.addRecorded(h, in, deps, rec)
}

// addSimple adds a node of no context.
func (p *Graphs) addSimple(h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, does backend.Node, work graphWork) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	return p.addNode(h, in, deps, does, work)
}

// recordIntoNode records a call and gives a node of the same type that work.
func (p *Graphs) recordIntoNode(c *dispatch.Call, h dispatch.Node, kind int32, ctx dispatch.Context, call func(*dispatch.Call) dispatch.Result) (*graphNode, dispatch.Result) {
	if ctx == 0 {
		ctx = p.contextOf(h)
	}
	rec, r := p.recordCall(c, ctx, call)
	if r != 0 {
		return nil, r
	}
	does, err := rec.recordedNode()
	if err != nil {
		return nil, p.Result(err)
	}
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, kind)
	if r != 0 {
		return nil, r
	}
	if err := n.in.data.Set(n.id, does); err != nil {
		return nil, p.Result(err)
	}
	n.context = rec.context
	return n, 0
}

// contextOf is the context in which a node works. contextOf takes the lock.
func (p *Graphs) contextOf(h dispatch.Node) dispatch.Context {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.graphNode(h)
	if r != 0 || n.context == nil {
		return 0
	}
	return n.context.Handle
}

// nodeOf finds a node of the given type: else INVALID_VALUE. The caller holds the lock.
func (p *Graphs) nodeOf(h dispatch.Node, kind int32) (*graphNode, dispatch.Result) {
	n, r := p.graphNode(h)
	if r == 0 && n.kind != kind {
		r = dispatch.ResultInvalidValue
	}
	return n, r
}

// findNode finds a node of the given type and its work.
func findNode[T backend.Node](p *Graphs, h dispatch.Node, kind int32) (n *graphNode, does T, r dispatch.Result) {
	n, r = p.nodeOf(h, kind)
	if r != 0 {
		return n, does, r
	}
	d, err := n.in.data.Node(n.id)
	if err != nil {
		return n, does, p.Result(err)
	}
	does, ok := d.(T)
	if !ok {
		r = dispatch.ResultInvalidValue
	}
	return n, does, r
}

// GraphAddEmptyNode implements dispatch.Backend, as all below.
func (p *NodeCalls) GraphAddEmptyNode(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64) dispatch.Result {
	return p.addSimple(h, in, deps, backend.EmptyNode{}, graphWork{kind: emptyNode})
}

func (p *NodeCalls) GraphNodeGetType(_ *dispatch.Call, h dispatch.Node) (int32, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.graphNode(h)
	if r != 0 {
		return 0, r
	}
	return n.kind, 0
}

func (p *NodeCalls) GraphAddMemcpyNode(c *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, what dispatch.Memcpy3d, ctx dispatch.Context) dispatch.Result {
	return p.recordNewNode(c, h, in, deps, ctx, p.copyCall(what))
}

// copyCall is the call that makes the work of a node for a copy.
func (p *Graphs) copyCall(what dispatch.Memcpy3d) func(*dispatch.Call) dispatch.Result {
	return func(c *dispatch.Call) dispatch.Result {
		if what.Width == 0 || what.Height == 0 || what.Depth == 0 {
			return dispatch.ResultInvalidValue
		}
		return p.served.Memcpy3DAsyncV2(c, what, driver.DefaultStream)
	}
}

func (p *NodeCalls) GraphMemcpyNodeGetParams(_ *dispatch.Call, h dispatch.Node) (dispatch.Memcpy3d, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	_, does, r := findNode[backend.CopyNode](p.Graphs, h, MemcpyNode)
	if r != 0 {
		return dispatch.Memcpy3d{}, r
	}
	w := &does.Copy
	out := dispatch.Memcpy3d{
		SrcX: w.Src.X, SrcY: w.Src.Y, SrcZ: w.Src.Z, SrcPitch: w.Src.Pitch, SrcHeight: w.Src.Rows,
		DstX: w.Dst.X, DstY: w.Dst.Y, DstZ: w.Dst.Z, DstPitch: w.Dst.Pitch, DstHeight: w.Dst.Rows,
		Width: w.Width, Height: max(w.Height, 1), Depth: max(w.Depth, 1),
	}
	out.SrcType, out.SrcHost, out.SrcDevice = sideOf(&w.Src)
	out.DstType, out.DstHost, out.DstDevice = sideOf(&w.Dst)
	return out, 0
}

// sideOf is the reverse of copier.side.
func sideOf(s *backend.CopySide) (kind int32, host uint64, device dispatch.Devptr) {
	if s.Host != nil {
		return memory.HostMemory, s.Addr, 0
	}
	return memory.DeviceMemory, 0, dispatch.Devptr(s.Addr)
}

func (p *NodeCalls) GraphMemcpyNodeSetParams(c *dispatch.Call, h dispatch.Node, what dispatch.Memcpy3d) dispatch.Result {
	_, r := p.recordIntoNode(c, h, MemcpyNode, 0, p.copyCall(what))
	return r
}

func (p *NodeCalls) GraphAddMemsetNode(c *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, what dispatch.Memset, ctx dispatch.Context) dispatch.Result {
	return p.recordNewNode(c, h, in, deps, ctx, p.fillCall(what))
}

// fillCall is the call that makes the work of a node for setting memory.
func (p *Graphs) fillCall(what dispatch.Memset) func(*dispatch.Call) dispatch.Result {
	return func(c *dispatch.Call) dispatch.Result {
		if e := what.ElementSize; e != 1 && e != 2 && e != 4 || what.Width == 0 || what.Height == 0 {
			return dispatch.ResultInvalidValue
		}
		return p.Fill(c, driver.DefaultStream, backend.Fill{
			Addr: backend.Addr(what.Dst), Value: what.Value, Element: what.ElementSize, Width: what.Width, Height: what.Height, Pitch: what.Pitch,
		})
	}
}

func (p *NodeCalls) GraphMemsetNodeGetParams(_ *dispatch.Call, h dispatch.Node) (dispatch.Memset, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	_, does, r := findNode[backend.FillNode](p.Graphs, h, MemsetNode)
	if r != 0 {
		return dispatch.Memset{}, r
	}
	f := &does.Fill
	return dispatch.Memset{
		Dst: dispatch.Devptr(f.Addr), Pitch: f.Pitch, Value: f.Value, ElementSize: f.Element, Width: f.Width, Height: max(f.Height, 1),
	}, 0
}

func (p *NodeCalls) GraphMemsetNodeSetParams(c *dispatch.Call, h dispatch.Node, what dispatch.Memset) dispatch.Result {
	_, r := p.recordIntoNode(c, h, MemsetNode, 0, p.fillCall(what))
	return r
}

// hostNode is the work of a node that calls a function of the program.
func (p *Graphs) hostNode(ticket uint64) backend.HostNode {
	return backend.HostNode{Func: func() { p.HostFunctions.callProgram(p.Lifetime, nil, ticket, false) }}
}

func (p *NodeCalls) GraphAddHost(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _, ticket uint64) dispatch.Result {
	return p.addSimple(h, in, deps, p.hostNode(ticket), graphWork{kind: HostNode, ticket: ticket})
}

func (p *NodeCalls) GraphGetHost(_ *dispatch.Call, h dispatch.Node) (uint64, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, HostNode)
	if r != 0 {
		return 0, r
	}
	return n.ticket, 0
}

func (p *NodeCalls) GraphSetHost(_ *dispatch.Call, h dispatch.Node, ticket uint64) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, HostNode)
	if r != 0 {
		return r
	}
	n.ticket = ticket
	return p.Result(n.in.data.Set(n.id, p.hostNode(ticket)))
}

func (p *NodeCalls) GraphAddChildGraphNode(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, child dispatch.Graph) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	g, r := p.findGraph(child)
	if r != 0 {
		return r
	}
	return p.addChild(h, in, deps, g)
}

// addChild adds a node that is a copy of a graph. The caller holds the lock.
func (p *Graphs) addChild(h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, g *graph) dispatch.Result {
	if g.hasMemory() || g.hasConditions() {
		return dispatch.ResultNotSupported
	}
	within, r := p.copyWithin(g, true)
	if r != 0 {
		return r
	}
	r = p.addNode(h, in, deps, backend.ChildNode{Graph: &backend.Graph{}}, graphWork{kind: childNode, child: within})
	if r != 0 {
		p.endGraph(within)
	}
	return r
}

func (p *NodeCalls) GraphChildGraphNodeGetGraph(_ *dispatch.Call, h dispatch.Node) (dispatch.Graph, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, childNode)
	if r != 0 {
		return 0, r
	}
	return n.child.handle, 0
}
