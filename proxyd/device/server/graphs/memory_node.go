// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// graphMemory is memory that a node allocates. The program knows its address when the node is made, and the address is
// the same at each launch. Here the memory exists all the time, from the node's making to the end of the last graph,
// executable or not, that has the node: allocations of a graph that are not in use at the same time do not share
// memory, as they might. live is the program's view: from a launch until a node or the program frees the memory.
type graphMemory struct {
	node    dispatch.Node // the node that has made the memory, alive or not: each memory has another node
	context *driver.Context
	addr    backend.Addr
	size    uint64
	props   dispatch.Poolprops
	access  []dispatch.Access
	users   int
	live    bool
}

// dropMemory takes a user away, or the memory of a node that was never made. dropMemory takes the lock.
func (p *Graphs) dropMemory(m *graphMemory) {
	if m == nil {
		return
	}
	p.lockGraphs()
	defer p.unlockGraphs()
	m.users = 1
	p.unuseMemory(m)
}

// useMemory and unuseMemory count the users of the memory. The caller holds the lock.
func (p *Graphs) useMemory(m *graphMemory) {
	if m == nil {
		return
	}
	m.users++
	p.memory[m.addr] = m
	p.noteFootprint(m.context.Space.Ordinal)
}

func (p *Graphs) unuseMemory(m *graphMemory) {
	if m == nil {
		return
	}
	if m.users--; m.users > 0 || m.context.Gone.Load() {
		return
	}
	if p.memory[m.addr] == m {
		delete(p.memory, m.addr)
	}
	if err := m.context.Backend.Free(m.addr); err != nil {
		p.Log.Warn("memory of a graph is not freed", "error", err)
	}
}

// FreeGraphMemory frees memory that a graph has allocated: done tells whether a is such memory.
func (p *Graphs) FreeGraphMemory(a backend.Addr) (r dispatch.Result, done bool) {
	p.lockGraphs()
	defer p.unlockGraphs()
	m := p.memory[a]
	switch {
	case m == nil:
		return 0, false
	case !m.live:
		return dispatch.ResultInvalidValue, true
	}
	m.live = false
	return 0, true
}

// markAllocated notes that a graph is launched: memory that stays allocated after the launch must not be allocated
// already. The caller holds the lock.
func (p *Graphs) markAllocated(e *graphExec) dispatch.Result {
	const autoFree = 1
	var leaves []*graphMemory
	for _, n := range e.graph.nodes {
		switch {
		case n.memory == nil || e.graph.freesAddr(n.memory.addr):
		case n.memory.live && e.flags&autoFree == 0:
			return dispatch.ResultInvalidValue
		default:
			leaves = append(leaves, n.memory)
		}
	}
	for _, m := range leaves {
		m.live = true
		p.noteFootprint(m.context.Space.Ordinal)
	}
	return 0
}

// markFreed notes that the launch frees memory that other graphs have left allocated. The caller holds the lock.
func (p *Graphs) markFreed(e *graphExec) {
	for _, n := range e.graph.nodes {
		if m := p.memory[n.frees]; n.kind == freeNode && m != nil {
			m.live = false
		}
	}
}

func (g *graph) freesAddr(a backend.Addr) bool {
	for _, n := range g.nodes {
		if n.kind == freeNode && n.frees == a {
			return true
		}
	}
	return false
}

// hasEffects tells whether a launch does more than to queue the graph.
func (g *graph) hasEffects() bool {
	if g.hasMemory() {
		return true
	}
	for _, n := range g.nodes {
		if n.collective != nil || slices.ContainsFunc(n.graphsWithin(), (*graph).hasEffects) {
			return true
		}
	}
	return false
}

// hasMemory tells whether there are nodes that allocate or free: such graphs cannot be copied.
func (g *graph) hasMemory() bool {
	for _, n := range g.nodes {
		if n.kind == allocNode || n.kind == freeNode || slices.ContainsFunc(n.graphsWithin(), (*graph).hasMemory) {
			return true
		}
	}
	return false
}

// GraphAddAlloc implements dispatch.Backend, as all below.
func (p *NodeCalls) GraphAddAlloc(c *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, props dispatch.Poolprops, access []dispatch.Access, _, size uint64) (dispatch.Devptr, dispatch.Result) {
	const pinned, onDevice = 1, 1
	if props.AllocType != pinned || props.HandleTypes != 0 || props.Location.Type != onDevice {
		return 0, dispatch.ResultInvalidValue
	}
	x := p.findContext(c, props.Location.Id)
	if x == nil {
		return 0, dispatch.ResultInvalidContext
	}
	rec, r := p.recordCall(c, x.Handle, func(into *dispatch.Call) dispatch.Result {
		st, r := p.Stream(into, driver.DefaultStream)
		if r != 0 {
			return r
		}
		_, err := st.Backend.AllocAsync(0, size)
		return p.Result(err)
	})
	if r != 0 {
		return 0, r
	}
	rec.memory.node, rec.memory.props, rec.memory.access = h, props, access
	return dispatch.Devptr(rec.memory.addr), p.addRecorded(h, in, deps, rec)
}

// findContext is a context of a device: the current context, if that is of the device.
func (p *Graphs) findContext(c *dispatch.Call, ordinal int32) *driver.Context {
	if x, r := p.Current(c); r == 0 && x.Space.Ordinal == ordinal {
		return x
	}
	for _, x := range p.Contexts.Values() {
		if x.Space.Ordinal == ordinal {
			return x
		}
	}
	return nil
}

func (p *NodeCalls) GraphGetAlloc(_ *dispatch.Call, h dispatch.Node, k uint64) (props dispatch.Poolprops, access []dispatch.Access, kOut, size uint64, ptr dispatch.Devptr, r dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, allocNode)
	if r != 0 {
		return props, nil, 0, 0, 0, r
	}
	m := n.memory
	access = m.access[:min(uint64(len(m.access)), k)]
	return m.props, access, uint64(len(access)), m.size, dispatch.Devptr(m.addr), 0
}

func (p *NodeCalls) GraphAddMemFreeNode(_ *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, ptr dispatch.Devptr) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	m := p.memory[backend.Addr(ptr)]
	if m == nil && p.Restoring == nil {
		return dispatch.ResultInvalidValue
	}
	work := graphWork{kind: freeNode, frees: backend.Addr(ptr)}
	if m != nil {
		work.context = m.context
	}
	return p.addNode(h, in, deps, backend.EmptyNode{}, work)
}

func (p *NodeCalls) GraphMemFreeNodeGetParams(_ *dispatch.Call, h dispatch.Node) (dispatch.Devptr, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, r := p.nodeOf(h, freeNode)
	if r != 0 {
		return 0, r
	}
	return dispatch.Devptr(n.frees), 0
}
