// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"cmp"
	"slices"
	"sync"
)

// Touched collects which ranges of its Memory a launch has accessed: each range that Map made, as a whole. The
// zero value is empty. What a launch does depends on its Config, its kernel, and the bytes of these ranges alone,
// unless the launch has called a hook.
type Touched struct {
	mu     sync.Mutex
	ranges map[*mapping]bool // true: written
}

// TouchedRange is a range of which a launch has read or written bytes.
type TouchedRange struct {
	Base, Size uint64
	Written    bool
}

// Ranges lists the ranges, by their addresses. No launch may run that collects here.
func (t *Touched) Ranges() []TouchedRange {
	out := make([]TouchedRange, 0, len(t.ranges))
	for r, written := range t.ranges {
		out = append(out, TouchedRange{r.base, r.size, written})
	}
	slices.SortFunc(out, func(a, b TouchedRange) int { return cmp.Compare(a.Base, b.Base) })
	return out
}

// noteTouched notes an access. A site's later accesses to the same range are not noted, and need not be: a site
// either loads or stores.
func (b *block) noteTouched(r *mapping, store bool) {
	if b.run.cfg.Touched == nil {
		return
	}
	if written, known := b.touched[r]; !known || store && !written {
		if b.touched == nil {
			b.touched = map[*mapping]bool{}
		}
		b.touched[r] = store || written
	}
}

// addTouched adds what the block's threads have accessed to what the launch has.
func (b *block) addTouched() {
	t := b.run.cfg.Touched
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ranges == nil {
		t.ranges = map[*mapping]bool{}
	}
	for r, written := range b.touched {
		t.ranges[r] = t.ranges[r] || written
	}
	clear(b.touched)
}
