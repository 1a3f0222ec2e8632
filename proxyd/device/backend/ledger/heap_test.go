// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// dumb places as the heap says that it does, by looking at every place.
type dumb struct {
	base, end backend.Addr
	live      map[backend.Addr]uint64 // sizes as asked for
	reserved  map[backend.Addr]uint64
}

func (d *dumb) free(a backend.Addr, n uint64) bool {
	for _, m := range []map[backend.Addr]uint64{d.live, d.reserved} {
		for b, k := range m {
			if a < b+backend.Addr(RoundUp(k, Quantum)) && b < a+backend.Addr(n) {
				return false
			}
		}
	}
	return a+backend.Addr(n) <= d.end
}

// kind tells what a granule holds: 0 free, 1 small allocations, 2 other uses.
func (d *dumb) kind(g backend.Addr) int {
	if d.free(g, backend.Granule) {
		return 0
	}
	for b, k := range d.live {
		if sharesGranule(k) && b&^(backend.Granule-1) == g {
			return 1
		}
	}
	return 2
}

func (d *dumb) granules(n uint64) (backend.Addr, bool) {
next:
	for a := d.base; a+backend.Addr(n) <= d.end; a += backend.Granule {
		for g := a; g < a+backend.Addr(n); g += backend.Granule {
			if d.kind(g) != 0 {
				continue next
			}
		}
		return a, true
	}
	return 0, false
}

func (d *dumb) alloc(n uint64) (backend.Addr, bool) {
	if !sharesGranule(n) {
		return d.granules(RoundUp(n, backend.Granule))
	}
	for g := d.base; g < d.end; g += backend.Granule {
		if d.kind(g) != 1 {
			continue
		}
		for a := g; a+backend.Addr(RoundUp(n, Quantum)) <= g+backend.Granule; a += Quantum {
			if d.free(a, RoundUp(n, Quantum)) {
				return a, true
			}
		}
	}
	return d.granules(backend.Granule)
}

func TestHeapAgainstADumbOne(t *testing.T) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		base := backend.DefaultBase
		d := &dumb{base: base, end: base + 12*backend.Granule, live: map[backend.Addr]uint64{}, reserved: map[backend.Addr]uint64{}}
		h := &heap{base: d.base, end: d.end}
		for step := range 60 {
			switch k := rnd.IntN(10); {
			case k < 3 && len(d.live) > 0:
				var all []backend.Addr
				for a := range d.live {
					all = append(all, a)
				}
				slices.Sort(all)
				a := all[rnd.IntN(len(all))]
				n := d.live[a]
				delete(d.live, a)
				gone := uint64(0)
				if !sharesGranule(n) {
					gone = RoundUp(n, backend.Granule)
				} else if d.kind(a&^(backend.Granule-1)) == 0 {
					gone = backend.Granule
				}
				if got := h.freeBytes(a, n); got != gone {
					t.Fatalf("seed %d, step %d: free %#x: %d bytes of granules, want %d", seed, step, uint64(a), got, gone)
				}
			case k == 3 && len(d.reserved) < 2:
				want, ok := d.granules(2 * backend.Granule)
				got, gotOK := h.placeGranules(2*backend.Granule, backend.Granule, 0)
				if gotOK != ok || ok && got != want {
					t.Fatalf("seed %d, step %d: reserved at %#x %v, want %#x %v", seed, step, uint64(got), gotOK, uint64(want), ok)
				}
				if ok {
					d.reserved[got] = 2 * backend.Granule
				}
			default:
				n := uint64(1 + rnd.IntN(700<<10))
				if k == 4 {
					n = uint64(1 + rnd.IntN(3*backend.Granule))
				}
				want, ok := d.alloc(n)
				takes := h.granuleBytesNeeded(n)
				before := len(h.spans)
				got, gotOK := h.placeBytes(n)
				if gotOK != ok || ok && got != want {
					t.Fatalf("seed %d, step %d: %d bytes at %#x %v, want %#x %v", seed, step, n, uint64(got), gotOK, uint64(want), ok)
				}
				if ok && (takes > 0) != (len(h.spans) > before) {
					t.Fatalf("seed %d, step %d: granuleBytesNeeded = %d for an allocation that was placed", seed, step, takes)
				}
				if ok {
					d.live[got] = n
				}
			}
			// The live allocations determine a heap.
			again := &heap{base: d.base, end: d.end}
			for a, n := range d.live {
				if !again.restoreAt(a, n) {
					t.Fatalf("seed %d, step %d: %d bytes cannot be restored at %#x", seed, step, n, uint64(a))
				}
			}
			for a, n := range d.reserved {
				if !again.takeGranulesAt(a, n) {
					t.Fatalf("seed %d, step %d: addresses cannot be reserved at %#x", seed, step, uint64(a))
				}
			}
			if !slices.Equal(again.spans, h.spans) || len(again.slabs) != len(h.slabs) {
				t.Fatalf("seed %d, step %d: restored %v, want %v", seed, step, again.spans, h.spans)
			}
			for i, s := range h.slabs {
				if !reflect.DeepEqual(s, again.slabs[i]) {
					t.Fatalf("seed %d, step %d: restored slab %+v, want %+v", seed, step, again.slabs[i], s)
				}
			}
		}
	}
}
