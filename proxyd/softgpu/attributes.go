// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Capability is a compute capability, ten times the major number plus the minor.
type Capability int32

// DefaultCapability is newer than the devices that most vendors' libraries were built for, so that these load their
// PTX. On older devices they load machine code, which a software GPU cannot run.
const DefaultCapability Capability = 100

// capabilities are the capabilities that devices can have, with the shared memory of a multiprocessor, and its threads
// and blocks.
var capabilities = map[Capability]struct{ shared, threads, blocks int32 }{
	80:  {167936, 2048, 32},
	89:  {102400, 1536, 24},
	90:  {233472, 2048, 32},
	100: {233472, 2048, 32},
}

// ParseCapability reads "8.0", "8.9", "9.0" or "10.0"; ".0" may be left out.
func ParseCapability(text string) (Capability, error) {
	for c := range capabilities {
		if text == c.String() || text+".0" == c.String() {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%q is not 8.0, 8.9, 9.0 or 10.0", text)
}

func (c Capability) String() string { return fmt.Sprintf("%d.%d", c/10, c%10) }

// attributesOf are the attributes of a device of that capability.
func attributesOf(c Capability) backend.Attributes {
	const reserved = 1024 // of each block's shared memory
	all, has := commonAttributes, capabilities[c]
	all[backend.ComputeMajor], all[backend.ComputeMinor] = int32(c/10), int32(c%10)
	all[backend.MaxSharedPerMultiprocessor], all[backend.MaxSharedPerBlockOptin] = has.shared, has.shared-reserved
	all[backend.MaxThreadsPerMultiprocessor], all[backend.MaxBlocksPerMultiprocessor] = has.threads, has.blocks
	all[backend.ReservedSharedPerBlock] = reserved
	return all
}

// commonAttributes are the attributes that do not depend on the capability. Features that the device lacks are 0.
var commonAttributes = backend.Attributes{
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
	backend.AsyncEngines:                  3,
	backend.UnifiedAddressing:             1,
	backend.StreamPriorities:              1,
	backend.GlobalL1Cache:                 1,
	backend.LocalL1Cache:                  1,
	backend.MaxRegistersPerMultiprocessor: 65536,
	backend.SingleToDoubleRatio:           2,
	backend.ManagedMemory:                 1,
	backend.ConcurrentManagedAccess:       1,
	backend.ComputePreemption:             1,
	backend.HostPointerForRegistered:      1,
	backend.StreamMemOpsV1:                1,
	backend.StreamMemOps64V1:              1,
	backend.StreamWaitNorV1:               1,
	backend.CooperativeLaunch:             1,
	backend.HostRegister:                  1,
	backend.VirtualMemory:                 1,
	backend.MemoryPools:                   1,
	backend.StreamMemOps64:                1,
	backend.StreamWaitNor:                 1,
	backend.MemSyncDomains:                1,
	backend.IPCEvents:                     1,
	backend.HandlePosixFD:                 1,
	backend.PoolHandleTypes:               1, // file descriptors

	// The extents of textures and surfaces, as such a device has them.
	21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768,
	29: 2048, 30: 512, 42: 32768, 43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192,
	48: 8192, 49: 32768, 51: 32, 52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072,
	57: 65536, 58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048, 63: 32768, 64: 32768,
	65: 2048, 66: 32768, 67: 32768, 68: 2046, 69: 268435456, 70: 131072, 71: 65000, 72: 2097120,
	73: 32768, 74: 32768, 77: 32768,
}
