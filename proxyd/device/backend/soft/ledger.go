// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// ledger is what calls may name. The space's lock guards it.
type ledger struct {
	memory uint64 // bytes that may be allocated
	used   uint64
	heap   heap
	allocs []backend.Allocation // ascending by Base

	granules     map[backend.Addr]*arena // bytes of granules, by the address of the first
	lives        map[backend.Addr]*life  // of allocations with bytes of their own
	reservations []backend.Range         // ascending
	memories     map[backend.MemoryID]*physical
	nextMemory   backend.MemoryID
	pools        map[backend.PoolID]*pool
	nextPool     backend.PoolID

	arenas  map[*arena]bool // all that were not given back
	freeing []freeing
}

// arena is bytes with as many references as there is memory in them that is live or still used.
type arena struct {
	bytes []byte
	away  []byte // in the host's memory, while they are not in bytes; see swap.go
	refs  int
	sums  sums
}

// free gives back what newArena made.
func (a *arena) free() {
	freeArena(a.bytes)
	if a.away != nil {
		freeArena(a.away)
	}
}

// freeing is memory that calls may no longer name and that work may still use.
type freeing struct {
	base backend.Addr
	size uint64
	over *mark
}

func (l *ledger) init(base backend.Addr, size, memory uint64) {
	l.memory = memory
	// Above is kernels' heap, which has no more than all memory.
	l.heap = heap{base: base, end: base + backend.Addr(size-roundUp(memory, backend.Granule))}
	l.granules = map[backend.Addr]*arena{}
	l.lives = map[backend.Addr]*life{}
	l.memories = map[backend.MemoryID]*physical{}
	l.pools = map[backend.PoolID]*pool{backend.DefaultPool: {reuse: [3]bool{true, true, true}}}
	l.arenas = map[*arena]bool{}
}

func (l *ledger) newArena(n uint64) (*arena, error) {
	b, err := newArena(n)
	if err != nil {
		return nil, err
	}
	a := &arena{bytes: b}
	l.arenas[a] = true
	return a, nil
}

// unref drops a reference and returns true with the last one: the bytes are to be given back.
func (l *ledger) unref(a *arena) bool {
	a.refs--
	if a.refs > 0 || !l.arenas[a] {
		return false
	}
	delete(l.arenas, a)
	return true
}

// piece is the bytes of one allocation in an arena.
type piece struct {
	alloc backend.Allocation
	arena *arena
	bytes []byte
	life  *life
}

// life tells whether an allocation's bytes may still be mapped: a program can free on one stream what another one has
// not allocated yet. The space's lock guards it.
type life struct{ over bool }

// place finds room for an allocation and enters it. What work still uses of its addresses is to be waited for.
func (l *ledger) place(a backend.Allocation) (piece, []*mark, error) {
	if a.Size == 0 {
		return piece{}, nil, fmt.Errorf("allocate 0 bytes: %w", backend.InvalidValue)
	}
	if a.Size > l.memory || l.used+l.heap.takes(a.Size) > l.memory {
		return piece{}, nil, fmt.Errorf("allocate %d bytes, %d are free: %w", a.Size, l.memory-l.used, backend.OutOfMemory)
	}
	base, ok := l.heap.alloc(a.Size)
	if !ok {
		return piece{}, nil, fmt.Errorf("allocate %d bytes: no addresses are left: %w", a.Size, backend.OutOfMemory)
	}
	a.Base, a.Access = base, true
	p, err := l.enter(a)
	if err != nil {
		l.heap.free(a.Base, a.Size)
		return piece{}, nil, err
	}
	return p, l.waits(a.Base, roundUp(a.Size, quantum)), nil
}

// enter makes the bytes of an allocation that has its place in the heap.
func (l *ledger) enter(a backend.Allocation) (piece, error) {
	first := a.Base &^ (backend.Granule - 1)
	ar := l.granules[first]
	if ar == nil {
		size := roundUp(uint64(a.Base-first)+a.Size, backend.Granule)
		var err error
		if ar, err = l.newArena(size); err != nil {
			return piece{}, err
		}
		l.granules[first] = ar
		l.used += size
	}
	ar.refs++
	l.insert(a)
	l.lives[a.Base] = &life{}
	return l.piece(a, ar), nil
}

// leave takes an allocation out. Its bytes are still there: see unref.
func (l *ledger) leave(a backend.Allocation) piece {
	i, _ := l.at(a.Base)
	l.allocs = slices.Delete(l.allocs, i, i+1)
	first := a.Base &^ (backend.Granule - 1)
	ar := l.granules[first]
	if n := l.heap.free(a.Base, a.Size); n > 0 {
		l.used -= n
		delete(l.granules, first)
	}
	p := l.piece(a, ar)
	delete(l.lives, a.Base)
	return p
}

func (l *ledger) piece(a backend.Allocation, ar *arena) piece {
	at, n := uint64(a.Base&(backend.Granule-1)), roundUp(a.Size, quantum)
	return piece{a, ar, ar.bytes[at:][:n:n], l.lives[a.Base]}
}

func (l *ledger) at(a backend.Addr) (int, bool) {
	return slices.BinarySearchFunc(l.allocs, a, func(x backend.Allocation, a backend.Addr) int { return compare(x.Base, a) })
}

func (l *ledger) insert(a backend.Allocation) {
	i, _ := l.at(a.Base)
	l.allocs = slices.Insert(l.allocs, i, a)
}

// lookup finds the allocation that holds an address.
func (l *ledger) lookup(a backend.Addr) (backend.Allocation, bool) {
	i, found := l.at(a)
	if !found {
		i--
	}
	if i < 0 || a-l.allocs[i].Base >= backend.Addr(extent(l.allocs[i])) {
		return backend.Allocation{}, false
	}
	return l.allocs[i], true
}

// extent is how many bytes can be used of an allocation.
func extent(a backend.Allocation) uint64 {
	if a.Kind == backend.Host {
		return a.Size
	}
	return roundUp(a.Size, quantum)
}

// covers tells whether the device may use all n bytes at an address.
func (l *ledger) covers(a backend.Addr, n uint64) bool {
	if uint64(a)+n < uint64(a) {
		return false
	}
	for end := a + backend.Addr(n); ; {
		x, ok := l.lookup(a)
		if !ok || !x.Access {
			return n == 0
		}
		if a = x.Base + backend.Addr(extent(x)); a >= end {
			return true
		}
	}
}

// free notes that addresses may be given to others, who wait for the mark.
func (l *ledger) free(a backend.Addr, n uint64) *mark {
	over := newMark()
	l.freeing = append(l.freeing, freeing{a, n, over})
	return over
}

// waits lists what must be over before addresses can be used again.
func (l *ledger) waits(a backend.Addr, n uint64) []*mark {
	var out []*mark
	l.freeing = slices.DeleteFunc(l.freeing, func(f freeing) bool { return f.over.done() })
	for _, f := range l.freeing {
		if f.base < a+backend.Addr(n) && a < f.base+backend.Addr(f.size) {
			out = append(out, f.over)
		}
	}
	return out
}
