// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// hostMemory is the part of a space that says where its memory is.
type hostMemory struct{}

// MemoryIsHosted implements backend.HostedMemory.
func (hostMemory) MemoryIsHosted() {}

// NewMemory implements backend.MappableMemory. A space that is mapped has its new memory on the device.
func (s *space) NewMemory(size uint64) (backend.MemoryID, error) {
	id, err := s.Calls.NewMemory(size)
	if err == nil {
		s.at.Load().makeRoomFor(s)
	}
	return id, err
}

// ReleaseMemory implements backend.MappableMemory.
func (s *space) ReleaseMemory(id backend.MemoryID) error {
	s.mu.Lock()
	last, err := s.ledger.ReleaseMemory(id)
	s.mu.Unlock()
	if last != nil {
		s.dropReference(last)
	}
	return err
}

// dropReference drops a reference to bytes once no work uses them.
func (s *space) dropReference(ar *holder) {
	s.reclaimer.freeWhenUnused(func() {
		s.mu.Lock()
		last := s.ledger.Unref(ar)
		s.mu.Unlock()
		if last {
			dropArena(s, ar.Bytes)
		}
	}, true)
}

// UnmapMemory implements backend.MappableMemory. Of work under way, a collective on other memory may last until a program
// on another device has mapped memory.
func (s *space) UnmapMemory(a backend.Addr, size uint64) error {
	work := contextsUse(s, a, size) // first, see freeMemory
	s.mu.Lock()
	list, over, err := s.ledger.UnmapMemory(a, size)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	gone := s.ledger.addFreeing(a, size)
	s.mu.Unlock()
	s.afterMarks(gone, work, func() {
		for _, x := range list {
			s.table.unmapBytes(x.Base)
		}
		for _, ar := range over {
			s.dropReference(ar)
		}
	})
	return nil
}

// SetAccess implements backend.MappableMemory.
func (s *space) SetAccess(a backend.Addr, size uint64, allow bool) error {
	s.mu.Lock()
	list, err := s.ledger.SetAccess(a, size, allow)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	waits := s.ledger.waitsFor(a, size)
	s.mu.Unlock()
	if err := s.awaitMarks(waits); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range list {
		ar, still := s.ledger.Still(x, allow)
		if !still {
			continue // a range that another thread has unmapped meanwhile stays unmapped
		}
		switch there := s.table.holdsBytes(x.Base, ar.Bytes.bytes); {
		case allow && !there:
			if err := s.table.mapBytes(x.Base, ar.Bytes.bytes); err != nil {
				return err
			}
		case !allow && there:
			s.table.unmapBytes(x.Base)
		}
	}
	return nil
}
