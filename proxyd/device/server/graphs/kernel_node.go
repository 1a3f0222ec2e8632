// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"maps"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// launchCall is the call that makes the work of a kernel's node.
func (p *Graphs) launchCall(h dispatch.Function, grid, block backend.Dim, shared uint32, params []uint8, attributes map[int32]dispatch.Launchvalue) func(*dispatch.Call) dispatch.Result {
	return func(c *dispatch.Call) dispatch.Result {
		list := make([]dispatch.Launchattr, 0, len(attributes))
		for id, v := range attributes {
			list = append(list, dispatch.Launchattr{Id: id, Value: v})
		}
		return p.served.LaunchEx(c, h, grid.X, grid.Y, grid.Z, block.X, block.Y, block.Z, shared, driver.DefaultStream, params, uint32(len(params)), list, uint32(len(list)))
	}
}

// attributesOf are the attributes of a kernel's node. attributesOf takes the lock.
func (p *Graphs) attributesOf(h dispatch.Node) map[int32]dispatch.Launchvalue {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, does, r := findNode[backend.KernelNode](p, h, KernelNode)
	if r != 0 {
		return nil
	}
	all := maps.Clone(n.attributes)
	for _, a := range does.Launch.Attributes { // a launch that was captured has attributes that no call has set
		if all == nil {
			all = map[int32]dispatch.Launchvalue{}
		}
		all[int32(a.ID)] = dispatch.Launchvalue{Word: a.Value}
	}
	return all
}

// GraphAddKernel implements dispatch.Backend, as all below.
func (p *NodeCalls) GraphAddKernel(c *dispatch.Call, h dispatch.Node, in dispatch.Graph, deps []dispatch.Node, _ uint64, function dispatch.Function, kernel dispatch.Kernel, ctx dispatch.Context, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, params []uint8, _ uint32) dispatch.Result {
	rec, r := p.recordCall(c, ctx, p.launchCall(function, backend.Dim{X: gridX, Y: gridY, Z: gridZ}, backend.Dim{X: blockX, Y: blockY, Z: blockZ}, shared, params, nil))
	if r != 0 {
		return r
	}
	rec.function, rec.kernel = function, kernel
	return p.addRecorded(h, in, deps, rec)
}

func (p *NodeCalls) GraphSetKernel(c *dispatch.Call, h dispatch.Node, function dispatch.Function, kernel dispatch.Kernel, ctx dispatch.Context, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, params []uint8, _ uint32) dispatch.Result {
	n, r := p.recordIntoNode(c, h, KernelNode, ctx,
		p.launchCall(function, backend.Dim{X: gridX, Y: gridY, Z: gridZ}, backend.Dim{X: blockX, Y: blockY, Z: blockZ}, shared, params, p.attributesOf(h)))
	if r != 0 {
		return r
	}
	p.lockGraphs()
	defer p.unlockGraphs()
	n.function, n.kernel = function, kernel
	return 0
}

func (p *NodeCalls) GraphGetKernel(_ *dispatch.Call, h dispatch.Node, k uint32) (function dispatch.Function, kernel dispatch.Kernel, ctx dispatch.Context, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, params []uint8, kOut uint32, r dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, does, r := findNode[backend.KernelNode](p.Graphs, h, KernelNode)
	if r == 0 && (n.context == nil || uint64(len(does.Launch.Params)) > uint64(k)) {
		r = dispatch.ResultInvalidValue
	}
	if r != 0 {
		return 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, nil, 0, r
	}
	l := &does.Launch
	return n.function, n.kernel, n.context.Handle, l.Grid.X, l.Grid.Y, l.Grid.Z, l.Block.X, l.Block.Y, l.Block.Z, l.Shared, l.Params, uint32(len(l.Params)), 0
}

// The attributes that kernels' nodes have. Of the kept attributes only the first has an effect here.
const (
	attributeCooperative = 2
	attributeCluster     = 4
)

var nodeAttributes = map[int32]dispatch.Launchvalue{
	driver.AttributeWindow: {}, attributeCooperative: {}, attributeCluster: {Word: [8]uint64{1 | 1<<32, 1}}, driver.AttributePriority: {},
	driver.AttributeDomainMap: {Word: [8]uint64{1 << 8}}, driver.AttributeDomain: {},
}

func (p *NodeCalls) GraphKernelNodeGetAttribute(_ *dispatch.Call, h dispatch.Node, id int32) (dispatch.Launchvalue, dispatch.Result) {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, does, r := findNode[backend.KernelNode](p.Graphs, h, KernelNode)
	if r != 0 {
		return dispatch.Launchvalue{}, r
	}
	v, ok := nodeAttributes[id]
	if !ok {
		return v, dispatch.ResultInvalidValue
	}
	if own, ok := n.attributes[id]; ok {
		v = own
	}
	for _, a := range does.Launch.Attributes {
		if int32(a.ID) == id {
			v.Word = a.Value
		}
	}
	if id == attributeCooperative && does.Launch.Cooperative {
		v.Word[0] = 1
	}
	return v, 0
}

func (p *NodeCalls) GraphKernelNodeSetAttribute(_ *dispatch.Call, h dispatch.Node, id int32, value dispatch.Launchvalue) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	n, does, r := findNode[backend.KernelNode](p.Graphs, h, KernelNode)
	switch _, known := nodeAttributes[id]; {
	case r != 0:
		return r
	case !known:
		return dispatch.ResultInvalidValue
	case id == attributeCluster && (value.Word[0]|value.Word[0]>>32)&^1 != 0 &&
		(n.context == nil || n.context.Space.Device.Info().Attributes[backend.ClusterLaunch] == 0):
		return dispatch.ResultNotSupported
	}
	if n.attributes == nil {
		n.attributes = map[int32]dispatch.Launchvalue{}
	}
	n.attributes[id] = value
	driver.SetLaunchAttribute(&does.Launch, id, value)
	return p.Result(n.in.data.Set(n.id, does))
}

func (p *NodeCalls) GraphKernelNodeCopyAttributes(_ *dispatch.Call, dst, src dispatch.Node) dispatch.Result {
	p.lockGraphs()
	defer p.unlockGraphs()
	to, does, r := findNode[backend.KernelNode](p.Graphs, dst, KernelNode)
	if r != 0 {
		return r
	}
	from, like, r := findNode[backend.KernelNode](p.Graphs, src, KernelNode)
	if r != 0 {
		return r
	}
	to.attributes = maps.Clone(from.attributes)
	does.Launch.Cooperative, does.Launch.Attributes = like.Launch.Cooperative, like.Launch.Attributes
	return p.Result(to.in.data.Set(to.id, does))
}
