// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Lookup implements backend.Memory.
func (s *space) Lookup(a backend.Addr) (backend.Allocation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.findVariable(a, 1); ok {
		return backend.Allocation{Base: v.Addr, Size: v.Size, Kind: backend.Globals, Context: v.module.context.id, Access: true}, true
	}
	return s.ledger.Lookup(a)
}

// checkRange is InvalidValue unless the device may use all of a range.
func (s *space) checkRange(a backend.Addr, n uint64) error {
	s.mu.Lock()
	_, ok := s.findVariable(a, n)
	ok = ok || s.ledger.Covers(a, n)
	peers := slices.Clone(s.peers)
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

// holderOf is the peer that has memory at an address, or else the space itself.
func (s *space) holderOf(a backend.Addr) *space {
	s.mu.Lock()
	_, own := s.ledger.Lookup(a)
	peers := slices.Clone(s.peers)
	s.mu.Unlock()
	if own {
		return s
	}
	for _, p := range peers {
		p.mu.Lock()
		_, there := p.ledger.Lookup(a)
		p.mu.Unlock()
		if there {
			return p
		}
	}
	return s
}

// awaitAll waits for all to be over.
func awaitAll(ctx context.Context, over []chan struct{}) error {
	for _, ch := range over {
		select {
		case <-ch:
			continue
		default:
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// noteLeaving notes that addresses may be given to other allocations, which wait until the channel is closed. The
// caller holds mu.
func (s *space) noteLeaving(a backend.Addr, n uint64) chan struct{} {
	over := make(chan struct{})
	s.freeing = append(s.freeing, freeing{a, n, over})
	return over
}

// waitsForRange lists what must be over before addresses can be used again. The caller holds mu.
func (s *space) waitsForRange(a backend.Addr, n uint64) []chan struct{} {
	s.freeing = slices.DeleteFunc(s.freeing, func(f freeing) bool {
		select {
		case <-f.over:
			return true
		default:
			return false
		}
	})
	var out []chan struct{}
	for _, f := range s.freeing {
		if uint64(f.base) < uint64(a)+n && uint64(a) < uint64(f.base)+f.size {
			out = append(out, f.over)
		}
	}
	return out
}

// waitsFor is waitsForRange for a piece. Its granules may still belong to another memory, of which no piece was at the
// place of p. The caller holds mu.
func (s *space) waitsFor(p piece) []chan struct{} {
	if s.view.memoryAt(p.Arena.Base, p.Arena.Bytes) {
		return s.waitsForRange(p.Alloc.Base, p.Size())
	}
	return s.waitsForRange(p.Arena.Base, p.Arena.Size)
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
	over := s.waitsFor(p)
	s.mu.Unlock()
	if awaitAll(s.ctx, over) != nil {
		return piece{}, errClosed
	}
	if err := s.attachPiece(p); err != nil {
		_ = s.freeMemory(p.Alloc.Base, a.Kind) // placed a moment ago
		return piece{}, err
	}
	return p, nil
}

// attachPiece lets work find memory, unless it was freed meanwhile.
func (s *space) attachPiece(p piece) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Life.Over {
		return nil
	}
	return s.view.putMemory(p.Arena.Base, p.Arena.Bytes)
}

// freeMemory takes the memory that begins at an address out of the ledger and, once all work given so far is done,
// away.
func (s *space) freeMemory(a backend.Addr, kinds ...backend.AllocKind) error {
	// First the work, then the addresses: the next owner of the addresses waits for this work, so this work must not
	// wait for the next owner's.
	work := s.pendingWork()
	s.mu.Lock()
	p, err := s.ledger.Unname(a, kinds...)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	over := s.noteLeaving(p.Alloc.Base, p.Size())
	s.mu.Unlock()
	s.afterWork(over, work, func() { s.unmapPiece(p) })
	return nil
}

// afterWork calls f once all work is done, and then closes over.
func (s *space) afterWork(over chan struct{}, work []*mark, f func()) {
	do := func() {
		defer close(over)
		for _, m := range work {
			if m.waitFor(s.ctx) != nil {
				return // all memory goes with the space
			}
		}
		f()
	}
	if len(work) == 0 {
		do()
		return
	}
	go do()
}

// unmapPiece takes memory away from work that begins later, and gives its bytes back.
func (s *space) unmapPiece(p piece) {
	s.mu.Lock()
	p.Life.Over = true
	shared := s.ledger.Shared(p)
	s.mu.Unlock()
	if shared {
		// For the next owner: memory is promised to be zero.
		if err := p.Arena.Bytes.clearRange(p.Offset(), p.Size()); err != nil {
			s.markBroken(fmt.Errorf("clear memory that was freed: %w", err))
		}
	}
	s.giveBack(p.Arena)
}

// markBroken has all contexts know that the space's memory is damaged.
func (s *space) markBroken(err error) {
	for _, c := range s.allContexts() {
		c.setFault(err)
	}
}

// giveBack drops a reference to bytes.
func (s *space) giveBack(ar *arena) {
	s.mu.Lock()
	last := !s.closed && s.ledger.Unref(ar)
	s.mu.Unlock()
	if !last {
		return
	}
	if ar.Base != 0 {
		_ = s.view.removeMemory(ar.Base, ar.Bytes) // a mapping that stays shows when another is made there
	}
	_ = ar.Bytes.endMemory()
}

// AllocAsync implements backend.Stream.
func (st *stream) AllocAsync(id backend.PoolID, n uint64) (backend.Addr, error) {
	if err := st.waitReady(); err != nil {
		return 0, err
	}
	s := st.context.space
	s.mu.Lock()
	p, err := s.ledger.PlacePooled(id, n)
	if err != nil {
		s.mu.Unlock()
		return 0, err
	}
	over := s.waitsFor(p)
	s.mu.Unlock()
	return p.Alloc.Base, st.enqueueJob(&job{until: over, waits: true, always: true, run: func() error { return s.attachPiece(p) }})
}

// FreeAsync implements backend.Stream.
func (st *stream) FreeAsync(a backend.Addr) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	// The addresses are not given away before the mark is queued, or the job could come to wait for their next owner.
	s := st.context.space.holderOf(a)
	c := st.context
	c.mu.Lock()
	defer c.mu.Unlock()
	s.mu.Lock()
	p, err := s.ledger.Unname(a, backend.Plain, backend.Pooled)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	over := s.noteLeaving(p.Alloc.Base, p.Size())
	s.mu.Unlock()
	m := c.newMark(false)
	if err := st.submitJob(&job{after: st.orderMarks(), mark: m, always: true}); err != nil {
		return err
	}
	s.afterWork(over, []*mark{m}, func() { s.unmapPiece(p) })
	return nil
}
