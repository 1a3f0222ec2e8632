// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package handles

import (
	"sync"
	"testing"
	"time"
)

// TestRemovedAfterGet: an object that was found last is not found any more after each way to remove objects, nor the
// object that had its handle before.
func TestRemovedAfterGet(t *testing.T) {
	const h = uint64(16)
	for name, remove := range map[string]func(*Table[uint64, int]){
		"Drop":   func(x *Table[uint64, int]) { x.Drop(h) },
		"DropIf": func(x *Table[uint64, int]) { x.DropIf(func(v int) bool { return v == 7 }) },
		"Clear":  func(x *Table[uint64, int]) { x.Clear() },
	} {
		t.Run(name, func(t *testing.T) {
			x := &Table[uint64, int]{}
			checkGet := func(want int, there bool) {
				t.Helper()
				for range 2 {
					if v, ok := x.Get(h); v != want || ok != there {
						t.Errorf("Get: %d, %v; want %d, %v", v, ok, want, there)
					}
				}
			}
			x.Put(h, 7)
			x.Put(h+1, 8)
			checkGet(7, true)
			remove(x)
			checkGet(0, false)
			x.Put(h, 9)
			checkGet(9, true)
		})
	}
}

// TestBlockedAfterGet: while a table is blocked, no user finds an object, also the one that was found last.
func TestBlockedAfterGet(t *testing.T) {
	x := &Table[uint64, int]{}
	x.Put(16, 7)
	x.Get(16)
	release := x.Block()
	found := make(chan struct{})
	go func() {
		x.Get(16)
		close(found)
	}()
	select {
	case <-found:
		t.Error("an object was found in a table that is blocked")
	case <-time.After(20 * time.Millisecond):
	}
	release()
	<-found
}

// TestGetBesideDrop: goroutines that look for two objects while the objects are dropped find no object that was dropped
// before.
func TestGetBesideDrop(t *testing.T) {
	for range 200 {
		x := &Table[uint64, int]{}
		x.Put(16, 16)
		x.Put(17, 17)
		var all sync.WaitGroup
		for k := range 2 {
			h := uint64(16 + k)
			dropped := make(chan struct{})
			all.Go(func() {
				for over := false; ; {
					v, ok := x.Get(h)
					if ok && (over || v != int(h)) {
						t.Errorf("handle %d: object %d, dropped before: %v", h, v, over)
					}
					if over {
						return
					}
					select {
					case <-dropped:
						over = true
					default:
					}
				}
			})
			all.Go(func() {
				x.Drop(h)
				close(dropped)
			})
		}
		all.Wait()
	}
}
