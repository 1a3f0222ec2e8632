// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package handles

import (
	"slices"
)

// AnyTable is a table as seen by a save and a restore.
type AnyTable interface {
	Counter() uint64
	List() []uint64
	Has(uint64) bool
	// Restore has Make continue after the n-th handle, and forget the forced handles.
	Restore(n uint64)
	// Rewind has Make continue after the n-th handle too, unless a later handle is in use.
	Rewind(n uint64)
	// Force has Make give out this handle, once, after the handles forced before.
	Force(h uint64)
}

// Counter is how many handles were made.
func (t *Table[H, T]) Counter() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.last
}

// List has the handles in use, in order.
func (t *Table[H, T]) List() []uint64 {
	hs, _ := Sorted(t)
	out := make([]uint64, len(hs))
	for i, h := range hs {
		out[i] = uint64(h)
	}
	return out
}

// Has tells whether a handle is in use.
func (t *Table[H, T]) Has(h uint64) bool {
	_, ok := t.Get(H(h))
	return ok
}

// Restore implements AnyTable, as the following.
func (t *Table[H, T]) Restore(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.forced = n, nil
}

// Rewind implements AnyTable.
func (t *Table[H, T]) Rewind(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.all {
		if uint64(h) >= FirstServer && uint64(h)&(1<<ClassShift-1) > n {
			return
		}
	}
	t.last = n
}

// Force implements AnyTable.
func (t *Table[H, T]) Force(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.forced, H(h)) {
		t.forced = append(t.forced, H(h))
	}
}

// nextHandle is the handle that Make gives out. The caller holds mu.
func (t *Table[H, T]) nextHandle() H {
	if len(t.forced) > 0 {
		h := t.forced[0]
		t.forced = t.forced[1:]
		return h
	}
	t.last++
	return H(t.Class.Handle(t.last))
}
