// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// fit is what a function's blocks need, beside their dynamic shared memory.
type fit struct {
	info              *backend.Info
	registers, static uint32
	threads           uint32 // in any block of the kernel
}

func (p *LaunchCalls) fitOf(c *dispatch.Call, h dispatch.Function) (fit, dispatch.Result) {
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
	f, r := p.fitOf(c, h)
	switch {
	case r != 0:
		return 0, r
	case size <= 0 || flags&^noCachingOverride != 0:
		return 0, dispatch.ResultInvalidValue
	}
	return f.blocksPerMultiprocessor(uint32(size), shared), 0
}

// OccupancyAvailableDynamicSMemPerBlock is how much each block may have when so many of them are to fit.
func (p *LaunchCalls) OccupancyAvailableDynamicSMemPerBlock(c *dispatch.Call, h dispatch.Function, blocks, size int32) (uint64, dispatch.Result) {
	f, r := p.fitOf(c, h)
	switch {
	case r != 0:
		return 0, r
	case size <= 0 || blocks <= 0 || f.blocksPerMultiprocessor(uint32(size), 0) < blocks:
		return 0, dispatch.ResultInvalidValue
	}
	// Fewer fit the more each has, so the answer is found by halves.
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
