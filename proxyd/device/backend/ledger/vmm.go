// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

func isMisaligned(a backend.Addr, sizes ...uint64) bool {
	for _, n := range sizes {
		if n == 0 || n%backend.Granule != 0 || uint64(a)+n < uint64(a) {
			return true
		}
	}
	return a%backend.Granule != 0
}

// Reserve carries out Reserve of backend.MappableMemory.
func (l *Ledger[B]) Reserve(size, align uint64, hint backend.Addr) (backend.Addr, error) {
	if isMisaligned(0, size) || align&(align-1) != 0 || align > 1<<40 {
		return 0, fmt.Errorf("reserve %d bytes aligned to %d: %w", size, align, backend.InvalidValue)
	}
	if hint%backend.Granule != 0 {
		hint = 0
	}
	a, ok := l.heap.placeGranules(size, max(align, backend.Granule), hint)
	if !ok {
		return 0, fmt.Errorf("reserve %d bytes: no addresses are left: %w", size, backend.OutOfMemory)
	}
	i, _ := l.findReservation(a)
	l.reservations = slices.Insert(l.reservations, i, backend.Range{Base: a, Size: size})
	return a, nil
}

func (l *Ledger[B]) findReservation(a backend.Addr) (int, bool) {
	return slices.BinarySearchFunc(l.reservations, a, func(r backend.Range, a backend.Addr) int { return compareAddrs(r.Base, a) })
}

// isReserved tells whether a range lies in a single reservation.
func (l *Ledger[B]) isReserved(a backend.Addr, n uint64) bool {
	i, found := l.findReservation(a)
	if !found {
		i--
	}
	return i >= 0 && a+backend.Addr(n) <= l.reservations[i].Base+backend.Addr(l.reservations[i].Size)
}

// Unreserve carries out Unreserve of backend.MappableMemory.
func (l *Ledger[B]) Unreserve(a backend.Addr, size uint64) error {
	i, found := l.findReservation(a)
	if !found || l.reservations[i].Size != size || len(l.Within(a, size)) > 0 {
		return fmt.Errorf("unreserve %d bytes at %#x: %w", size, uint64(a), backend.InvalidValue)
	}
	l.reservations = slices.Delete(l.reservations, i, i+1)
	l.heap.dropGranules(a)
	return nil
}

// NewMemory carries out NewMemory of backend.MappableMemory.
func (l *Ledger[B]) NewMemory(size uint64) (backend.MemoryID, error) {
	if isMisaligned(0, size) {
		return 0, fmt.Errorf("memory of %d bytes: %w", size, backend.InvalidValue)
	}
	if size > l.memory-l.used {
		return 0, fmt.Errorf("memory of %d bytes, %d are free: %w", size, l.memory-l.used, backend.OutOfMemory)
	}
	ar, err := l.NewArena(size)
	if err != nil {
		return 0, err
	}
	l.used += size
	l.nextMemory++
	l.memories[l.nextMemory] = &Physical[B]{Arena: ar, refs: 1}
	return l.nextMemory, nil
}

// Memory finds a memory, or nil.
func (l *Ledger[B]) Memory(id backend.MemoryID) *Physical[B] { return l.memories[id] }

// RetainMemory carries out RetainMemory of backend.MappableMemory.
func (l *Ledger[B]) RetainMemory(a backend.Addr) (backend.MemoryID, error) {
	x, ok := l.Lookup(a)
	if !ok || x.Kind != backend.Mapped {
		return 0, fmt.Errorf("memory at %#x: none is mapped: %w", uint64(a), backend.InvalidValue)
	}
	l.memories[x.Memory].refs++
	return x.Memory, nil
}

// ReleaseMemory carries out ReleaseMemory of backend.MappableMemory. It returns the bytes that are to be given back
// with the memory's last name, or nil.
func (l *Ledger[B]) ReleaseMemory(id backend.MemoryID) (*Arena[B], error) {
	m := l.memories[id]
	if m == nil || m.refs == 0 {
		return nil, fmt.Errorf("memory %d: %w", id, backend.InvalidValue)
	}
	m.refs--
	if l.forgetIfUnused(id) {
		return m.Arena, nil
	}
	return nil, nil
}

// forgetIfUnused ends a memory without names, and returns whether it did.
func (l *Ledger[B]) forgetIfUnused(id backend.MemoryID) bool {
	m := l.memories[id]
	if m.refs > 0 || m.maps > 0 {
		return false
	}
	delete(l.memories, id)
	l.used -= m.Arena.Size
	return true
}

// MapMemory carries out MapMemory of backend.MappableMemory.
func (l *Ledger[B]) MapMemory(a backend.Addr, size, offset uint64, id backend.MemoryID) error {
	m := l.memories[id]
	if m == nil || m.refs == 0 || offset != 0 || isMisaligned(a, size) || size != m.Arena.Size ||
		!l.isReserved(a, size) || len(l.Within(a, size)) > 0 {
		return fmt.Errorf("map memory %d at %#x: %w", id, uint64(a), backend.InvalidValue)
	}
	m.maps++
	l.Insert(backend.Allocation{Base: a, Size: size, Kind: backend.Mapped, Memory: id})
	return nil
}

// wholeMappings returns the mappings that a range consists of: the whole range, and no mapping cut.
func (l *Ledger[B]) wholeMappings(a backend.Addr, n uint64) ([]backend.Allocation, error) {
	list := l.Within(a, n)
	at := a
	for _, x := range list {
		if x.Kind != backend.Mapped || x.Base != at {
			break
		}
		at += backend.Addr(x.Size)
	}
	if isMisaligned(a, n) || at != a+backend.Addr(n) {
		return nil, fmt.Errorf("%d bytes at %#x are not mapped memory: %w", n, uint64(a), backend.InvalidValue)
	}
	return list, nil
}

// UnmapMemory carries out UnmapMemory of backend.MappableMemory. It returns the mappings, and the bytes of which a
// reference is to be dropped when no earlier work uses them any more: until then work finds them, although their
// last name may be gone.
func (l *Ledger[B]) UnmapMemory(a backend.Addr, size uint64) ([]backend.Allocation, []*Arena[B], error) {
	list, err := l.wholeMappings(a, size)
	if err != nil {
		return nil, nil, fmt.Errorf("unmap: %w", err)
	}
	i, _ := l.searchAllocation(a)
	l.allocs = slices.Delete(l.allocs, i, i+len(list))
	var over []*Arena[B]
	for _, x := range list {
		m := l.memories[x.Memory]
		m.Arena.refs++
		over = append(over, m.Arena)
		m.maps--
		if l.forgetIfUnused(x.Memory) {
			over = append(over, m.Arena)
		}
	}
	return list, over, nil
}

// SetAccess carries out SetAccess of backend.MappableMemory. It returns the mappings.
func (l *Ledger[B]) SetAccess(a backend.Addr, size uint64, allow bool) ([]backend.Allocation, error) {
	list, err := l.wholeMappings(a, size)
	if err != nil {
		return nil, fmt.Errorf("set access: %w", err)
	}
	i, _ := l.searchAllocation(a)
	for k := range list {
		l.allocs[i+k].Access = allow
	}
	return list, nil
}

// Still returns the arena of a mapping if the mapping has not changed since.
func (l *Ledger[B]) Still(x backend.Allocation, allow bool) (*Arena[B], bool) {
	now, found := l.At(x.Base)
	if !found || now.Kind != backend.Mapped || now.Memory != x.Memory || now.Access != allow {
		return nil, false
	}
	return l.memories[x.Memory].Arena, true
}
