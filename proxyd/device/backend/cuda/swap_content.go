// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Memory is swapped by its content. A device makes the sums of the blocks of a memory that leaves, and only blocks that
// the host does not have are moved there. If the memory makes room for its twin, the memory of another space that has the
// same size and place, then the twin takes its physical memory over, and only blocks that differ are moved in, while
// later blocks still leave:
//
//	sums of the leaving memory   A B C D E
//	the host has                 A B   D
//	leave                            C   E
//	sums of the twin             A X C D 0
//	come                           X     0
//
// No kernel runs in either space meanwhile, so neither sees that the memory is another one.

// eviction is the way of a memory's bytes to the host.
type eviction struct {
	memory *memory
	sums   []blockSum // nil: the device makes none
	to     *hostCopy
	moved  []int       // blocks that the host does not have
	alike  map[int]int // blocks with the same bytes as an earlier block, which is one of moved
	spared uint64      // bytes that need not be moved, zeros aside; of a takeover, in both directions
}

// planEviction finds the blocks that must be moved. The others are in to afterwards. The caller holds mu.
func (m *memory) planEviction() *eviction {
	e := &eviction{memory: m, to: m.device.backend.copies.newCopy(m.size), alike: map[int]int{}}
	e.sums, _ = m.device.sumBlocks(m.at, m.size) // a failure of the device is one of copies, too
	seen := map[blockSum]int{}
	for i := range e.to.blocks {
		sum := e.sumAt(i)
		if e.sums != nil && e.to.takeKnown(i, sum) {
			e.countSpared(sum)
			continue
		}
		if first, ok := seen[sum]; ok && e.sums != nil {
			e.alike[i] = first
			e.countSpared(sum)
			continue
		}
		seen[sum] = i
		e.moved = append(e.moved, i)
	}
	return e
}

// sumAt is the sum of block i, or zeroSum if sums are not known.
func (e *eviction) sumAt(i int) blockSum {
	if e.sums == nil {
		return zeroSum
	}
	return e.sums[i]
}

// countSpared notes a block that need not be moved, unless the block is zeros.
func (e *eviction) countSpared(sum blockSum) {
	if sum != zeroSum {
		e.spared += backend.Granule
	}
}

// countBytes is how many bytes are moved.
func (e *eviction) countBytes() uint64 { return uint64(len(e.moved)) * backend.Granule }

// copyBlocks moves the bytes, and calls left, unless it is nil, with each block that was moved. The caller holds mu.
func (e *eviction) copyBlocks(left func(i int)) error {
	err := e.memory.device.borrowDriverStream(func(s *driverStream) error {
		return s.copyPartsOut(e.memory.partsOf(e.moved), func(k int, part []byte) error {
			i := e.moved[k]
			if err := e.to.keepBytes(i, e.sumAt(i), part); err != nil {
				return err
			}
			if left != nil {
				left(i)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for i, first := range e.alike {
		if err := e.to.keepBytes(i, e.sums[i], e.to.blocks[first].bytes); err != nil {
			return err
		}
	}
	return nil
}

// partsOf are blocks as parts of the device's memory.
func (m *memory) partsOf(blocks []int) (out []devicePart) {
	for _, i := range blocks {
		out = append(out, devicePart{m.at + backend.Addr(i)*backend.Granule, backend.Granule})
	}
	return out
}

// findTwin finds the memory that can make room for memory that comes back: the twin of the space that was mapped longest
// ago. It is locked.
func (m *memory) findTwin() *memory {
	h := &m.device.holdings
	var twins []*memory
	h.mu.Lock()
	for x := range h.memories {
		if x.size == m.size && x.place == m.place && x.owner != m.owner && x.owner != nil {
			twins = append(twins, x)
		}
	}
	h.mu.Unlock()
	slices.SortFunc(twins, func(a, b *memory) int {
		return cmp.Or(cmp.Compare(a.mappedSince(), b.mappedSince()), cmp.Compare(a.number, b.number))
	})
	for _, x := range twins {
		if !x.mu.TryLock() {
			continue
		}
		if x.canLeave() {
			return x
		}
		x.mu.Unlock()
	}
	return nil
}

// takeTwin brings the bytes to the device in the place of a twin's, which leave, and tells whether there is a twin. After
// an error all is as it was. The caller holds mu.
func (m *memory) takeTwin() (bool, error) {
	if m.away == nil {
		return false, nil
	}
	twin := m.findTwin()
	if twin == nil {
		return false, nil
	}
	defer twin.mu.Unlock()
	began := time.Now()
	e := &eviction{memory: twin} // of a twin whose bytes are not needed
	if !twin.kept.Load() {
		e = twin.planEviction()
	}
	x := &takeover{eviction: e, by: m.away}
	x.planComing()
	if err := x.moveBlocks(); err != nil {
		x.restoreTwin()
		e.freeCopy()
		return true, err
	}
	m.at, twin.at = twin.at, m.at
	m.handle, m.reached = twin.handle, twin.reached
	m.there, twin.there, twin.away = true, false, e.to
	m.freeHostCopy()
	m.device.countMoved(e.countBytes(), x.countBytes(), e.spared, began)
	return true, nil
}

// freeCopy frees the bytes at the host, if there are any.
func (e *eviction) freeCopy() {
	if e.to != nil {
		e.to.freeBlocks()
	}
}

// takeover is a twin's leaving, and the coming of other bytes to its place.
type takeover struct {
	*eviction
	by     *hostCopy // the bytes that come
	coming []int     // blocks that differ

	mu   sync.Mutex
	gone map[int]bool // blocks that are at the host
	more *sync.Cond
	err  error // of the leaving
	over bool  // the leaving has ended
}

// planComing finds the blocks that differ, and those that may be overwritten.
func (x *takeover) planComing() {
	x.more = sync.NewCond(&x.mu)
	x.gone = map[int]bool{}
	stay := map[int]bool{}
	for _, i := range slices.AppendSeq(slices.Clone(x.moved), maps.Keys(x.alike)) {
		stay[i] = true
	}
	for i := range x.by.blocks {
		x.gone[i] = !stay[i]
		sum, known := x.by.sumAt(i)
		if x.sums == nil || !known || sum != x.sums[i] {
			x.coming = append(x.coming, i)
		} else {
			x.countSpared(sum)
		}
	}
}

// countBytes is how many bytes come.
func (x *takeover) countBytes() uint64 { return uint64(len(x.coming)) * backend.Granule }

// moveBlocks moves bytes in both directions at once, each in a stream of its own.
func (x *takeover) moveBlocks() error {
	var wg sync.WaitGroup
	var comes error
	wg.Go(func() {
		comes = x.memory.device.borrowDriverStream(func(s *driverStream) error {
			return s.copyPartsIn(x.memory.partsOf(x.coming), func(k int, part []byte) error {
				if err := x.awaitGone(x.coming[k]); err != nil {
					return err
				}
				x.by.readBlock(x.coming[k], part)
				return nil
			})
		})
	})
	var leaves error
	if x.to != nil {
		leaves = x.copyBlocks(func(i int) { x.noteGone(i) })
	}
	x.endLeaving(leaves)
	wg.Wait()
	return errors.Join(leaves, comes)
}

// noteGone notes that a block is at the host.
func (x *takeover) noteGone(i int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone[i] = true
	x.more.Broadcast()
}

// endLeaving notes that no more blocks leave: all have, unless there was an error.
func (x *takeover) endLeaving(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over, x.err = true, err
	x.more.Broadcast()
}

// awaitGone waits until a block may be overwritten.
func (x *takeover) awaitGone(i int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for !x.gone[i] && !x.over {
		x.more.Wait()
	}
	if x.gone[i] || x.err == nil {
		return nil
	}
	return x.err
}

// restoreTwin brings the twin's bytes back that may have been overwritten, after an error.
func (x *takeover) restoreTwin() {
	if x.to == nil {
		return
	}
	var back []int
	for _, i := range x.coming {
		if x.gone[i] || x.over && x.err == nil {
			back = append(back, i)
		}
	}
	x.memory.lost = x.memory.device.borrowDriverStream(func(s *driverStream) error {
		return s.copyPartsIn(x.memory.partsOf(back), func(k int, part []byte) error {
			x.to.readBlock(back[k], part)
			return nil
		})
	})
}
