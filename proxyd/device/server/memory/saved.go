// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// The state of memory in a save, beside its bytes.

// PoolState is a pool.
type PoolState struct {
	Handle  dispatch.Mempool   `json:"handle"`
	Ordinal int32              `json:"ordinal"`
	ID      backend.PoolID     `json:"id"`
	Props   dispatch.Poolprops `json:"props"`

	Share    driver.RandomID `json:"share,omitzero"`
	Imported bool            `json:"imported,omitempty"`
}

// AllocationState is physical memory.
type AllocationState struct {
	Handle  dispatch.Alloc     `json:"handle"`
	Ordinal int32              `json:"ordinal"`
	ID      backend.MemoryID   `json:"id"`
	Size    uint64             `json:"size"`
	Props   dispatch.Allocprop `json:"props"`
	Unused  bool               `json:"unused,omitempty"`
}

// PinnedState is memory that the program has pinned or registered.
type PinnedState struct {
	Handle     dispatch.Hostmem `json:"handle"`
	Context    dispatch.Context `json:"context"`
	Size       uint64           `json:"size"`
	Flags      uint32           `json:"flags,omitempty"`
	Registered bool             `json:"registered,omitempty"`
}

// BufferState is an allocation that has a name.
type BufferState struct {
	What backend.Allocation `json:"what"`
	ID   uint64             `json:"id"`
}

func (b *bufferIDs) Describe() ([]BufferState, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []BufferState
	for _, v := range b.all {
		out = append(out, BufferState{v.what, v.id})
	}
	slices.SortFunc(out, func(a, b BufferState) int { return cmp.Compare(a.ID, b.ID) })
	return out, b.last
}

func (b *bufferIDs) Restore(all []BufferState, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.all = last, map[backend.Addr]buffer{}
	for _, v := range all {
		b.all[v.What.Base] = buffer{v.What, v.ID}
	}
}

// PoolsOf are the handles of a device's default pool and of its current pool, 0: none.
func (p *Calls) PoolsOf(ordinal int32) (defaults, pool dispatch.Mempool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devicePools[ordinal]
	return d.defaults, d.pool
}

// RestorePoolsOf sets the default pool and the present pool of a device, as they were saved.
func (p *Calls) RestorePoolsOf(ordinal int32, defaults, pool dispatch.Mempool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devicePools[ordinal] = devicePools{defaults, pool}
}

func (p *Calls) DescribeMemory() (pools []PoolState, memories []AllocationState, pinned []PinnedState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pools = handles.Each(&p.pools, func(h dispatch.Mempool, m *memoryPool) PoolState {
		return PoolState{h, m.space.Ordinal, m.id, m.props, m.share, m.imported}
	})
	memories = handles.Each(&p.memories, func(h dispatch.Alloc, m *physicalMemory) AllocationState {
		return AllocationState{h, m.space.Ordinal, m.id, m.size, m.prop, m.unused}
	})
	pinned = handles.Each(&p.pinned, func(h dispatch.Hostmem, m *pinnedMemory) PinnedState {
		return PinnedState{h, m.context.Handle, m.n, m.flags, m.registered}
	})
	return pools, memories, pinned
}

// RestoreMemory gives restored pools and allocations the handles that they had before the save.
func (p *Calls) RestoreMemory(pools []PoolState, memories []AllocationState) error {
	for _, m := range pools {
		s := p.SpaceIfUsed(m.Ordinal)
		if s == nil {
			return fmt.Errorf("a pool of device %d: %w", m.Ordinal, driver.ErrRestore)
		}
		pool := &memoryPool{space: s, id: m.ID, props: m.Props, share: m.Share, imported: m.Imported}
		p.pools.PutAt(m.Handle, pool)
		p.sharePool(pool)
	}
	for _, m := range memories {
		s := p.SpaceIfUsed(m.Ordinal)
		if s == nil {
			return fmt.Errorf("memory of device %d: %w", m.Ordinal, driver.ErrRestore)
		}
		p.memories.PutAt(m.Handle, &physicalMemory{space: s, id: m.ID, size: m.Size, prop: m.Props, unused: m.Unused})
	}
	return nil
}

// RestorePinned notes memory that the program has pinned or registered.
func (p *Calls) RestorePinned(all []PinnedState) {
	for _, m := range all {
		x, ok := p.Contexts.Get(m.Context)
		if !ok {
			x = driver.NewDestroyedContext(m.Context) // the context is gone; the memory is still the program's
		}
		p.pinned.PutAt(m.Handle, &pinnedMemory{context: x, n: m.Size, flags: m.Flags, registered: m.Registered})
	}
}

func (p *Calls) Tables() map[replay.Class]handles.AnyTable {
	return map[replay.Class]handles.AnyTable{"mempool": &p.pools, "alloc": &p.memories, "hostmem": &p.pinned}
}
