// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// fit is the need of a function's blocks, beside their dynamic shared memory.
type fit struct {
	info              *backend.Info
	registers, static uint32
	threads           uint32 // in any block of the kernel
}

func (p *LaunchCalls) computeFit(c *dispatch.Call, h dispatch.Function) (fit, dispatch.Result) {
	f, r := p.findFunction(c, h)
	if r != 0 {
		return fit{}, r
	}
	var v [3]int32
	for i, a := range []backend.FunctionAttribute{backend.FuncRegisters, backend.FuncSharedSize, backend.FuncMaxThreads} {
		var err error
		if v[i], err = f.b.Attribute(a); err != nil {
			return fit{}, p.Result(err)
		}
	}
	return fit{f.module.context.Space.Device.Info(), uint32(v[0]), uint32(v[1]), uint32(v[2])}, 0
}

// blocksPerMultiprocessor is how many blocks of a size a multiprocessor holds at once.
func (f fit) blocksPerMultiprocessor(threads uint32, shared uint64) int32 {
	if threads > f.threads || shared > uint64(f.info.Attributes[backend.MaxSharedPerBlockOptin]) {
		return 0
	}
	return int32(backend.Occupancy(f.info, backend.Resources{Threads: threads, Registers: f.registers, Shared: f.static + uint32(shared)}))
}

// OccupancyMaxActiveBlocksPerMultiprocessor implements dispatch.Backend, as all below.
func (p *LaunchCalls) OccupancyMaxActiveBlocksPerMultiprocessor(c *dispatch.Call, h dispatch.Function, size int32, shared uint64) (int32, dispatch.Result) {
	return p.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(c, h, size, shared, 0)
}

func (p *LaunchCalls) OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(c *dispatch.Call, h dispatch.Function, size int32, shared uint64, flags uint32) (int32, dispatch.Result) {
	const noCachingOverride = 1
	f, r := p.computeFit(c, h)
	switch {
	case r != 0:
		return 0, r
	case size <= 0 || flags&^noCachingOverride != 0:
		return 0, dispatch.ResultInvalidValue
	}
	return f.blocksPerMultiprocessor(uint32(size), shared), 0
}

// OccupancyAvailableDynamicSMemPerBlock is how much each block may have when a given number of blocks is to fit.
func (p *LaunchCalls) OccupancyAvailableDynamicSMemPerBlock(c *dispatch.Call, h dispatch.Function, blocks, size int32) (uint64, dispatch.Result) {
	f, r := p.computeFit(c, h)
	switch {
	case r != 0:
		return 0, r
	case size <= 0 || blocks <= 0 || f.blocksPerMultiprocessor(uint32(size), 0) < blocks:
		return 0, dispatch.ResultInvalidValue
	}
	// The more each block has, the fewer fit, so the answer is found by halves.
	low, high := uint64(0), uint64(f.info.Attributes[backend.MaxSharedPerBlockOptin])
	for low < high {
		middle := (low + high + 1) / 2
		if f.blocksPerMultiprocessor(uint32(size), middle) >= blocks {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low, 0
}

// clusterLaunch is a launch that may have clusters, as described by a program that asks how many clusters fit.
func (p *LaunchCalls) clusterLaunch(c *dispatch.Call, h dispatch.Function, grid, block backend.Dim, shared uint32, attributes []dispatch.Launchattr) (*backend.Launch, dispatch.Result) {
	f, r := p.findFunction(c, h)
	if r != 0 {
		return nil, r
	}
	l := &backend.Launch{Function: f.b, Grid: grid, Block: block, Shared: shared}
	for _, a := range attributes {
		driver.SetLaunchAttribute(l, a.Id, a.Value)
	}
	return l, 0
}

// ActiveClusters is how many clusters of a launch the device can run at once. Without clusters, each block is one.
func (p *LaunchCalls) ActiveClusters(c *dispatch.Call, h dispatch.Function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, attributes []dispatch.Launchattr, _ uint32) (int32, dispatch.Result) {
	l, r := p.clusterLaunch(c, h, backend.Dim{X: gridX, Y: gridY, Z: gridZ}, backend.Dim{X: blockX, Y: blockY, Z: blockZ}, shared, attributes)
	if r != 0 {
		return 0, r
	}
	if f, ok := l.Function.(backend.ClusterFunction); ok {
		n, err := f.ActiveClusters(l)
		return int32(n), p.Result(err)
	}
	f, r := p.computeFit(c, h)
	threads := l.Block.Count()
	switch {
	case r != 0:
		return 0, r
	case threads == 0 || threads > uint64(f.info.Attributes[backend.MaxThreadsPerBlock]):
		return 0, dispatch.ResultInvalidValue
	case l.ClusterBlocks() > 1:
		return 0, 0
	}
	return f.blocksPerMultiprocessor(uint32(threads), uint64(shared)) * f.info.Attributes[backend.Multiprocessors], 0
}

// LargestCluster is how many blocks a cluster of such a launch may have.
func (p *LaunchCalls) LargestCluster(c *dispatch.Call, h dispatch.Function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, attributes []dispatch.Launchattr, _ uint32) (int32, dispatch.Result) {
	l, r := p.clusterLaunch(c, h, backend.Dim{X: gridX, Y: gridY, Z: gridZ}, backend.Dim{X: blockX, Y: blockY, Z: blockZ}, shared, attributes)
	if r != 0 {
		return 0, r
	}
	if f, ok := l.Function.(backend.ClusterFunction); ok {
		n, err := f.LargestCluster(l)
		return int32(n), p.Result(err)
	}
	return 1, 0
}
