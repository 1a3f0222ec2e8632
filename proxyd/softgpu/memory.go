// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Info implements backend.Memory.
func (s *space) Info() (free, total uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Info()
}

// Lookup implements backend.Memory.
func (s *space) Lookup(a backend.Addr) (backend.Allocation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Lookup(a)
}

// allowed is InvalidValue unless the device may use all of a range, or might when the space was saved: work that comes too late
// finds nothing there.
func (s *space) allowed(a backend.Addr, n uint64) error {
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

// alloc places memory and maps it, when its addresses are no longer used by earlier work.
func (s *space) alloc(a backend.Allocation) (piece, error) {
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
	waits := s.ledger.waits(p.Alloc.Base, p.Size())
	s.mu.Unlock()
	s.at.Load().grown(s)
	if err := s.await(waits); err != nil {
		return piece{}, err
	}
	return p, s.attach(p)
}

// attach lets work find memory, unless it was freed meanwhile.
func (s *space) attach(p piece) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Life.Over {
		return nil
	}
	return s.table.add(p.Alloc.Base, bytesOf(p))
}

// await waits for marks, or until the space is closed.
func (s *space) await(marks []*mark) error {
	for _, m := range marks {
		if m.wait(s.ctx) != nil {
			return errClosed
		}
	}
	return nil
}

// free takes the memory that begins at an address out of the ledger and, once all work given so far is done, away.
func (s *space) free(a backend.Addr, kinds ...backend.AllocKind) error {
	// First the work, then the addresses: the next owner of the addresses waits for this work, so this work must not
	// wait for the next owner's.
	work := s.work()
	s.mu.Lock()
	p, over, err := s.unname(a, kinds...)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.later(over, work, func() { s.unmap(p) })
	return nil
}

// unname takes memory of these kinds out of the ledger. The next owner of its addresses waits for the mark, which the
// caller reaches. The caller holds mu.
func (s *space) unname(a backend.Addr, kinds ...backend.AllocKind) (piece, *mark, error) {
	p, err := s.ledger.Unname(a, kinds...)
	if err != nil {
		return piece{}, nil, err
	}
	return p, s.ledger.free(p.Alloc.Base, p.Size()), nil
}

// unmap takes memory away from work that begins later, and gives its bytes back when nothing uses them.
func (s *space) unmap(p piece) {
	s.mu.Lock()
	if p.Life.Over = true; s.table.holds(p.Alloc.Base, bytesOf(p)) {
		s.table.remove(p.Alloc.Base)
	}
	shared := s.ledger.Shared(p)
	s.mu.Unlock()
	if shared {
		p.Arena.Bytes.wipe(bytesOf(p)) // for the next owner
	}
	s.giveBack(p.Arena)
}

// later calls f once marks are reached, and then reaches over.
func (s *space) later(over *mark, marks []*mark, f func()) {
	if marks = undone(marks); len(marks) == 0 {
		s.guard(f)
		over.reach()
		return
	}
	go func() {
		defer over.reach()
		if s.await(marks) == nil {
			s.guard(f)
		}
	}()
}

// guard calls f, which touches the space's bytes outside of any job, unless the space is closed.
func (s *space) guard(f func()) bool {
	j := &job{}
	s.begin(j)
	defer s.yard.end(j)
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
		s.forget(a)
		return err
	}
	return nil
}

// forget takes host memory out of the ledger.
func (s *space) forget(a backend.Addr) bool {
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
	if !s.forget(a) {
		return fmt.Errorf("unmap host memory at %#x: none is mapped there: %w", uint64(a), backend.InvalidValue)
	}
	if err := s.await(s.tails()); err != nil {
		return err
	}
	s.table.remove(a)
	gone := newMark()
	s.yard.bury(gone.reach, true)
	<-gone.ch
	return nil
}
