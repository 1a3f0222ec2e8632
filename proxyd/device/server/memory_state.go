// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
)

// What a save has of memory, beside its bytes.

type poolState struct {
	Handle  dispatch.Mempool   `json:"handle"`
	Ordinal int32              `json:"ordinal"`
	ID      backend.PoolID     `json:"id"`
	Props   dispatch.Poolprops `json:"props"`
}

type memoryState struct {
	Handle  dispatch.Alloc     `json:"handle"`
	Ordinal int32              `json:"ordinal"`
	ID      backend.MemoryID   `json:"id"`
	Size    uint64             `json:"size"`
	Props   dispatch.Allocprop `json:"props"`
}

type pinnedState struct {
	Handle     dispatch.Hostmem `json:"handle"`
	Context    dispatch.Context `json:"context"`
	Size       uint64           `json:"size"`
	Flags      uint32           `json:"flags,omitempty"`
	Registered bool             `json:"registered,omitempty"`
}

// bufferState is an allocation that has a name.
type bufferState struct {
	What backend.Allocation `json:"what"`
	ID   uint64             `json:"id"`
}

func (b *bufferIDs) describe() ([]bufferState, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []bufferState
	for _, v := range b.all {
		out = append(out, bufferState{v.what, v.id})
	}
	slices.SortFunc(out, func(a, b bufferState) int { return cmp.Compare(a.ID, b.ID) })
	return out, b.last
}

func (b *bufferIDs) restore(all []bufferState, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.all = last, map[backend.Addr]buffer{}
	for _, v := range all {
		b.all[v.What.Base] = buffer{v.What, v.ID}
	}
}

// poolsOf are the handles of a device's default pool and of its current one, 0: none.
func (p *memoryCalls) poolsOf(ordinal int32) (defaults, pool dispatch.Mempool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devicePools[ordinal]
	return d.defaults, d.pool
}

// restorePoolsOf sets what poolsOf has returned.
func (p *memoryCalls) restorePoolsOf(ordinal int32, defaults, pool dispatch.Mempool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devicePools[ordinal] = devicePools{defaults, pool}
}

func (p *memoryCalls) describeMemory() (pools []poolState, memories []memoryState, pinned []pinnedState) {
	pools = each(&p.pools, func(h dispatch.Mempool, m *memoryPool) poolState {
		return poolState{h, m.space.ordinal, m.id, m.props}
	})
	memories = each(&p.memories, func(h dispatch.Alloc, m *physicalMemory) memoryState {
		return memoryState{h, m.space.ordinal, m.id, m.size, m.prop}
	})
	pinned = each(&p.pinned, func(h dispatch.Hostmem, m *pinnedMemory) pinnedState {
		return pinnedState{h, m.context.handle, m.n, m.flags, m.registered}
	})
	return pools, memories, pinned
}

// restoreMemory gives what keeps memory its handles.
func (p *memoryCalls) restoreMemory(pools []poolState, memories []memoryState) error {
	for _, m := range pools {
		s := p.ifSpace(m.Ordinal)
		if s == nil {
			return fmt.Errorf("a pool of device %d: %w", m.Ordinal, ErrRestore)
		}
		p.pools.enterAt(m.Handle, &memoryPool{space: s, id: m.ID, props: m.Props})
	}
	for _, m := range memories {
		s := p.ifSpace(m.Ordinal)
		if s == nil {
			return fmt.Errorf("memory of device %d: %w", m.Ordinal, ErrRestore)
		}
		p.memories.enterAt(m.Handle, &physicalMemory{space: s, id: m.ID, size: m.Size, prop: m.Props})
	}
	return nil
}

// restorePinned notes memory of the program that it has pinned or registered.
func (p *memoryCalls) restorePinned(all []pinnedState) {
	for _, m := range all {
		x, ok := p.contexts.get(m.Context)
		if !ok {
			x = newDestroyedContext(m.Context) // it is gone; the memory is still the program's
		}
		p.pinned.enterAt(m.Handle, &pinnedMemory{context: x, n: m.Size, flags: m.Flags, registered: m.Registered})
	}
}

func (p *memoryCalls) tables() map[replay.Class]handles {
	return map[replay.Class]handles{"mempool": &p.pools, "alloc": &p.memories, "hostmem": &p.pinned}
}
