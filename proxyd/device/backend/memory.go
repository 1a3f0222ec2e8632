// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

// Addr is a device address, or an address of the program's in host memory that the device reaches.
type Addr uint64

// AllocKind says how memory came to be.
type AllocKind uint8

// The kinds.
const (
	Plain    AllocKind = iota + 1 // Context.Alloc
	Pooled                        // Stream.AllocAsync
	Mapped                        // Virtual.MapMemory
	Globals                       // a module's variables
	Host                          // Memory.MapHost
	Imported                      // Sharer.Import
)

// Allocation is memory at an address.
type Allocation struct {
	Base    Addr
	Size    uint64 // as asked for
	Kind    AllocKind
	Context ContextID // Plain, Globals and Imported: the owner
	Pool    PoolID    // Pooled
	Memory  MemoryID  // Mapped
	Offset  uint64    // Mapped: in Memory
	Access  bool      // Mapped: the device may use the memory; true for other kinds
	Share   Share     `json:",omitzero"` // Imported: the share; Plain, Pooled: the name, if other spaces may import it
}

// Memory answers questions about a space's memory, and gives the device access to host memory.
type Memory interface {
	// Info is cuMemGetInfo: of the space, however its device is shared.
	Info() (free, total uint64)
	// Lookup finds the allocation that holds an address.
	Lookup(a Addr) (Allocation, bool)
	// MapHost lets the device reach host memory under an address of the program's. The range is
	// page-aligned, and outside the space. mem is that memory, and stays until UnmapHost has returned. It is shared
	// memory: a driver may have to map mem at that address.
	MapHost(a Addr, mem []byte) error
	// UnmapHost waits until work given to the space before is done.
	UnmapHost(a Addr) error
	// AllowPeer lets kernels in this space follow pointers into another space, which has different addresses:
	// cuCtxEnablePeerAccess. AllowPeer fails with PeerAccessAlreadyEnabled, or InvalidValue for a space with the same
	// addresses.
	AllowPeer(peer Space) error
	// DenyPeer undoes AllowPeer, or fails with PeerAccessNotEnabled.
	DenyPeer(peer Space) error
}

// MemoryID names physical memory within its space; 0 names no memory.
type MemoryID uint64

// MappableMemory is memory with addresses and bytes that are made apart: VMM. All sizes and addresses are multiples of
// Granule; any other is InvalidValue.
type MappableMemory interface {
	// Reserve takes addresses. align is a power of two or 0; a hint that is free is taken.
	Reserve(size, align uint64, hint Addr) (Addr, error)
	// Unreserve gives back a whole reservation without mappings.
	Unreserve(a Addr, size uint64) error
	// NewMemory makes physical memory, zero; one reference is the caller's. The error is OutOfMemory.
	NewMemory(size uint64) (MemoryID, error)
	// RetainMemory adds a reference to the memory mapped at an address.
	RetainMemory(a Addr) (MemoryID, error)
	// ReleaseMemory drops a reference. The memory goes with the last reference and the last mapping.
	ReleaseMemory(id MemoryID) error
	// MapMemory maps all of a memory within a reservation, without access. Offset must be 0, as with the driver.
	MapMemory(a Addr, size, offset uint64, id MemoryID) error
	// UnmapMemory undoes the mappings in a range; no mapping may be cut in two. Earlier work still finds the memory.
	UnmapMemory(a Addr, size uint64) error
	// SetAccess lets the device use a completely mapped range, or forbids it. Neither waits for work, but for earlier work
	// that may use other memory at these addresses; a collective uses its buffers only.
	SetAccess(a Addr, size uint64, allow bool) error
}

// HostedMemory is a Space of which the memory is the host's: it makes no difference to a program which of the program's
// spaces has a memory.
type HostedMemory interface{ MemoryIsHosted() }

// PoolID names a memory pool within its space.
type PoolID uint32

// DefaultPool is there from the start and is never destroyed.
const DefaultPool PoolID = 0

// PoolAttribute is an attribute of a pool, as the driver numbers them.
type PoolAttribute int32

// The attributes of pools.
const (
	PoolReuseFollowEvents PoolAttribute = iota + 1
	PoolReuseOpportunistic
	PoolReuseInternalDependencies
	PoolReleaseThreshold
	PoolReservedCurrent
	PoolReservedHigh // only 0 can be set
	PoolUsedCurrent
	PoolUsedHigh // only 0 can be set
)

// Pools is a space's memory pools. The place of a pool's memory follows from the calls alone: freed memory is free for
// other allocations at once, and the next owner waits for the work that used it. So pools keep no addresses back, and
// their attributes about reuse are remembered without effect. A device may keep its memory at free addresses up to the
// release threshold.
type Pools interface {
	NewPool(maxSize uint64) (PoolID, error)
	// DestroyPool ends a pool; allocations from the pool live until they are freed.
	DestroyPool(PoolID) error
	PoolAttribute(PoolID, PoolAttribute) (uint64, error)
	SetPoolAttribute(PoolID, PoolAttribute, uint64) error
	// TrimPool gives memory back that the pool holds above keep.
	TrimPool(id PoolID, keep uint64) error
}
