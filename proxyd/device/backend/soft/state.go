// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// State implements backend.Space.
func (s *space) State() *backend.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	st := &backend.State{
		Base: s.cfg.Base, Memory: s.cfg.Memory, Reservations: slices.Clone(l.reservations),
		NextMemory: l.nextMemory, NextPool: l.nextPool, NextContext: s.nextContext,
	}
	for _, a := range l.allocs {
		if a.Kind != backend.Host {
			st.Allocations = append(st.Allocations, a)
		}
	}
	for id, m := range l.memories {
		st.Memories = append(st.Memories, backend.MemoryState{ID: id, Size: uint64(len(m.arena.bytes)), Refs: m.refs})
	}
	slices.SortFunc(st.Memories, func(a, b backend.MemoryState) int { return compare(backend.Addr(a.ID), backend.Addr(b.ID)) })
	for id, p := range l.pools {
		st.Pools = append(st.Pools, backend.PoolState{
			ID: id, MaxSize: p.maxSize, Destroyed: p.destroyed, Reuse: p.reuse, Threshold: p.threshold, UsedHigh: p.usedHigh, ReservedHigh: p.resHigh,
		})
	}
	if h := s.kernelHeap; h != nil {
		st.KernelHeap = &backend.KernelHeap{Base: h.base, Size: h.size, Pieces: slices.Clone(h.pieces)}
	}
	slices.SortFunc(st.Pools, func(a, b backend.PoolState) int { return int(a.ID) - int(b.ID) })
	return st
}

// restore makes a new space like the one that a state describes. Everything in it is checked: it comes from a file.
func (s *space) restore(st *backend.State) error {
	bad := func(what string, args ...any) error {
		return fmt.Errorf("restore a space: %s: %w", fmt.Sprintf(what, args...), backend.InvalidValue)
	}
	if st.Base != s.cfg.Base || st.Memory != s.cfg.Memory {
		return bad("%d bytes at %#x, not %d at %#x", s.cfg.Memory, uint64(s.cfg.Base), st.Memory, uint64(st.Base))
	}
	l := &s.ledger
	l.nextMemory, l.nextPool, s.nextContext = st.NextMemory, st.NextPool, st.NextContext
	for _, p := range st.Pools {
		if p.ID > st.NextPool || l.pools[p.ID] != nil && p.ID != backend.DefaultPool {
			return bad("pool %d", p.ID)
		}
		l.pools[p.ID] = &pool{
			maxSize: p.MaxSize, destroyed: p.Destroyed, reuse: p.Reuse, threshold: p.Threshold, usedHigh: p.UsedHigh, resHigh: p.ReservedHigh,
		}
	}
	for _, m := range st.Memories {
		if misaligned(0, m.Size) || m.Size > l.memory-l.used || m.ID == 0 || m.ID > st.NextMemory || l.memories[m.ID] != nil {
			return bad("memory %d of %d bytes", m.ID, m.Size)
		}
		ar, err := l.newArena(m.Size)
		if err != nil {
			return err
		}
		ar.refs = 1
		l.used += m.Size
		l.memories[m.ID] = &physical{arena: ar, refs: m.Refs}
	}
	for _, r := range st.Reservations {
		i, _ := l.reservation(r.Base)
		if misaligned(r.Base, r.Size) || !l.heap.take(r.Base, r.Size) {
			return bad("%d addresses at %#x", r.Size, uint64(r.Base))
		}
		l.reservations = slices.Insert(l.reservations, i, r)
	}
	for _, a := range st.Allocations {
		if err := s.restoreAllocation(a); err != nil {
			return bad("%d bytes at %#x: %v", a.Size, uint64(a.Base), err)
		}
	}
	if h := st.KernelHeap; h != nil {
		if err := s.restoreKernelHeap(h); err != nil {
			return bad("kernels' heap: %v", err)
		}
	}
	for id, m := range l.memories {
		if m.refs == 0 && m.maps == 0 {
			return bad("memory %d is nobody's", id)
		}
	}
	return nil
}

func (s *space) restoreAllocation(a backend.Allocation) error {
	l := &s.ledger
	switch a.Kind {
	case backend.Plain, backend.Pooled, backend.Globals:
		if a.Size == 0 || a.Size > l.memory || !a.Access || l.used+l.wants(a) > l.memory || !l.heap.restore(a.Base, a.Size) {
			return fmt.Errorf("no room there")
		}
		p, err := l.enter(a)
		if err != nil {
			return err
		}
		if a.Kind == backend.Pooled {
			pool := l.pools[a.Pool]
			if pool == nil {
				return fmt.Errorf("no pool %d", a.Pool)
			}
			high := *pool
			l.pooled(a, true)
			pool.usedHigh, pool.resHigh = high.usedHigh, high.resHigh
		}
		return s.table.add(a.Base, p.bytes)
	case backend.Mapped:
		m := l.memories[a.Memory]
		if m == nil || a.Offset != 0 || a.Size != uint64(len(m.arena.bytes)) || misaligned(a.Base, a.Size) ||
			!l.reserved(a.Base, a.Size) || len(l.within(a.Base, a.Size)) > 0 {
			return fmt.Errorf("no such mapping")
		}
		m.maps++
		l.insert(a)
		if a.Access {
			return s.table.add(a.Base, m.arena.bytes)
		}
		return nil
	}
	return fmt.Errorf("kind %d", a.Kind)
}

// wants is how many bytes of granules an allocation will take where it was.
func (l *ledger) wants(a backend.Allocation) uint64 {
	if !small(a.Size) {
		return roundUp(a.Size, backend.Granule)
	}
	if l.granules[a.Base&^(backend.Granule-1)] != nil {
		return 0
	}
	return backend.Granule
}

// claim checks that a restored module's variables are there.
func (s *space) claim(a backend.Addr, n uint64, id backend.ContextID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.ledger.lookup(a)
	if n == 0 && !ok {
		return nil
	}
	if !ok || x.Base != a || x.Kind != backend.Globals || x.Size != n || x.Context != id {
		return fmt.Errorf("variables of %d bytes at %#x are not in the state: %w", n, uint64(a), backend.InvalidValue)
	}
	return nil
}

// block finds a block's bytes, and in which arena they are.
func (s *space) block(id backend.BlockID) (*arena, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	bad := fmt.Errorf("block %+v: %w", id, backend.InvalidValue)
	switch {
	case s.closed:
		return nil, nil, errClosed
	case id.Memory != 0:
		m := l.memories[id.Memory]
		if m == nil || id.Base != 0 || id.Offset%backend.Granule != 0 || id.Offset >= uint64(len(m.arena.bytes)) {
			return nil, nil, bad
		}
		return m.arena, m.arena.bytes[id.Offset:][:backend.Granule], nil
	case id.Base%backend.Granule != 0 || id.Offset != 0:
		return nil, nil, bad
	}
	if h := s.kernelHeap; h != nil && id.Base >= h.base && id.Base-h.base < backend.Addr(len(h.arena.bytes)) {
		return h.arena, h.arena.bytes[id.Base-h.base:][:backend.Granule], nil
	}
	i, found := l.heap.span(id.Base)
	if !found {
		i--
	}
	if i < 0 {
		return nil, nil, bad
	}
	span := l.heap.spans[i]
	ar := l.granules[span.base]
	if ar == nil || id.Base-span.base >= backend.Addr(span.size) {
		return nil, nil, bad
	}
	return ar, ar.bytes[id.Base-span.base:][:backend.Granule], nil
}

// ReadBlock implements backend.Space.
func (s *space) ReadBlock(id backend.BlockID, p []byte) (bool, error) {
	_, b, err := s.block(id)
	if err != nil || len(p) != len(b) {
		return false, fmt.Errorf("read block %+v into %d bytes: %w", id, len(p), backend.InvalidValue)
	}
	some := false
	if !s.guard(func() {
		if some = touched(b); some {
			copy(p, b)
		}
	}) {
		return false, errClosed
	}
	return some, nil
}

// WriteBlock implements backend.Space.
func (s *space) WriteBlock(id backend.BlockID, p []byte) error {
	a, b, err := s.block(id)
	if err == nil && p == nil {
		if !s.guard(func() { a.wipe(b) }) {
			return errClosed
		}
		return nil
	}
	if err != nil || len(p) != len(b) {
		return fmt.Errorf("write block %+v of %d bytes: %w", id, len(p), backend.InvalidValue)
	}
	if !s.guard(func() { copy(b, p) }) {
		return errClosed
	}
	return nil
}
