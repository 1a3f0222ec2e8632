// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package driver

// #include "driver.h"
import "C"

import (
	"runtime"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Exec is an instantiated graph of the driver's.
type Exec struct{ p C.CUgraphExec }

// Node is a node of a graph that is to be made: at most one of Launch, Box and Fill, and the earlier nodes on which
// the node depends.
type Node struct {
	Launch *Launch
	Box    *Box
	Fill   *backend.Fill
	Deps   []int
}

// Instantiate makes and instantiates a graph.
func (d *Driver) Instantiate(c Context, nodes []Node) (Exec, error) {
	var g C.CUgraph
	if err := checkResult("cuGraphCreate", C.sing_cuGraphCreate(d.table, c.p, &g, 0)); err != nil {
		return Exec{}, err
	}
	defer C.sing_cuGraphDestroy(d.table, c.p, g)
	made := make([]C.CUgraphNode, len(nodes))
	for i, n := range nodes {
		deps := make([]C.CUgraphNode, len(n.Deps), len(n.Deps)+1)
		for k, at := range n.Deps {
			deps[k] = made[at]
		}
		if err := d.addNode(c, g, &made[i], n, deps); err != nil {
			return Exec{}, err
		}
	}
	var x Exec
	r := C.sing_cuGraphInstantiateWithFlags(d.table, c.p, &x.p, g, 0)
	return x, checkResult("cuGraphInstantiateWithFlags", r)
}

func (d *Driver) addNode(c Context, g C.CUgraph, out *C.CUgraphNode, n Node, deps []C.CUgraphNode) error {
	k := C.size_t(len(deps))
	first := &deps[:1][0]
	switch {
	case n.Launch != nil:
		var pin runtime.Pinner
		defer pin.Unpin()
		p := n.Launch.cStruct(&pin)
		if err := checkResult("cuGraphAddKernelNode", C.sing_kernel_node(d.table, c.p, out, g, first, k, &p)); err != nil {
			return err
		}
		return checkResult("cuGraphKernelNodeSetAttribute", C.sing_kernel_node_attributes(d.table, c.p, *out, &p))
	case n.Box != nil:
		p := n.Box.cStruct()
		return checkResult("cuGraphAddMemcpyNode", C.sing_cuGraphAddMemcpyNode(d.table, c.p, out, g, first, k, &p, c.p))
	case n.Fill != nil:
		f := n.Fill
		p := C.CUDA_MEMSET_NODE_PARAMS{
			dst: C.CUdeviceptr(f.Addr), pitch: C.size_t(f.Pitch), value: C.uint(f.Value), elementSize: C.uint(f.Element),
			width: C.size_t(f.Width), height: C.size_t(max(f.Height, 1)),
		}
		return checkResult("cuGraphAddMemsetNode", C.sing_cuGraphAddMemsetNode(d.table, c.p, out, g, first, k, &p, c.p))
	}
	return checkResult("cuGraphAddEmptyNode", C.sing_cuGraphAddEmptyNode(d.table, c.p, out, g, first, k))
}

// LaunchGraph queues a run of a graph.
func (d *Driver) LaunchGraph(c Context, x Exec, s Stream) error {
	return checkResult("cuGraphLaunch", C.sing_cuGraphLaunch(d.table, c.p, x.p, s.p))
}

// DestroyGraph ends a graph. No run of the graph may be under way.
func (d *Driver) DestroyGraph(c Context, x Exec) error {
	return checkResult("cuGraphExecDestroy", C.sing_cuGraphExecDestroy(d.table, c.p, x.p))
}
