// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package handles

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// Handles that the server makes up are (0x100 | class) << 40 | n, with n from 1, and never used again. Handles that the
// shim makes up are below.
const (
	ClassShift  = 40
	FirstServer = 0x100 << ClassShift
)

// Class is a kind of handle that the server makes up.
type Class uint64

// Classes of objects that programs have handles of.
const (
	ModuleClass Class = iota + 1
	FunctionClass
	LibraryClass
	KernelClass
	LinkClass
	PoolClass
	MemoryClass
	GraphExecClass
	BufferClass
	NVMLClass
)

// Handle is the n-th of a class.
func (k Class) Handle(n uint64) uint64 { return FirstServer | uint64(k)<<ClassShift | n }

// Max is how many objects of a class a process may have: more than any program makes, and few enough that a process
// cannot use up the server's memory with them.
const Max = 1 << 20

// Table maps the handles of a class to their objects, in a process. Handles come from the process: Get returns false
// for handles that are unknown, were dropped, or are of another class or process. The zero table is empty; the shim
// makes up its handles unless Class is set. Any goroutine may use a Table.
type Table[H ~uint64, T any] struct {
	Class Class

	mu     sync.RWMutex
	last   uint64
	forced []H // handles of a restored process, which Make gives out first
	all    map[H]*entry[H, T]

	// recent is the entry that was found last: programs name the same stream and the same kernel in many calls in a row. It
	// is set with mu locked for reading, and forgotten with mu locked for writing, before any entry is removed.
	recent atomic.Pointer[entry[H, T]]
}

// entry is an object with its handle.
type entry[H ~uint64, T any] struct {
	handle H
	object T
}

// Get finds the object of a handle.
func (t *Table[H, T]) Get(h H) (T, bool) {
	if e := t.recent.Load(); e != nil && e.handle == h {
		return e.object, true
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.all[h]
	if e == nil {
		var none T
		return none, false
	}
	t.recent.Store(e)
	return e.object, true
}

// lockForRemoval locks mu. Until mu is unlocked, no user of the table finds an object.
func (t *Table[H, T]) lockForRemoval() {
	t.mu.Lock()
	t.recent.Store(nil)
}

// Make gives v a new handle of the server's; OUT_OF_MEMORY if there are too many.
func (t *Table[H, T]) Make(v T) (H, dispatch.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.enterHandle(t.nextHandle(), v)
}

// Put gives v a handle that the shim made up: INVALID_HANDLE if no shim would make h, or h is in use.
func (t *Table[H, T]) Put(h H, v T) dispatch.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, used := t.all[h]; used || h <= 2 || h >= FirstServer {
		return dispatch.ResultInvalidHandle
	}
	_, r := t.enterHandle(h, v)
	return r
}

// PutAt is Put for handles that are addresses of the program.
func (t *Table[H, T]) PutAt(h H, v T) dispatch.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, used := t.all[h]; used {
		return dispatch.ResultHostMemoryAlreadyRegistered
	}
	_, r := t.enterHandle(h, v)
	return r
}

func (t *Table[H, T]) enterHandle(h H, v T) (H, dispatch.Result) {
	if len(t.all) >= Max {
		return 0, dispatch.ResultOutOfMemory
	}
	if t.all == nil {
		t.all = map[H]*entry[H, T]{}
	}
	t.all[h] = &entry[H, T]{h, v}
	return h, 0
}

// Drop removes a handle and returns its object. Of several callers that drop the same handle, one gets true.
func (t *Table[H, T]) Drop(h H) (T, bool) {
	t.lockForRemoval()
	defer t.mu.Unlock()
	e := t.all[h]
	if e == nil {
		var none T
		return none, false
	}
	delete(t.all, h)
	return e.object, true
}

// DropIf removes all matching objects, and returns them in no order.
func (t *Table[H, T]) DropIf(match func(T) bool) []T {
	t.lockForRemoval()
	defer t.mu.Unlock()
	var out []T
	for h, e := range t.all {
		if match(e.object) {
			out = append(out, e.object)
			delete(t.all, h)
		}
	}
	return out
}

// Clear empties the table.
func (t *Table[H, T]) Clear() {
	t.lockForRemoval()
	defer t.mu.Unlock()
	t.all = nil
}

// Block makes all users of the table wait until release is called.
func (t *Table[H, T]) Block() (release func()) {
	t.lockForRemoval()
	return t.mu.Unlock
}

// Values are all objects of the table, in no order.
func (t *Table[H, T]) Values() []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]T, 0, len(t.all))
	for _, e := range t.all {
		out = append(out, e.object)
	}
	return out
}

// Sorted is a table's content by handle.
func Sorted[H ~uint64, T any](t *Table[H, T]) ([]H, []T) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var hs []H
	for h := range t.all {
		hs = append(hs, h)
	}
	slices.Sort(hs)
	vs := make([]T, len(hs))
	for i, h := range hs {
		vs[i] = t.all[h].object
	}
	return hs, vs
}

// Each calls f for each object of a table, in the order of the handles, and collects the results.
func Each[H ~uint64, T, S any](t *Table[H, T], f func(H, T) S) []S {
	hs, vs := Sorted(t)
	var out []S
	for i := range hs {
		out = append(out, f(hs[i], vs[i]))
	}
	return out
}
