// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

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

// UnmapMemory implements backend.MappableMemory. Of work under way, a collective on other memory may last until a program
// on another device has mapped memory.
func (s *space) UnmapMemory(a backend.Addr, size uint64) error {
	var work []*mark // first, see freeMemory
	for _, st := range s.allStreams() {
		if m := st.useMark(a, size); m != nil {
			work = append(work, m)
		}
	}
	s.mu.Lock()
	list, arenas, err := s.ledger.UnmapMemory(a, size)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	over := s.freed.addFreeing(a, size)
	s.mu.Unlock()
	s.afterWork(over, work, func() {
		for _, x := range list {
			for _, ar := range arenas {
				_ = s.view.removeMemory(x.Base, ar.Bytes.memory) // one of these memories is there, or no memory is
			}
		}
		for _, ar := range arenas {
			s.dropReference(ar)
		}
	})
	return nil
}

// SetAccess implements backend.MappableMemory. A driver has mappings without access; here memory that may not be used
// is not mapped at all.
func (s *space) SetAccess(a backend.Addr, size uint64, allow bool) error {
	s.mu.Lock()
	list, err := s.ledger.SetAccess(a, size, allow)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	for _, x := range s.ranges.rangesIn(a, size) {
		s.ranges.evictRange(x) // of allocations that were there before the addresses were reserved
	}
	over, marks := s.freed.waitsForRange(a, size)
	s.ranges.unlockAndDrop()
	if s.freed.awaitFreed(over, marks) != nil {
		return errClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, x := range list {
		ar, still := s.ledger.Still(x, allow)
		switch {
		case !still: // a range that another thread has unmapped meanwhile stays unmapped
		case allow:
			errs = append(errs, s.view.addMemory(x.Base, ar.Bytes.memory))
		default:
			errs = append(errs, s.view.removeMemory(x.Base, ar.Bytes.memory))
		}
	}
	return errors.Join(errs...)
}
