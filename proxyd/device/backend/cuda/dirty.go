// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
)

// gap is a range of addresses.
type gap struct{ From, To backend.Addr }

// addDirty notes that bytes of a piece are no longer zero, if the memory stays.
func (l *mappedRanges) addDirty(p piece) {
	a, end := p.Alloc.Base, p.Alloc.Base+backend.Addr(p.Size())
	for _, x := range p.Arena.Bytes.ranges {
		if from, to := max(a, x.base), min(end, x.endAddress()); from < to {
			x.dirty = addGap(x.dirty, gap{From: from, To: to})
		}
	}
}

// clearPiece clears all dirty bytes of a piece.
func (l *mappedRanges) clearPiece(p piece) error {
	a, end := p.Alloc.Base, p.Alloc.Base+backend.Addr(p.Size())
	type clearedRange struct {
		memory *memory
		at, n  uint64
	}
	var todo []clearedRange
	l.space.mu.Lock()
	for _, x := range p.Arena.Bytes.ranges {
		var left []gap
		for _, g := range x.dirty {
			from, to := max(a, g.From), min(end, g.To)
			if from >= to {
				left = append(left, g)
				continue
			}
			todo = append(todo, clearedRange{x.memory, uint64(from - x.base), uint64(to - from)})
			if g.From < from {
				left = append(left, gap{From: g.From, To: from})
			}
			if to < g.To {
				left = append(left, gap{From: to, To: g.To})
			}
		}
		x.dirty = left
	}
	l.space.mu.Unlock()
	var errs []error
	for _, c := range todo {
		errs = append(errs, c.memory.clearRange(c.at, c.n))
	}
	return errors.Join(errs...)
}

// hideDirty clears the bytes of a block that belong to no allocation, because a restored space must find them zero.
func (l *mappedRanges) hideDirty(base backend.Addr, block []byte) {
	l.space.mu.Lock()
	defer l.space.mu.Unlock()
	end := base + backend.Addr(len(block))
	for _, x := range l.rangesIn(base, uint64(len(block))) {
		for _, g := range x.dirty {
			from, to := max(base, g.From), min(end, g.To)
			if from >= to {
				continue
			}
			for _, a := range l.space.ledger.Within(from, uint64(to-from)) {
				if a.Base > from {
					clear(block[from-base : a.Base-base])
				}
				from = min(to, max(from, a.Base+backend.Addr(ledger.Extent(a))))
			}
			clear(block[from-base : to-base])
		}
	}
}

// addGap adds a range to an ascending list of ranges that do not touch.
func addGap(list []gap, g gap) []gap {
	i, _ := slices.BinarySearchFunc(list, g, func(o, g gap) int {
		if o.To < g.From {
			return -1
		}
		return 1
	})
	k := i
	for ; k < len(list) && list[k].From <= g.To; k++ {
		g.From, g.To = min(g.From, list[k].From), max(g.To, list[k].To)
	}
	return slices.Replace(list, i, k, g)
}
