// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// mappedRanges are memory at addresses of the heap. To make, map and give back memory takes longer than most uses of
// it, so memory that a pool's allocation has left stays where it was, mapped, until the pool gives the memory back: at
// a synchronisation that finds more than the pool's release threshold, when the pool is trimmed or destroyed, when the
// device has no room, and when other memory must lie there. Allocations with other boundaries take the ranges that lie
// within them, and new memory for the gaps. Memory that was used and is free is dirty. An allocation of a pool may find
// the old bytes, as with a driver, because they were the same program's. Memory of all other allocations is cleared.
//
// The space's mu guards mappedRanges.
type mappedRanges struct {
	space    *space
	unplaced uint64                // memories without an address that were made, in all
	list     []*mappedRange        // ascending
	leaving  map[*mappedRange]bool // to be given back when no work uses them any more
	releases []pendingRelease      // ranges without users: see unlockAndDrop
	kept     uint64                // bytes of ranges that no arena has
}

// mappedRange is memory at an address of the heap.
type mappedRange struct {
	base    backend.Addr
	memory  *memory
	uses    int            // arenas that have the range: one that is live, and those that work still uses
	pool    backend.PoolID // of the allocation that left the range last
	gone    bool           // given back with the last use: other memory will lie there
	dropped bool           // the memory is given back, or is about to be
	dirty   []gap          // ascending; of the range when the range is used, else all of it may be dirty
}

// arenaBytes is the bytes of an arena: ranges one behind the other, or memory without an address.
type arenaBytes struct {
	ranges []*mappedRange
	memory *memory
}

func (x *mappedRange) endAddress() backend.Addr { return x.base + backend.Addr(x.memory.size) }

// firstRange is the index of the first range that ends behind an address.
func (l *mappedRanges) firstRange(a backend.Addr) int {
	i, _ := slices.BinarySearchFunc(l.list, a, func(x *mappedRange, a backend.Addr) int {
		if x.endAddress() <= a {
			return -1
		}
		return 1
	})
	return i
}

// rangesIn are the mapped ranges that overlap a range of addresses.
func (l *mappedRanges) rangesIn(a backend.Addr, n uint64) []*mappedRange {
	i := l.firstRange(a)
	k := i
	for k < len(l.list) && l.list[k].base < a+backend.Addr(n) {
		k++
	}
	return slices.Clone(l.list[i:k])
}

func (l *mappedRanges) enterRange(x *mappedRange) {
	l.list = slices.Insert(l.list, l.firstRange(x.base), x)
}

// retireRange takes a range off the list, so that no allocation gets it any more.
func (l *mappedRanges) retireRange(x *mappedRange) {
	l.list = slices.DeleteFunc(l.list, func(o *mappedRange) bool { return o == x })
	if x.uses == 0 {
		l.countKept(x, false)
	}
	x.gone = true
	l.leaving[x] = true
}

// countKept adds a range to the kept bytes, or subtracts it.
func (l *mappedRanges) countKept(x *mappedRange, more bool) {
	x.memory.kept.Store(more)
	if more {
		l.kept += x.memory.size
	} else {
		l.kept -= x.memory.size
	}
}

// makeBacking makes the bytes of an arena. Ranges that were there and do not fit are given back when no work uses them:
// see waitsForRange, and attachPiece.
func (l *mappedRanges) makeBacking(base backend.Addr, size uint64) (*arenaBytes, error) {
	if base == 0 {
		m, err := l.newMemory(size, l.nextUnplaced())
		return &arenaBytes{memory: m}, err
	}
	end := base + backend.Addr(size)
	b := &arenaBytes{}
	for _, x := range l.rangesIn(base, size) {
		if x.base < base || x.endAddress() > end {
			l.evictRange(x)
			continue
		}
		if x.uses == 0 {
			l.countKept(x, false)
		}
		x.uses++
		b.ranges = append(b.ranges, x)
	}
	for at := base; at < end; {
		next := end
		if i := l.firstRange(at); i < len(l.list) {
			next = min(end, l.list[i].base)
		}
		if next <= at {
			at = l.list[l.firstRange(at)].endAddress()
			continue
		}
		m, err := l.newMemory(uint64(next-at), uint64(at-l.space.cfg.Base))
		if err != nil {
			l.releaseBacking(b, true)
			return nil, err
		}
		x := &mappedRange{base: at, memory: m, uses: 1}
		l.enterRange(x)
		b.ranges = append(b.ranges, x)
		at = next
	}
	return b, nil
}

// nextUnplaced is the place of the next memory without an address: no address is as high.
func (l *mappedRanges) nextUnplaced() uint64 {
	l.unplaced++
	return 1<<63 | l.unplaced
}

// newMemory makes memory. Spaces that have made the same calls have memories at the same places. If the device has no
// room, kept ranges are given back first.
func (l *mappedRanges) newMemory(n, place uint64) (*memory, error) {
	for {
		m, err := l.space.currentDevice().newMemory(n, l.space, place)
		if backend.ResultOf(err) != backend.OutOfMemory || l.dropKept(n, anyRange, l.dropNow) == 0 {
			return m, err
		}
	}
}

// releaseBacking ends a use of all ranges. Those without another use are kept, or given back.
func (l *mappedRanges) releaseBacking(b *arenaBytes, keep bool) {
	for _, x := range b.ranges {
		if x.uses--; x.uses > 0 {
			continue
		}
		if x.gone {
			l.scheduleRelease(x)
			continue
		}
		x.dirty = []gap{{From: x.base, To: x.endAddress()}}
		l.countKept(x, true)
		if !keep {
			l.evictRange(x)
		}
	}
}

// evictRange gives a range back when no work and no arena uses it any more. Until then its addresses are leaving.
func (l *mappedRanges) evictRange(x *mappedRange) {
	l.retireRange(x)
	if x.uses > 0 {
		return // work on freed memory still uses the range: releaseBacking gives it back
	}
	over, marks := l.space.freed.waitsForRange(x.base, x.memory.size)
	if len(over)+len(marks) == 0 {
		l.scheduleRelease(x)
		return
	}
	done := l.space.freed.addFreeing(x.base, x.memory.size)
	go func() {
		defer close(done)
		if l.space.freed.awaitFreed(over, marks) != nil {
			return // all memory goes with the space
		}
		l.space.mu.Lock()
		mine := !l.space.closed
		if mine {
			delete(l.leaving, x)
			x.dropped = true
		}
		l.space.mu.Unlock()
		if mine {
			l.dropRange(x)
		}
	}()
}

// A pendingRelease is an address range that is no longer used. unlockAndDrop returns the range to the driver and then
// closes over.
type pendingRelease struct {
	*mappedRange
	over chan struct{}
}

// scheduleRelease has unlockAndDrop give a range back when mu is unlocked, because the driver is slow.
func (l *mappedRanges) scheduleRelease(x *mappedRange) {
	delete(l.leaving, x)
	x.dropped = true
	l.releases = append(l.releases, pendingRelease{x, l.space.freed.addFreeing(x.base, x.memory.size)})
}

// unlockAndDrop unlocks mu, and gives back the ranges of pending releases.
func (l *mappedRanges) unlockAndDrop() {
	list := l.releases
	l.releases = nil
	l.space.mu.Unlock()
	for _, x := range list {
		l.dropRange(x.mappedRange)
		close(x.over)
	}
}

// dropRange gives the memory back. No work uses it.
func (l *mappedRanges) dropRange(x *mappedRange) {
	_ = l.space.view.removeMemory(x.base, x.memory) // a mapping that stays is noticed by the next mapping there
	_ = x.memory.endMemory()
}

// dropKept gives back ranges that are kept, until so many bytes are free, and returns how many are. Ranges that work
// may still use stay.
func (l *mappedRanges) dropKept(n uint64, which func(*mappedRange) bool, drop func(*mappedRange)) (free uint64) {
	for _, x := range slices.Clone(l.list) {
		if free >= n {
			break
		}
		if x.uses > 0 || !which(x) {
			continue
		}
		if over, marks := l.space.freed.waitsForRange(x.base, x.memory.size); len(over)+len(marks) > 0 {
			continue
		}
		l.retireRange(x)
		drop(x)
		free += x.memory.size
	}
	return free
}

// dropNow is dropRange for a caller that needs the room at once.
func (l *mappedRanges) dropNow(x *mappedRange) {
	delete(l.leaving, x)
	x.dropped = true
	l.dropRange(x)
}

// anyRange, isInPool and isAway choose the ranges that dropKept takes.
func anyRange(*mappedRange) bool { return true }

func isAway(x *mappedRange) bool { return !x.memory.isThere() }

func isInPool(pool backend.PoolID) func(*mappedRange) bool {
	return func(x *mappedRange) bool { return x.pool == pool }
}

// releaseSurplus gives back the bytes that pools keep beyond their thresholds. The program has synchronised.
func (l *mappedRanges) releaseSurplus() {
	l.space.mu.Lock()
	defer l.unlockAndDrop()
	if l.kept == 0 || l.space.closed {
		return
	}
	for pool, n := range l.keptOfPools() {
		l.dropKept(l.space.ledger.Surplus(pool, n), isInPool(pool), l.scheduleRelease)
	}
}

// keptOfPools is how many bytes are kept of each pool.
func (l *mappedRanges) keptOfPools() map[backend.PoolID]uint64 {
	all := map[backend.PoolID]uint64{}
	for _, x := range l.list {
		if x.uses == 0 {
			all[x.pool] += x.memory.size
		}
	}
	return all
}

// waitsToAttach lists the channels to wait for before a piece's memory can be mapped: other memory may lie there. The
// caller holds mu.
func (l *mappedRanges) waitsToAttach(p piece) (all []chan struct{}) {
	for _, x := range p.Arena.Bytes.ranges {
		if !l.space.view.memoryAt(x.base, x.memory) {
			over, _ := l.space.freed.waitsForRange(x.base, x.memory.size)
			all = append(all, over...)
		}
	}
	return all
}

// attachPiece lets work find memory, unless it was freed and given back meanwhile.
func (l *mappedRanges) attachPiece(p piece) error {
	l.space.mu.Lock()
	defer l.space.mu.Unlock()
	for _, x := range p.Arena.Bytes.ranges {
		if x.dropped {
			continue
		}
		if err := l.space.view.addMemory(x.base, x.memory); err != nil {
			return err
		}
	}
	return nil
}

// releasePiece gives the bytes of a piece back that was taken out of the ledger: a pool may keep them. over is the
// channel that the caller closes afterwards: until then other work waits for over instead of the memory.
func (l *mappedRanges) releasePiece(p piece, over chan struct{}) {
	l.space.mu.Lock()
	defer l.unlockAndDrop()
	if over != nil {
		l.space.freed.list = slices.DeleteFunc(l.space.freed.list, func(f freedRange) bool { return f.over == over })
	}
	if l.space.closed {
		return
	}
	l.addDirty(p)
	for _, x := range p.Arena.Bytes.ranges {
		x.pool = p.Alloc.Pool
	}
	if l.space.ledger.Unref(p.Arena) {
		l.releaseBacking(p.Arena.Bytes, p.Alloc.Kind == backend.Pooled)
	}
}

// TrimPool implements backend.Pools.
func (s *space) TrimPool(id backend.PoolID, keep uint64) error {
	if err := s.Calls.TrimPool(id, keep); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.ranges.unlockAndDrop()
	if !s.closed {
		s.ranges.dropKept(s.ledger.Excess(id, s.ranges.keptOfPools()[id], keep), isInPool(id), s.ranges.scheduleRelease)
	}
	return nil
}

// DestroyPool implements backend.Pools. Memory of the pool that work still uses is given back at a later
// synchronisation.
func (s *space) DestroyPool(id backend.PoolID) error {
	if err := s.Calls.DestroyPool(id); err != nil {
		return err
	}
	s.ranges.releaseSurplus()
	return nil
}
