// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// checkRange is InvalidValue unless the device may use all of a range. In a space that is being restored any range
// passes: work that is queued again may name memory that was freed before the save, and such work fails only as it
// runs.
func (s *space) checkRange(a backend.Addr, n uint64) error {
	s.mu.Lock()
	ok := s.restoring || s.ledger.Covers(a, n)
	peers := s.peers
	s.mu.Unlock()
	for _, p := range peers {
		if ok {
			break
		}
		p.mu.Lock()
		ok = p.ledger.Covers(a, n)
		p.mu.Unlock()
	}
	if !ok {
		return fmt.Errorf("%d bytes at %#x are not allocated: %w", n, uint64(a), backend.InvalidValue)
	}
	return nil
}

// placeMemory places memory and maps it, when its addresses are no longer used by earlier work.
func (s *space) placeMemory(a backend.Allocation) (piece, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return piece{}, errClosed
	}
	p, err := s.ledger.Place(a)
	if err != nil {
		s.mu.Unlock()
		return piece{}, err
	}
	waits := s.ledger.waitsFor(p.Alloc.Base, p.Size())
	s.mu.Unlock()
	s.at.Load().makeRoomFor(s)
	if err := s.awaitMarks(waits); err != nil {
		return piece{}, err
	}
	return p, s.attachPiece(p)
}

// attachPiece lets work find memory, unless it was freed meanwhile.
func (s *space) attachPiece(p piece) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Life.Over {
		return nil
	}
	return s.table.mapPiece(p)
}

// awaitMarks waits for marks, or until the space is closed.
func (s *space) awaitMarks(marks []*mark) error {
	for _, m := range marks {
		if m.waitReached(s.ctx) != nil {
			return errClosed
		}
	}
	return nil
}

// freeMemory takes the memory that begins at an address out of the ledger at once, and unmaps it when all work given so
// far is done.
func (s *space) freeMemory(a backend.Addr, kinds ...backend.AllocKind) error {
	// First the work, then the addresses: the next owner of the addresses waits for this work, so this work must not
	// wait for the next owner's.
	work := s.contextsWork()
	s.mu.Lock()
	p, over, err := s.takeFromLedger(a, kinds...)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.afterMarks(over, work, func() { s.unmapPiece(p) })
	return nil
}

// takeFromLedger takes memory of these kinds out of the ledger. The next owner of its addresses waits for the mark,
// which the caller reaches. The caller holds mu.
func (s *space) takeFromLedger(a backend.Addr, kinds ...backend.AllocKind) (piece, *mark, error) {
	p, err := s.ledger.Unname(a, kinds...)
	if err != nil {
		return piece{}, nil, err
	}
	return p, s.ledger.addFreeing(p.Alloc.Base, p.Size()), nil
}

// unmapPiece hides memory from work that begins later, and frees its bytes when no work uses them.
func (s *space) unmapPiece(p piece) {
	s.mu.Lock()
	if p.Life.Over = true; s.table.holdsBytes(p.Alloc.Base, bytesOf(p)) {
		s.table.unmapBytes(p.Alloc.Base)
	}
	shared := s.ledger.Shared(p)
	s.mu.Unlock()
	if shared {
		p.Arena.Bytes.wipeRange(bytesOf(p)) // for the next owner
	}
	s.dropReference(p.Arena)
}

// afterMarks calls f once marks are reached, and then reaches over.
func (s *space) afterMarks(over *mark, marks []*mark, f func()) {
	if marks = unreachedMarks(marks); len(marks) == 0 {
		s.guardBytes(f)
		over.reachMark()
		return
	}
	go func() {
		defer over.reachMark()
		if s.awaitMarks(marks) == nil {
			s.guardBytes(f)
		}
	}()
}

// guardBytes calls f, which touches the space's bytes outside of any operation, unless the space is closed.
func (s *space) guardBytes(f func()) bool { return guardOperation(s, &operation{}, f) }

// guardReading is guardBytes for a function that writes no memory.
func guardReading(s *space, f func()) bool { return guardOperation(s, &operation{wrote: readsOnly}, f) }

// guardOperation is guardBytes with f as an operation.
func guardOperation(s *space, op *operation, f func()) bool {
	s.beginOperation(op)
	defer s.reclaimer.endOperation(op)
	if s.isClosed() {
		return false
	}
	f()
	return true
}

// MapHost implements backend.Memory.
func (s *space) MapHost(a backend.Addr, mem []byte) error {
	bad := fmt.Errorf("map host memory at %#x: %w", uint64(a), backend.InvalidValue)
	n := backend.Addr(len(mem))
	if n == 0 || a%pageSize != 0 || n%pageSize != 0 || a+n < a || a < s.cfg.Base+backend.Addr(s.size) && a+n > s.cfg.Base {
		return bad
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	if len(s.ledger.Within(a, uint64(n))) > 0 {
		s.mu.Unlock()
		return bad
	}
	s.ledger.Insert(backend.Allocation{Base: a, Size: uint64(n), Kind: backend.Host, Access: true})
	s.mu.Unlock()
	if err := s.table.addHost(a, mem); err != nil {
		s.forgetHost(a)
		return err
	}
	return nil
}

// forgetHost takes host memory out of the ledger.
func (s *space) forgetHost(a backend.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, found := s.ledger.At(a)
	if !found || x.Kind != backend.Host {
		return false
	}
	s.ledger.Remove(a)
	return true
}

// UnmapHost implements backend.Memory.
func (s *space) UnmapHost(a backend.Addr) error {
	if !s.forgetHost(a) {
		return fmt.Errorf("unmap host memory at %#x: none is mapped there: %w", uint64(a), backend.InvalidValue)
	}
	if err := s.awaitMarks(s.lastWork()); err != nil {
		return err
	}
	s.table.unmapBytes(a)
	gone := newMark()
	s.reclaimer.freeWhenUnused(gone.reachMark, true)
	gone.awaitReached()
	return nil
}
