// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// State describes the memory, but for contexts and kernels' heap.
func (l *Ledger[B]) State() *backend.State {
	st := &backend.State{
		Base: l.base, Memory: l.memory, Reservations: slices.Clone(l.reservations), NextMemory: l.nextMemory, NextPool: l.nextPool,
	}
	for _, a := range l.allocs {
		if a.Kind != backend.Host {
			st.Allocations = append(st.Allocations, a)
		}
	}
	for id, m := range l.memories {
		st.Memories = append(st.Memories, backend.MemoryState{ID: id, Size: m.Arena.Size, Refs: m.refs})
	}
	slices.SortFunc(st.Memories, func(a, b backend.MemoryState) int { return cmp.Compare(a.ID, b.ID) })
	for id, p := range l.pools {
		st.Pools = append(st.Pools, backend.PoolState{
			ID: id, MaxSize: p.maxSize, Destroyed: p.destroyed, Reuse: p.reuse, Threshold: p.threshold, UsedHigh: p.usedHigh, ReservedHigh: p.resHigh,
		})
	}
	slices.SortFunc(st.Pools, func(a, b backend.PoolState) int { return cmp.Compare(a.ID, b.ID) })
	return st
}

// Restore makes an empty ledger like the described ledger. Everything in the state is checked, because a state comes
// from a file. After an error the caller frees the arenas that were made.
func (l *Ledger[B]) Restore(st *backend.State) error {
	if st.Base != l.base || st.Memory != l.memory {
		return fmt.Errorf("%d bytes at %#x, not %d at %#x", l.memory, uint64(l.base), st.Memory, uint64(st.Base))
	}
	l.nextMemory, l.nextPool = st.NextMemory, st.NextPool
	for _, p := range st.Pools {
		if p.ID > st.NextPool || l.pools[p.ID] != nil && p.ID != backend.DefaultPool {
			return fmt.Errorf("pool %d", p.ID)
		}
		l.pools[p.ID] = &Pool{
			maxSize: p.MaxSize, destroyed: p.Destroyed, reuse: p.Reuse, threshold: p.Threshold, usedHigh: p.UsedHigh, resHigh: p.ReservedHigh,
		}
	}
	for _, m := range st.Memories {
		if isMisaligned(0, m.Size) || m.Size > l.memory-l.used || m.ID == 0 || m.ID > st.NextMemory || l.memories[m.ID] != nil {
			return fmt.Errorf("memory %d of %d bytes", m.ID, m.Size)
		}
		ar, err := l.NewArena(m.Size)
		if err != nil {
			return err
		}
		l.used += m.Size
		l.memories[m.ID] = &Physical[B]{Arena: ar, refs: m.Refs}
	}
	for _, r := range st.Reservations {
		i, _ := l.findReservation(r.Base)
		if isMisaligned(r.Base, r.Size) || !l.heap.takeGranulesAt(r.Base, r.Size) {
			return fmt.Errorf("%d addresses at %#x", r.Size, uint64(r.Base))
		}
		l.reservations = slices.Insert(l.reservations, i, r)
	}
	if err := expectShared(l, st); err != nil {
		return err
	}
	defer func() { l.shared = nil }()
	for _, a := range st.Allocations {
		if err := l.restoreAllocation(a); err != nil {
			return fmt.Errorf("%d bytes at %#x: %w", a.Size, uint64(a.Base), err)
		}
	}
	for id, m := range l.memories {
		if m.refs == 0 && m.maps == 0 {
			return fmt.Errorf("memory %d belongs to no process", id)
		}
	}
	return nil
}

func (l *Ledger[B]) restoreAllocation(a backend.Allocation) error {
	switch a.Kind {
	case backend.Plain, backend.Pooled, backend.Globals:
		if a.Size == 0 || a.Size > l.memory || !a.Access || l.used+l.granuleBytesNeeded(a) > l.memory || !l.heap.restoreAt(a.Base, a.Size) {
			return fmt.Errorf("no room there")
		}
		if _, err := l.enterAllocation(a); err != nil {
			return err
		}
		if a.Kind != backend.Pooled {
			return nil
		}
		p := l.pools[a.Pool]
		if p == nil {
			return fmt.Errorf("no pool %d", a.Pool)
		}
		high := *p
		l.countPooled(a, true)
		p.usedHigh, p.resHigh = high.usedHigh, high.resHigh
		return nil
	case backend.Mapped:
		m := l.memories[a.Memory]
		if m == nil || a.Offset != 0 || a.Size != m.Arena.Size || isMisaligned(a.Base, a.Size) ||
			!l.isReserved(a.Base, a.Size) || len(l.Within(a.Base, a.Size)) > 0 {
			return fmt.Errorf("no such mapping")
		}
		m.maps++
		l.Insert(a)
		return nil
	case backend.Imported:
		return restoreImport(l, a)
	}
	return fmt.Errorf("kind %d", a.Kind)
}

// granuleBytesNeeded is how many bytes of granules an allocation will take at its former place.
func (l *Ledger[B]) granuleBytesNeeded(a backend.Allocation) uint64 {
	if !sharesGranule(a.Size) {
		return RoundUp(a.Size, backend.Granule)
	}
	if l.granules[a.Base&^(backend.Granule-1)] != nil {
		return 0
	}
	return backend.Granule
}

// Claim checks that a restored module's variables are there.
func (l *Ledger[B]) Claim(a backend.Addr, n uint64, id backend.ContextID) error {
	x, ok := l.Lookup(a)
	if n == 0 && !ok {
		return nil
	}
	if !ok || x.Base != a || x.Kind != backend.Globals || x.Size != n || x.Context != id {
		return fmt.Errorf("variables of %d bytes at %#x are not in the state: %w", n, uint64(a), backend.InvalidValue)
	}
	return nil
}

// IDs lists the blocks of a region.
func IDs(r backend.Region) []backend.BlockID {
	out := make([]backend.BlockID, 0, r.Size/backend.Granule)
	for at := uint64(0); at < r.Size; at += backend.Granule {
		if r.Memory != 0 {
			out = append(out, backend.BlockID{Memory: r.Memory, Offset: at})
		} else {
			out = append(out, backend.BlockID{Base: r.Base + backend.Addr(at)})
		}
	}
	return out
}
