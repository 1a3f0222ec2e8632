// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Quantum is the alignment of all allocations.
const Quantum = 512

// heap decides where memory is placed. A heap is pure, and a place depends only on the live allocations. They get whole
// granules or, within granules that small allocations share, pieces, each at the lowest address where it fits. So a
// heap need not be saved: the live allocations determine it.
type heap struct {
	base, end backend.Addr
	spans     []span  // used granules, ascending
	slabs     []*slab // granules shared by small allocations, ascending
}

// span is a run of granules with a single owner: a large allocation, a reservation, or a slab.
type span struct {
	base backend.Addr
	size uint64
}

// slab is a granule with small allocations.
type slab struct {
	base backend.Addr
	used []span // ascending
	room uint64 // the largest gap
}

func sharesGranule(n uint64) bool { return n <= backend.Granule/2 }

// RoundUp returns n rounded up to a multiple of to.
func RoundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// lowestGap finds the lowest gap of spans between base and end for n bytes at a multiple of align.
func lowestGap(spans []span, base, end backend.Addr, n, align uint64) (backend.Addr, int, bool) {
	at := backend.Addr(RoundUp(uint64(base), align))
	for i, s := range spans {
		if at+backend.Addr(n) <= s.base && at+backend.Addr(n) > at {
			return at, i, true
		}
		if next := s.base + backend.Addr(s.size); next > at {
			at = backend.Addr(RoundUp(uint64(next), align))
		}
	}
	return at, len(spans), at+backend.Addr(n) <= end && at+backend.Addr(n) > at
}

// granuleBytesNeeded is how many bytes of granules an allocation would need that is placed now.
func (h *heap) granuleBytesNeeded(n uint64) uint64 {
	if !sharesGranule(n) {
		return RoundUp(n, backend.Granule)
	}
	if h.slabFor(RoundUp(n, Quantum)) != nil {
		return 0
	}
	return backend.Granule
}

func (h *heap) slabFor(n uint64) *slab {
	for _, s := range h.slabs {
		if s.room >= n {
			return s
		}
	}
	return nil
}

// placeBytes places n bytes; false if there is no room among the addresses.
func (h *heap) placeBytes(n uint64) (backend.Addr, bool) {
	if !sharesGranule(n) {
		return h.placeGranules(RoundUp(n, backend.Granule), backend.Granule, 0)
	}
	n = RoundUp(n, Quantum)
	s := h.slabFor(n)
	if s == nil {
		a, ok := h.placeGranules(backend.Granule, backend.Granule, 0)
		if !ok {
			return 0, false
		}
		s = h.addSlab(a)
	}
	a, i, _ := lowestGap(s.used, s.base, s.base+backend.Granule, n, Quantum)
	s.used = slices.Insert(s.used, i, span{a, n})
	s.measureGaps()
	return a, true
}

func (h *heap) addSlab(a backend.Addr) *slab {
	s := &slab{base: a, room: backend.Granule}
	i, _ := slices.BinarySearchFunc(h.slabs, a, func(s *slab, a backend.Addr) int { return compareAddrs(s.base, a) })
	h.slabs = slices.Insert(h.slabs, i, s)
	return s
}

func (s *slab) measureGaps() {
	at, room := s.base, uint64(0)
	for _, u := range s.used {
		room = max(room, uint64(u.base-at))
		at = u.base + backend.Addr(u.size)
	}
	s.room = max(room, uint64(s.base+backend.Granule-at))
}

// placeGranules places whole granules: at the hint if that is free, else at the lowest address.
func (h *heap) placeGranules(n, align uint64, hint backend.Addr) (backend.Addr, bool) {
	if hint != 0 && uint64(hint)%align == 0 && h.takeGranulesAt(hint, n) {
		return hint, true
	}
	a, i, ok := lowestGap(h.spans, h.base, h.end, n, align)
	if ok {
		h.spans = slices.Insert(h.spans, i, span{a, n})
	}
	return a, ok
}

// takeGranulesAt places whole granules at an address, if they are free.
func (h *heap) takeGranulesAt(a backend.Addr, n uint64) bool {
	if a < h.base || n == 0 || a+backend.Addr(n) > h.end || a+backend.Addr(n) < a {
		return false
	}
	i, found := h.findSpan(a)
	if found || i > 0 && h.spans[i-1].base+backend.Addr(h.spans[i-1].size) > a || i < len(h.spans) && h.spans[i].base < a+backend.Addr(n) {
		return false
	}
	h.spans = slices.Insert(h.spans, i, span{a, n})
	return true
}

// restoreAt places an allocation at its former place.
func (h *heap) restoreAt(a backend.Addr, n uint64) bool {
	if !sharesGranule(n) {
		return uint64(a)%backend.Granule == 0 && h.takeGranulesAt(a, RoundUp(n, backend.Granule))
	}
	base := a &^ (backend.Granule - 1)
	i, ok := slices.BinarySearchFunc(h.slabs, base, func(s *slab, a backend.Addr) int { return compareAddrs(s.base, a) })
	if !ok {
		if !h.takeGranulesAt(base, backend.Granule) {
			return false
		}
		h.addSlab(base)
	}
	s := h.slabs[i]
	n = RoundUp(n, Quantum)
	k, found := slices.BinarySearchFunc(s.used, a, func(u span, a backend.Addr) int { return compareAddrs(u.base, a) })
	if found || uint64(a)%Quantum != 0 || a+backend.Addr(n) > base+backend.Granule ||
		k > 0 && s.used[k-1].base+backend.Addr(s.used[k-1].size) > a || k < len(s.used) && s.used[k].base < a+backend.Addr(n) {
		return false
	}
	s.used = slices.Insert(s.used, k, span{a, n})
	s.measureGaps()
	return true
}

// freeBytes takes back an allocation that placeBytes or restoreAt placed, and returns how many bytes of granules have
// become free.
func (h *heap) freeBytes(a backend.Addr, n uint64) uint64 {
	if !sharesGranule(n) {
		return h.dropGranules(a)
	}
	base := a &^ (backend.Granule - 1)
	i, _ := slices.BinarySearchFunc(h.slabs, base, func(s *slab, a backend.Addr) int { return compareAddrs(s.base, a) })
	s := h.slabs[i]
	s.used = slices.DeleteFunc(s.used, func(u span) bool { return u.base == a })
	if len(s.used) > 0 {
		s.measureGaps()
		return 0
	}
	h.slabs = slices.Delete(h.slabs, i, i+1)
	return h.dropGranules(base)
}

// dropGranules takes back the granules that begin at an address.
func (h *heap) dropGranules(a backend.Addr) uint64 {
	i, ok := h.findSpan(a)
	if !ok {
		return 0
	}
	n := h.spans[i].size
	h.spans = slices.Delete(h.spans, i, i+1)
	return n
}

func (h *heap) findSpan(a backend.Addr) (int, bool) {
	return slices.BinarySearchFunc(h.spans, a, func(s span, a backend.Addr) int { return compareAddrs(s.base, a) })
}

func compareAddrs(a, b backend.Addr) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}
