// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// physical is memory of VMM.
type physical struct {
	arena *arena
	refs  uint32 // the program's
	maps  uint32
}

func misaligned(a backend.Addr, sizes ...uint64) bool {
	for _, n := range sizes {
		if n == 0 || n%backend.Granule != 0 || uint64(a)+n < uint64(a) {
			return true
		}
	}
	return a%backend.Granule != 0
}

// Reserve implements backend.Virtual.
func (s *space) Reserve(size, align uint64, hint backend.Addr) (backend.Addr, error) {
	if misaligned(0, size) || align&(align-1) != 0 || align > 1<<40 {
		return 0, fmt.Errorf("reserve %d bytes aligned to %d: %w", size, align, backend.InvalidValue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	if hint%backend.Granule != 0 {
		hint = 0
	}
	a, ok := s.ledger.heap.granules(size, max(align, backend.Granule), hint)
	if !ok {
		return 0, fmt.Errorf("reserve %d bytes: no addresses are left: %w", size, backend.OutOfMemory)
	}
	i, _ := s.ledger.reservation(a)
	s.ledger.reservations = slices.Insert(s.ledger.reservations, i, backend.Range{Base: a, Size: size})
	return a, nil
}

func (l *ledger) reservation(a backend.Addr) (int, bool) {
	return slices.BinarySearchFunc(l.reservations, a, func(r backend.Range, a backend.Addr) int { return compare(r.Base, a) })
}

// reserved tells whether a range lies in one reservation.
func (l *ledger) reserved(a backend.Addr, n uint64) bool {
	i, found := l.reservation(a)
	if !found {
		i--
	}
	return i >= 0 && a+backend.Addr(n) <= l.reservations[i].Base+backend.Addr(l.reservations[i].Size)
}

// within returns the mappings that overlap a range.
func (l *ledger) within(a backend.Addr, n uint64) []backend.Allocation {
	i, found := l.at(a)
	if !found && i > 0 && l.allocs[i-1].Base+backend.Addr(extent(l.allocs[i-1])) > a {
		i--
	}
	k := i
	for k < len(l.allocs) && l.allocs[k].Base < a+backend.Addr(n) {
		k++
	}
	return slices.Clone(l.allocs[i:k])
}

// Unreserve implements backend.Virtual.
func (s *space) Unreserve(a backend.Addr, size uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.ledger.reservation(a)
	if !found || s.ledger.reservations[i].Size != size || len(s.ledger.within(a, size)) > 0 {
		return fmt.Errorf("unreserve %d bytes at %#x: %w", size, uint64(a), backend.InvalidValue)
	}
	s.ledger.reservations = slices.Delete(s.ledger.reservations, i, i+1)
	s.ledger.heap.drop(a)
	return nil
}

// NewMemory implements backend.Virtual.
func (s *space) NewMemory(size uint64) (backend.MemoryID, error) {
	if misaligned(0, size) {
		return 0, fmt.Errorf("memory of %d bytes: %w", size, backend.InvalidValue)
	}
	id, err := s.newMemory(size)
	if err == nil {
		s.device.grown(s)
	}
	return id, err
}

func (s *space) newMemory(size uint64) (backend.MemoryID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	switch {
	case s.closed:
		return 0, errClosed
	case size > l.memory-l.used:
		return 0, fmt.Errorf("memory of %d bytes, %d are free: %w", size, l.memory-l.used, backend.OutOfMemory)
	}
	ar, err := l.newArena(size)
	if err != nil {
		return 0, err
	}
	ar.refs = 1
	l.used += size
	l.nextMemory++
	l.memories[l.nextMemory] = &physical{arena: ar, refs: 1}
	return l.nextMemory, nil
}

// RetainMemory implements backend.Virtual.
func (s *space) RetainMemory(a backend.Addr) (backend.MemoryID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.ledger.lookup(a)
	if !ok || x.Kind != backend.Mapped {
		return 0, fmt.Errorf("memory at %#x: none is mapped: %w", uint64(a), backend.InvalidValue)
	}
	s.ledger.memories[x.Memory].refs++
	return x.Memory, nil
}

// ReleaseMemory implements backend.Virtual.
func (s *space) ReleaseMemory(id backend.MemoryID) error {
	s.mu.Lock()
	m := s.ledger.memories[id]
	if m == nil || m.refs == 0 {
		s.mu.Unlock()
		return fmt.Errorf("memory %d: %w", id, backend.InvalidValue)
	}
	m.refs--
	last := s.ledger.forgetIfUnused(id)
	s.mu.Unlock()
	if last {
		s.giveBack(m.arena)
	}
	return nil
}

// forgetIfUnused ends a memory that nobody names any more, and returns whether it did.
func (l *ledger) forgetIfUnused(id backend.MemoryID) bool {
	m := l.memories[id]
	if m.refs > 0 || m.maps > 0 {
		return false
	}
	delete(l.memories, id)
	l.used -= uint64(len(m.arena.bytes))
	return true
}

// giveBack drops a reference to bytes once no work uses them.
func (s *space) giveBack(ar *arena) {
	s.yard.bury(func() {
		s.mu.Lock()
		last := s.ledger.unref(ar)
		s.mu.Unlock()
		if last {
			ar.free()
		}
	}, true)
}

// MapMemory implements backend.Virtual.
func (s *space) MapMemory(a backend.Addr, size, offset uint64, id backend.MemoryID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.ledger.memories[id]
	if m == nil || m.refs == 0 || offset != 0 || misaligned(a, size) || size != uint64(len(m.arena.bytes)) ||
		!s.ledger.reserved(a, size) || len(s.ledger.within(a, size)) > 0 {
		return fmt.Errorf("map memory %d at %#x: %w", id, uint64(a), backend.InvalidValue)
	}
	m.maps++
	s.ledger.insert(backend.Allocation{Base: a, Size: size, Kind: backend.Mapped, Memory: id})
	return nil
}

// whole returns the mappings that a range consists of: all of it, and none cut.
func (l *ledger) whole(a backend.Addr, n uint64) ([]backend.Allocation, error) {
	list := l.within(a, n)
	at := a
	for _, x := range list {
		if x.Kind != backend.Mapped || x.Base != at {
			break
		}
		at += backend.Addr(x.Size)
	}
	if misaligned(a, n) || at != a+backend.Addr(n) {
		return nil, fmt.Errorf("%d bytes at %#x are not mapped memory: %w", n, uint64(a), backend.InvalidValue)
	}
	return list, nil
}

// UnmapMemory implements backend.Virtual.
func (s *space) UnmapMemory(a backend.Addr, size uint64) error {
	work := s.work() // first, see free
	s.mu.Lock()
	list, err := s.ledger.whole(a, size)
	if err != nil {
		s.mu.Unlock()
		return fmt.Errorf("unmap: %w", err)
	}
	i, _ := s.ledger.at(a)
	s.ledger.allocs = slices.Delete(s.ledger.allocs, i, i+len(list))
	// Until work that was given before is done, the table holds the bytes too: their last name may be gone before.
	var over []*arena
	for _, x := range list {
		m := s.ledger.memories[x.Memory]
		m.arena.refs++
		over = append(over, m.arena)
		m.maps--
		if s.ledger.forgetIfUnused(x.Memory) {
			over = append(over, m.arena)
		}
	}
	gone := s.ledger.free(a, size)
	s.mu.Unlock()
	s.later(gone, work, func() {
		for _, x := range list {
			s.table.remove(x.Base)
		}
		for _, ar := range over {
			s.giveBack(ar)
		}
	})
	return nil
}

// SetAccess implements backend.Virtual.
func (s *space) SetAccess(a backend.Addr, size uint64, allow bool) error {
	s.mu.Lock()
	list, err := s.ledger.whole(a, size)
	if err != nil {
		s.mu.Unlock()
		return fmt.Errorf("set access: %w", err)
	}
	i, _ := s.ledger.at(a)
	for k := range list {
		s.ledger.allocs[i+k].Access = allow
	}
	waits := s.ledger.waits(a, size)
	s.mu.Unlock()
	if err := s.await(waits); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range list {
		// What another thread has unmapped meanwhile stays so.
		i, found := s.ledger.at(x.Base)
		if !found || s.ledger.allocs[i].Kind != backend.Mapped || s.ledger.allocs[i].Memory != x.Memory || s.ledger.allocs[i].Access != allow {
			continue
		}
		b := s.ledger.memories[x.Memory].arena.bytes
		switch there := s.table.holds(x.Base, b); {
		case allow && !there:
			if err := s.table.add(x.Base, b); err != nil {
				return err
			}
		case !allow && there:
			s.table.remove(x.Base)
		}
	}
	return nil
}
