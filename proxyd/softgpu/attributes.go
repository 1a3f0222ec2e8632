// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// attributes are those of a device of compute capability 8.0 with what this one lacks set to 0.
var attributes = backend.Attributes{
	backend.MaxThreadsPerBlock:            1024,
	backend.MaxBlockX:                     1024,
	backend.MaxBlockY:                     1024,
	backend.MaxBlockZ:                     64,
	backend.MaxGridX:                      2147483647,
	backend.MaxGridY:                      65535,
	backend.MaxGridZ:                      65535,
	backend.MaxSharedPerBlock:             49152,
	backend.TotalConstantMemory:           65536,
	backend.WarpSize:                      32,
	backend.MaxPitch:                      2147483647,
	backend.MaxRegistersPerBlock:          65536,
	backend.ClockRate:                     1410000,
	backend.TextureAlignment:              512,
	backend.GPUOverlap:                    1,
	backend.Multiprocessors:               108,
	backend.CanMapHostMemory:              1,
	backend.ConcurrentKernels:             1,
	backend.MemoryClockRate:               1215000,
	backend.MemoryBusWidth:                5120,
	backend.L2CacheSize:                   41943040,
	backend.MaxThreadsPerMultiprocessor:   2048,
	backend.AsyncEngines:                  3,
	backend.UnifiedAddressing:             1,
	backend.ComputeMajor:                  8,
	backend.StreamPriorities:              1,
	backend.GlobalL1Cache:                 1,
	backend.LocalL1Cache:                  1,
	backend.MaxSharedPerMultiprocessor:    167936,
	backend.MaxRegistersPerMultiprocessor: 65536,
	backend.SingleToDoubleRatio:           2,
	backend.ComputePreemption:             1,
	backend.HostPointerForRegistered:      1,
	backend.StreamMemOpsV1:                1,
	backend.StreamMemOps64V1:              1,
	backend.StreamWaitNorV1:               1,
	backend.CooperativeLaunch:             1,
	backend.MaxSharedPerBlockOptin:        166912,
	backend.HostRegister:                  1,
	backend.VirtualMemory:                 1,
	backend.MaxBlocksPerMultiprocessor:    32,
	backend.ReservedSharedPerBlock:        1024,
	backend.MemoryPools:                   1,
	backend.StreamMemOps64:                1,
	backend.StreamWaitNor:                 1,
	backend.MemSyncDomains:                1,

	// The extents of textures and surfaces, which are refused, as such a device has them.
	21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768,
	29: 2048, 30: 512, 42: 32768, 43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192,
	48: 8192, 49: 32768, 51: 32, 52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072,
	57: 65536, 58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048, 63: 32768, 64: 32768,
	65: 2048, 66: 32768, 67: 32768, 68: 2046, 69: 268435456, 70: 131072, 71: 65000, 72: 2097120,
	73: 32768, 74: 32768, 77: 32768,
}
