// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

// Attribute is an attribute of a device, as the driver numbers them.
type Attribute int32

// Attributes has all attributes of a device in a block, by their numbers; 0 for numbers without an
// attribute.
type Attributes [NumAttributes]int32

// NumAttributes is one more than the highest number of an attribute.
const NumAttributes = 150

// The attributes, but for the extents of textures and surfaces.
const (
	MaxThreadsPerBlock            Attribute = 1
	MaxBlockX                     Attribute = 2
	MaxBlockY                     Attribute = 3
	MaxBlockZ                     Attribute = 4
	MaxGridX                      Attribute = 5
	MaxGridY                      Attribute = 6
	MaxGridZ                      Attribute = 7
	MaxSharedPerBlock             Attribute = 8
	TotalConstantMemory           Attribute = 9
	WarpSize                      Attribute = 10
	MaxPitch                      Attribute = 11
	MaxRegistersPerBlock          Attribute = 12
	ClockRate                     Attribute = 13
	TextureAlignment              Attribute = 14
	GPUOverlap                    Attribute = 15
	Multiprocessors               Attribute = 16
	KernelExecTimeout             Attribute = 17
	Integrated                    Attribute = 18
	CanMapHostMemory              Attribute = 19
	ComputeMode                   Attribute = 20
	ConcurrentKernels             Attribute = 31
	ECCEnabled                    Attribute = 32
	PCIBusID                      Attribute = 33
	PCIDeviceID                   Attribute = 34
	TCCDriver                     Attribute = 35
	MemoryClockRate               Attribute = 36
	MemoryBusWidth                Attribute = 37
	L2CacheSize                   Attribute = 38
	MaxThreadsPerMultiprocessor   Attribute = 39
	AsyncEngines                  Attribute = 40
	UnifiedAddressing             Attribute = 41
	PCIDomainID                   Attribute = 50
	ComputeMajor                  Attribute = 75
	ComputeMinor                  Attribute = 76
	StreamPriorities              Attribute = 78
	GlobalL1Cache                 Attribute = 79
	LocalL1Cache                  Attribute = 80
	MaxSharedPerMultiprocessor    Attribute = 81
	MaxRegistersPerMultiprocessor Attribute = 82
	ManagedMemory                 Attribute = 83
	MultiGPUBoard                 Attribute = 84
	MultiGPUBoardGroup            Attribute = 85
	HostNativeAtomics             Attribute = 86
	SingleToDoubleRatio           Attribute = 87
	PageableMemoryAccess          Attribute = 88
	ConcurrentManagedAccess       Attribute = 89
	ComputePreemption             Attribute = 90
	HostPointerForRegistered      Attribute = 91
	StreamMemOpsV1                Attribute = 92
	StreamMemOps64V1              Attribute = 93
	StreamWaitNorV1               Attribute = 94
	CooperativeLaunch             Attribute = 95
	CooperativeMultiDevice        Attribute = 96
	MaxSharedPerBlockOptin        Attribute = 97
	FlushRemoteWrites             Attribute = 98
	HostRegister                  Attribute = 99
	PageableUsesHostTables        Attribute = 100
	DirectManagedFromHost         Attribute = 101
	VirtualMemory                 Attribute = 102
	HandlePosixFD                 Attribute = 103
	HandleWin32                   Attribute = 104
	HandleWin32KMT                Attribute = 105
	MaxBlocksPerMultiprocessor    Attribute = 106
	GenericCompression            Attribute = 107
	MaxPersistingL2               Attribute = 108
	MaxAccessPolicyWindow         Attribute = 109
	RDMAWithVMM                   Attribute = 110
	ReservedSharedPerBlock        Attribute = 111
	SparseArrays                  Attribute = 112
	ReadOnlyHostRegister          Attribute = 113
	TimelineSemaphores            Attribute = 114
	MemoryPools                   Attribute = 115
	GPUDirectRDMA                 Attribute = 116
	RDMAFlushOptions              Attribute = 117
	RDMAWritesOrdering            Attribute = 118
	PoolHandleTypes               Attribute = 119
	ClusterLaunch                 Attribute = 120
	DeferredMapping               Attribute = 121
	StreamMemOps64                Attribute = 122
	StreamWaitNor                 Attribute = 123
	DMABuf                        Attribute = 124
	IPCEvents                     Attribute = 125
	MemSyncDomains                Attribute = 126
	TensorMaps                    Attribute = 127
	HandleFabric                  Attribute = 128
	UnifiedFunctionPointers       Attribute = 129
	NUMAConfig                    Attribute = 130
	NUMAID                        Attribute = 131
	Multicast                     Attribute = 132
	MPSEnabled                    Attribute = 133
	HostNUMAID                    Attribute = 134
	D3D12Sharing                  Attribute = 135
	DecompressAlgorithms          Attribute = 136
	DecompressMaxLength           Attribute = 137
	VulkanSharing                 Attribute = 138
	PCIDeviceModel                Attribute = 139
	PCISubsystemModel             Attribute = 140
	HostNUMAVirtualMemory         Attribute = 141
	HostNUMAMemoryPools           Attribute = 142
	HostNUMAMultinodeIPC          Attribute = 143
	HostMemoryPools               Attribute = 144
	HostVirtualMemory             Attribute = 145
	HostDMABuf                    Attribute = 146
	PartialHostNativeAtomics      Attribute = 147
	AtomicReductions              Attribute = 148
)
