// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"slices"
)

// State describes a space's memory, all but its bytes. A State is plain data: it can be written as JSON, and a space
// made with it goes on like the original space, with the same addresses for all that is allocated later. The described
// memory is owned by contexts and modules of the same numbers and addresses, which the restorer makes again: NewContext
// with the id, Load with LoadConfig.Globals. Host memory is not part of a State.
type State struct {
	Base         Addr
	Memory       uint64
	Allocations  []Allocation // ascending by Base
	Reservations []Range      // ascending
	Memories     []MemoryState
	Pools        []PoolState
	KernelHeap   *KernelHeap    // nil until a kernel calls malloc
	Shared       []SharedMemory `json:",omitempty"` // ascending by Base
	Orphans      []Addr         `json:",omitempty"` // imports with their bytes among this space's blocks: no other space has the bytes
	Variables    []Variable     `json:",omitempty"` // ascending by Kept; empty if variables lie in the space's own memory
	NextMemory   MemoryID
	NextPool     PoolID
	NextContext  ContextID
}

// Variable is a module's variable that a driver has placed by itself. Its bytes are carried in an allocation of kind Globals.
type Variable struct {
	Name string
	Addr Addr
	Size uint64
	Kept Addr // where its bytes are in Blocks
}

// Range is a range of addresses.
type Range struct {
	Base Addr
	Size uint64
}

// KernelHeap is where kernels' malloc finds memory.
type KernelHeap struct {
	Base   Addr
	Size   uint64        // of all: LimitMallocHeap at its first use
	Pieces []KernelPiece // ascending
}

// KernelPiece is memory that a kernel has allocated. The memory lives as long as the context.
type KernelPiece struct {
	Base    Addr
	Size    uint64
	Context ContextID
}

// MemoryState is a physical memory of VMM.
type MemoryState struct {
	ID   MemoryID
	Size uint64
	Refs uint32
}

// PoolState is a pool.
type PoolState struct {
	ID           PoolID
	MaxSize      uint64
	Destroyed    bool // but in use
	Reuse        [3]bool
	Threshold    uint64
	UsedHigh     uint64
	ReservedHigh uint64
}

// Region is memory with bytes of its own: granules at their address, or a physical memory of VMM.
type Region struct {
	Base   Addr // 0 for VMM
	Memory MemoryID
	Size   uint64 // a multiple of Granule
}

// BlockID names a block: Granule bytes of a region.
type BlockID struct {
	Base   Addr     // of the block, if the block has an address of its own
	Memory MemoryID // else of this memory
	Offset uint64   // in Memory
}

// Compare orders blocks as State.Regions does.
func (id BlockID) Compare(o BlockID) int {
	return cmp.Or(cmp.Compare(id.Memory, o.Memory), cmp.Compare(id.Base, o.Base), cmp.Compare(id.Offset, o.Offset))
}

// Hash is a keyed hash of a block's bytes, of the backend's choice: under a key that a program does not know, equal
// hashes mean equal blocks, in any backend of the kind. Only blocks of zeros have the hash zero.
type Hash [16]byte

// Regions lists the regions of the State's memory: first by address, then by memory.
func (s *State) Regions() []Region {
	var out []Region
	for _, a := range s.Allocations {
		switch a.Kind {
		case Plain, Pooled, Globals:
		case Imported:
			if !slices.Contains(s.Orphans, a.Base) {
				continue
			}
		default:
			continue
		}
		base := a.Base &^ (Granule - 1)
		end := (a.Base + Addr(a.Size) + Granule - 1) &^ (Granule - 1)
		if n := len(out); n > 0 && out[n-1].Base == base {
			continue // small allocations share a granule
		}
		out = append(out, Region{Base: base, Size: uint64(end - base)})
	}
	if h := s.KernelHeap; h != nil {
		out = append(out, Region{Base: h.Base, Size: (h.Size + Granule - 1) &^ (Granule - 1)})
	}
	for _, m := range s.Memories {
		out = append(out, Region{Memory: m.ID, Size: m.Size})
	}
	return out
}
