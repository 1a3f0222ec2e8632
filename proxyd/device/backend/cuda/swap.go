// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// A device has the memory of the space that is mapped. The memory of other spaces stays there for as long as there is
// room: the driver reports when it has no room. Then memory of the spaces that were mapped longest ago leaves, to the
// host's memory, until there is room; the memory comes back when its space is mapped, in the place of memory that
// makes room for it if there is a twin. Only bytes that differ are moved then: see swap_content.go. Two things stay: held memory, as
// in a collective and a copy between spaces, and memory that is being moved already. A peer's memory that kernels
// access need not be held: of two spaces on a device only one is mapped.
type holdings struct {
	mu       sync.Mutex // no other lock is taken under mu
	memories map[*memory]bool
	now      uint64 // bytes that are there
	swap     backend.SwapCounter
}

// Swapped implements backend.Swapper.
func (d *device) Swapped() backend.Swap {
	d.holdings.mu.Lock()
	defer d.holdings.mu.Unlock()
	return d.holdings.swap.Counts()
}

// enterMovable lists a memory as movable. removeMovable takes the memory off the list, and does not move it.
func (d *device) enterMovable(m *memory) {
	d.holdings.mu.Lock()
	defer d.holdings.mu.Unlock()
	if d.holdings.memories == nil {
		d.holdings.memories = map[*memory]bool{}
	}
	d.holdings.memories[m] = true
}

func (d *device) removeMovable(m *memory) {
	d.holdings.mu.Lock()
	defer d.holdings.mu.Unlock()
	delete(d.holdings.memories, m)
}

// countBytes notes bytes that have come to be in the device's memory, or are no longer.
func (d *device) countBytes(more, less uint64) {
	h := &d.holdings
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += more - less
	h.swap.CountHeld(h.now)
}

// createMemory makes physical memory. If the device has no room, memory of spaces that are not mapped leaves.
func (d *device) createMemory(size uint64) (driver.Memory, error) {
	h, err := d.backend.drv.NewMemory(d.dev, size, d.rdma)
	if err != nil {
		return d.retryMemory(size, err)
	}
	return h, nil
}

// retryMemory is createMemory after an attempt that has failed.
func (d *device) retryMemory(size uint64, err error) (h driver.Memory, _ error) {
	for backend.ResultOf(err) == backend.OutOfMemory && d.makeRoom(size) {
		h, err = d.backend.drv.NewMemory(d.dev, size, d.rdma)
	}
	return h, err
}

// makeRoom has memory leave, and tells whether any did.
func (d *device) makeRoom(size uint64) bool {
	d.holdings.mu.Lock()
	all := slices.SortedFunc(maps.Keys(d.holdings.memories), func(a, b *memory) int {
		return cmp.Or(cmp.Compare(a.mappedSince(), b.mappedSince()), cmp.Compare(a.number, b.number))
	})
	d.holdings.mu.Unlock()
	left := uint64(0)
	for _, m := range all {
		if left >= size {
			break
		}
		left += m.swapOutBytes()
	}
	return left > 0
}

// memoriesOf lists a space's memories on the device.
func (d *device) memoriesOf(s *space) []*memory {
	d.holdings.mu.Lock()
	defer d.holdings.mu.Unlock()
	var all []*memory
	for m := range d.holdings.memories {
		if m.owner == s {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *memory) int { return cmp.Compare(a.number, b.number) })
	return all
}

// mappedSince is when the memory's space was mapped last.
func (m *memory) mappedSince() uint64 {
	if m.owner == nil {
		return 0
	}
	return m.owner.turn.Load()
}

// canLeave tells whether no user needs the bytes on the device. The caller holds mu.
func (m *memory) canLeave() bool {
	return m.there && !m.ended && m.lost == nil && m.holds == 0 && m.owner != nil && !m.owner.shown.Load()
}

// swapOutBytes moves the bytes to the host's memory, if no user needs them here, and returns the size. A busy memory is left
// alone: its user may be waiting for this memory.
func (m *memory) swapOutBytes() uint64 {
	if !m.mu.TryLock() {
		return 0
	}
	defer m.mu.Unlock()
	if !m.canLeave() {
		return 0
	}
	return m.swapOutLocked()
}

// swapOutLocked is swapOutBytes of memory that is there and that no user needs. The caller holds mu.
func (m *memory) swapOutLocked() uint64 {
	if m.kept.Load() {
		_ = m.dropPhysical() // a mapping that stays is noticed by the next mapping there
		return m.size
	}
	began := time.Now()
	e := m.planEviction()
	if e.copyBlocks(nil) != nil {
		e.to.freeBlocks()
		return 0
	}
	drv := m.device.backend.drv
	m.there, m.away = false, e.to
	_, _ = drv.Unmap(m.at, m.size), drv.Release(m.handle) // as above
	m.device.countBytes(0, m.size)
	m.device.countMoved(e.countBytes(), 0, e.spared, began)
	return m.size
}

// countReturned notes that the bytes are in the device's memory. The caller holds mu.
func (m *memory) countReturned(began time.Time) {
	m.device.countBytes(m.size, 0)
	if m.away != nil {
		m.freeHostCopy()
		m.device.countMoved(0, m.size, 0, began)
	}
}

// countMoved counts bytes that were moved out of the device's memory and back, bytes that need not be moved, and the time
// since began.
func (d *device) countMoved(out, in, spared uint64, began time.Time) {
	d.holdings.mu.Lock()
	defer d.holdings.mu.Unlock()
	d.holdings.swap.CountMoved(out, in, time.Since(began))
	d.holdings.swap.CountSpared(spared)
}

// countTurn notes that a space of the device is mapped.
func (d *device) countTurn() {
	d.holdings.mu.Lock()
	defer d.holdings.mu.Unlock()
	d.holdings.swap.CountTurn()
}

// freeHostCopy frees the bytes in the host's memory. The caller holds mu.
func (m *memory) freeHostCopy() {
	if m.away != nil {
		m.away.freeBlocks()
		m.away = nil
	}
}
