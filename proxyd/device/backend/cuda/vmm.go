// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Reserve implements backend.Virtual.
func (s *space) Reserve(size, align uint64, hint backend.Addr) (backend.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	return s.ledger.Reserve(size, align, hint)
}

// Unreserve implements backend.Virtual.
func (s *space) Unreserve(a backend.Addr, size uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Unreserve(a, size)
}

// NewMemory implements backend.Virtual.
func (s *space) NewMemory(size uint64) (backend.MemoryID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	return s.ledger.NewMemory(size)
}

// RetainMemory implements backend.Virtual.
func (s *space) RetainMemory(a backend.Addr) (backend.MemoryID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.RetainMemory(a)
}

// ReleaseMemory implements backend.Virtual.
func (s *space) ReleaseMemory(id backend.MemoryID) error {
	s.mu.Lock()
	last, err := s.ledger.ReleaseMemory(id)
	s.mu.Unlock()
	if last != nil {
		s.giveBack(last)
	}
	return err
}

// MapMemory implements backend.Virtual.
func (s *space) MapMemory(a backend.Addr, size, offset uint64, id backend.MemoryID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.MapMemory(a, size, offset, id)
}

// UnmapMemory implements backend.Virtual.
func (s *space) UnmapMemory(a backend.Addr, size uint64) error {
	work := s.pendingWork() // first, see freeMemory
	s.mu.Lock()
	list, arenas, err := s.ledger.UnmapMemory(a, size)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	over := s.noteLeaving(a, size)
	s.mu.Unlock()
	s.afterWork(over, work, func() {
		for _, x := range list {
			for _, ar := range arenas {
				_ = s.view.removeMemory(x.Base, ar.Bytes) // either is there, or nothing
			}
		}
		for _, ar := range arenas {
			s.giveBack(ar)
		}
	})
	return nil
}

// SetAccess implements backend.Virtual. A driver has mappings without access; here what may not be used is not mapped at all.
func (s *space) SetAccess(a backend.Addr, size uint64, allow bool) error {
	s.mu.Lock()
	list, err := s.ledger.SetAccess(a, size, allow)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	over := s.waitsForRange(a, size)
	s.mu.Unlock()
	if awaitAll(s.ctx, over) != nil {
		return errClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, x := range list {
		ar, still := s.ledger.Still(x, allow)
		switch {
		case !still: // what another thread has unmapped meanwhile stays so
		case allow:
			errs = append(errs, s.view.putMemory(x.Base, ar.Bytes))
		default:
			errs = append(errs, s.view.removeMemory(x.Base, ar.Bytes))
		}
	}
	return errors.Join(errs...)
}

// NewPool implements backend.Pools.
func (s *space) NewPool(maxSize uint64) (backend.PoolID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	return s.ledger.NewPool(maxSize), nil
}

// DestroyPool implements backend.Pools.
func (s *space) DestroyPool(id backend.PoolID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.DestroyPool(id)
}

// PoolAttribute implements backend.Pools.
func (s *space) PoolAttribute(id backend.PoolID, a backend.PoolAttribute) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.PoolAttribute(id, a)
}

// SetPoolAttribute implements backend.Pools.
func (s *space) SetPoolAttribute(id backend.PoolID, a backend.PoolAttribute, v uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.SetPoolAttribute(id, a, v)
}

// TrimPool implements backend.Pools: a pool holds nothing but what is in use.
func (s *space) TrimPool(id backend.PoolID, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.TrimPool(id)
}
