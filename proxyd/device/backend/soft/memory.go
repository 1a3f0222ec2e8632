// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Info implements backend.Memory.
func (s *space) Info() (free, total uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.memory - s.ledger.used, s.ledger.memory
}

// Lookup implements backend.Memory.
func (s *space) Lookup(a backend.Addr) (backend.Allocation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.lookup(a)
}

// allowed is InvalidValue unless the device may use all of a range.
func (s *space) allowed(a backend.Addr, n uint64) error {
	s.mu.Lock()
	ok := s.ledger.covers(a, n)
	peers := s.peers
	s.mu.Unlock()
	for _, p := range peers {
		if ok {
			break
		}
		p.mu.Lock()
		ok = p.ledger.covers(a, n)
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
	p, waits, err := s.ledger.place(a)
	s.mu.Unlock()
	if err != nil {
		return piece{}, err
	}
	s.device.grown(s)
	if err := s.await(waits); err != nil {
		return piece{}, err
	}
	return p, s.attach(p)
}

// attach lets work find memory, unless it was freed meanwhile.
func (s *space) attach(p piece) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.life.over {
		return nil
	}
	return s.table.add(p.alloc.Base, p.bytes)
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
	// First the work, then the addresses: who is given them waits for us, so we must not wait for what he does then.
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

// unname takes memory of one of these kinds out of the ledger. Whoever is given its addresses waits for the mark,
// which the caller reaches. The caller holds mu.
func (s *space) unname(a backend.Addr, kinds ...backend.AllocKind) (piece, *mark, error) {
	i, ok := s.ledger.at(a)
	if !ok || !slices.Contains(kinds, s.ledger.allocs[i].Kind) {
		return piece{}, nil, fmt.Errorf("free %#x: no allocation begins there: %w", uint64(a), backend.InvalidValue)
	}
	x := s.ledger.allocs[i]
	if x.Kind == backend.Pooled {
		s.ledger.pooled(x, false)
	}
	over := s.ledger.free(x.Base, extent(x))
	return s.ledger.leave(x), over, nil
}

// unmap takes memory away from work that begins later, and gives its bytes back when nothing uses them.
func (s *space) unmap(p piece) {
	s.mu.Lock()
	if p.life.over = true; s.table.holds(p.alloc.Base, p.bytes) {
		s.table.remove(p.alloc.Base)
	}
	shared := s.ledger.granules[p.alloc.Base&^(backend.Granule-1)] == p.arena
	s.mu.Unlock()
	if shared {
		p.arena.wipe(p.bytes) // for whoever gets it next
	}
	s.giveBack(p.arena)
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
	i, found := s.ledger.at(a)
	if found || i > 0 && s.ledger.allocs[i-1].Base+backend.Addr(extent(s.ledger.allocs[i-1])) > a || i < len(s.ledger.allocs) && s.ledger.allocs[i].Base < a+n {
		s.mu.Unlock()
		return bad
	}
	s.ledger.insert(backend.Allocation{Base: a, Size: uint64(n), Kind: backend.Host, Access: true})
	s.mu.Unlock()
	if err := s.table.add(a, mem); err != nil {
		s.forget(a)
		return err
	}
	return nil
}

// forget takes host memory out of the ledger.
func (s *space) forget(a backend.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.ledger.at(a)
	if !found || s.ledger.allocs[i].Kind != backend.Host {
		return false
	}
	s.ledger.allocs = append(s.ledger.allocs[:i], s.ledger.allocs[i+1:]...)
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
