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
		return backend.Allocation{Base: v.Addr, Size: v.Size, Kind: backend.Globals, Context: v.module.context.ID(), Access: true}, true
	}
	return s.ledger.Lookup(a)
}

// checkRange returns InvalidValue unless the device may use all of a range.
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

// awaitAll waits until all channels are closed.
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

// placeMemory places zeroed memory, when earlier work no longer uses its addresses.
func (s *space) placeMemory(a backend.Allocation) (piece, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return piece{}, errClosed
	}
	p, err := s.ledger.Place(a)
	if err != nil {
		s.ranges.unlockAndDrop()
		return piece{}, err
	}
	s.ranges.unlockAndDrop()
	s.mu.Lock()
	over, marks := s.freed.waitsForRange(p.Alloc.Base, p.Size())
	over = append(over, s.ranges.waitsToAttach(p)...)
	s.mu.Unlock()
	if s.freed.awaitFreed(over, marks) != nil {
		return piece{}, errClosed
	}
	err = s.ranges.attachPiece(p)
	if err == nil {
		err = s.ranges.clearPiece(p)
	}
	if err != nil {
		_ = s.freeMemory(p.Alloc.Base, a.Kind) // placed a moment ago
		return piece{}, err
	}
	return p, nil
}

// freeMemory takes the memory that begins at an address out of the ledger, and frees it once all work given so far
// is done.
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
	over := s.freed.addFreeing(p.Alloc.Base, p.Size())
	s.mu.Unlock()
	s.afterWork(over, work, func() { s.ranges.releasePiece(p, over) })
	return nil
}

// afterWork calls f once all work is done, and then closes over.
func (s *space) afterWork(over chan struct{}, work []*mark, f func()) {
	do := func() {
		defer close(over)
		for _, m := range work {
			if m.waitFor(s.ctx) != nil {
				return // closing the space frees all memory
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

// dropReference drops a reference to memory without an address.
func (s *space) dropReference(ar *arena) {
	s.mu.Lock()
	last := !s.closed && s.ledger.Unref(ar)
	s.mu.Unlock()
	if last {
		_ = ar.Bytes.memory.endMemory()
	}
}

// AllocAsync implements backend.Stream. For memory that is there and that the same stream has freed, it makes no call
// of the driver.
func (st *stream) AllocAsync(id backend.PoolID, n uint64) (backend.Addr, error) {
	if err := st.waitReady(); err != nil {
		return 0, err
	}
	s := st.context.space
	s.mu.Lock()
	p, err := s.ledger.PlacePooled(id, n)
	if err != nil {
		s.ranges.unlockAndDrop()
		return 0, err
	}
	s.ranges.unlockAndDrop()
	s.mu.Lock()
	over, marks := s.freed.waitsInStream(p.Alloc.Base, p.Size(), st)
	over = append(over, s.ranges.waitsToAttach(p)...)
	s.mu.Unlock()
	if len(over) > 0 {
		return p.Alloc.Base, st.enqueueTask(&task{until: over, after: marks, waits: true, always: true, run: func() error { return s.ranges.attachPiece(p) }})
	}
	if err := s.ranges.attachPiece(p); err != nil {
		_ = s.freeMemory(p.Alloc.Base, backend.Pooled) // placed a moment ago
		return 0, err
	}
	return p.Alloc.Base, st.enqueueTask(&task{after: marks, always: true})
}

// FreeAsync implements backend.Stream.
func (st *stream) FreeAsync(a backend.Addr) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	// The addresses are given away only after the mark is queued, or the task could wait for their next owner.
	s := st.context.space.holderOf(a)
	c := st.context
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.newMark(false)
	s.mu.Lock()
	p, err := s.ledger.Unname(a, backend.Plain, backend.Pooled)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	pooled := p.Alloc.Kind == backend.Pooled
	var over chan struct{}
	if pooled {
		s.freed.addMark(p, m, st)
	} else {
		over = s.freed.addFreeing(p.Alloc.Base, p.Size())
	}
	s.mu.Unlock()
	if err := st.submitTask(&task{after: st.orderMarks(), mark: m, always: true}); err != nil {
		return err
	}
	if pooled {
		s.ranges.releasePiece(p, nil)
		s.freed.retireMark()
	} else {
		s.afterWork(over, []*mark{m}, func() { s.ranges.releasePiece(p, over) })
	}
	return nil
}
