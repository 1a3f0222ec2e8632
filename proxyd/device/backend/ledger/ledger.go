// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger decides the meaning of a space's addresses: where memory is placed, and which addresses and numbers
// calls may name. The package is pure, and the same for every backend, so that a program has the same addresses on all
// of them. The backend chooses the type B of bytes, with a value for each piece of memory.
//
//	Ledger        the allocations, reservations and mappings of a space
//	├─ heap       where memory is placed
//	├─ Arena      a piece of memory with bytes: granules, or physical memory of VMM
//	├─ Pool       counts
//	└─ Calls      a program's calls that concern the ledger alone
//
// No type here has a lock of its own: the space's lock guards its ledger. Calls takes that lock.
package ledger

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Ledger has the allocations, memories, pools and addresses that calls may name in a space.
type Ledger[B any] struct {
	make   func(base backend.Addr, size uint64) (B, error)
	base   backend.Addr
	memory uint64 // bytes that may be allocated
	used   uint64
	heap   heap
	allocs []backend.Allocation // ascending by Base

	granules     map[backend.Addr]*Arena[B] // by the address of the first
	lives        map[backend.Addr]*Life     // of allocations with bytes of their own
	reservations []backend.Range            // ascending
	memories     map[backend.MemoryID]*Physical[B]
	nextMemory   backend.MemoryID
	pools        map[backend.PoolID]*Pool
	nextPool     backend.PoolID

	arenas map[*Arena[B]]bool // all that were not given back

	imports map[backend.Addr]*Arena[B] // of other spaces, by the address of the first granule
	// SharedBytes are the bytes of granules that were shared before a restore: this space's own, or another space's.
	// Nil: the backend shares no memory.
	SharedBytes func(m backend.SharedMemory, size uint64, own bool) (B, error)
	shared      map[backend.Addr]backend.SharedMemory // during a restore, the space's own
}

// Arena is bytes, with a reference for each piece of memory in them that is live or still used.
type Arena[B any] struct {
	Base  backend.Addr // of granules; 0 for VMM
	Size  uint64
	Bytes B
	refs  int
}

// Physical is memory of VMM.
type Physical[B any] struct {
	Arena *Arena[B]
	refs  uint32 // the program's
	maps  uint32
}

// Life tells whether work may still find an allocation's bytes: a program can free memory on a stream before another
// stream has come to allocate it. The space's lock guards a Life.
type Life struct{ Over bool }

// Piece is an allocation in its arena.
type Piece[B any] struct {
	Alloc backend.Allocation
	Arena *Arena[B]
	Life  *Life
}

// Offset is where the piece begins in its arena, and Size is its usable length.
func (p Piece[B]) Offset() uint64 { return uint64(p.Alloc.Base & (backend.Granule - 1)) }

// Size is how many bytes of the arena are the piece's.
func (p Piece[B]) Size() uint64 { return RoundUp(p.Alloc.Size, Quantum) }

// New returns an empty ledger of size addresses from base on and so much memory. make makes the bytes of granules at an
// address, or bytes of memory without an address if that is 0.
func New[B any](base backend.Addr, size, memory uint64, make func(base backend.Addr, size uint64) (B, error)) *Ledger[B] {
	return &Ledger[B]{
		make: make, base: base, memory: memory,
		// Above is kernels' heap, which is never larger than all memory.
		heap:     heap{base: base, end: base + backend.Addr(size-RoundUp(memory, backend.Granule))},
		granules: map[backend.Addr]*Arena[B]{}, lives: map[backend.Addr]*Life{}, memories: map[backend.MemoryID]*Physical[B]{},
		pools:  map[backend.PoolID]*Pool{backend.DefaultPool: {reuse: [3]bool{true, true, true}}},
		arenas: map[*Arena[B]]bool{}, imports: map[backend.Addr]*Arena[B]{},
	}
}

// Info returns the number of free bytes and of all bytes.
func (l *Ledger[B]) Info() (free, total uint64) { return l.memory - l.used, l.memory }

// End is the first address that is never placed.
func (l *Ledger[B]) End() backend.Addr { return l.heap.end }

// Allocations lists all, ascending. The caller does not change the list.
func (l *Ledger[B]) Allocations() []backend.Allocation { return l.allocs }

// Arenas calls f for all arenas that were not given back.
func (l *Ledger[B]) Arenas(f func(*Arena[B])) {
	for a := range l.arenas {
		f(a)
	}
}

// NewArena makes bytes beside the space's memory, which is not counted.
func (l *Ledger[B]) NewArena(n uint64) (*Arena[B], error) { return l.newArenaAt(0, n) }

func (l *Ledger[B]) newArenaAt(base backend.Addr, n uint64) (*Arena[B], error) {
	var b B
	var err error
	if m, is := l.shared[base]; is {
		b, err = l.SharedBytes(m, n, true)
	} else {
		b, err = l.make(base, n)
	}
	if err != nil {
		return nil, err
	}
	return addArena(l, base, n, b), nil
}

// addArena adds bytes that exist already.
func addArena[B any](l *Ledger[B], base backend.Addr, n uint64, b B) *Arena[B] {
	a := &Arena[B]{Base: base, Size: n, Bytes: b, refs: 1}
	l.arenas[a] = true
	return a
}

// Ref adds a reference, and Unref drops one: Unref returns true with the last, when the bytes are to be given back.
func (l *Ledger[B]) Ref(a *Arena[B]) { a.refs++ }

// Unref is Ref's reverse.
func (l *Ledger[B]) Unref(a *Arena[B]) bool {
	a.refs--
	if a.refs > 0 || !l.arenas[a] {
		return false
	}
	delete(l.arenas, a)
	return true
}

// Forget lets the caller give an arena back, although it may still be in use. It returns true the first time.
func (l *Ledger[B]) Forget(a *Arena[B]) bool {
	was := l.arenas[a]
	delete(l.arenas, a)
	return was
}

// Place finds room for an allocation and enters the allocation.
func (l *Ledger[B]) Place(a backend.Allocation) (Piece[B], error) {
	if a.Size == 0 {
		return Piece[B]{}, fmt.Errorf("allocate 0 bytes: %w", backend.InvalidValue)
	}
	if a.Size > l.memory || l.used+l.heap.granuleBytesNeeded(a.Size) > l.memory {
		return Piece[B]{}, fmt.Errorf("allocate %d bytes, %d are free: %w", a.Size, l.memory-l.used, backend.OutOfMemory)
	}
	base, ok := l.heap.placeBytes(a.Size)
	if !ok {
		return Piece[B]{}, fmt.Errorf("allocate %d bytes: no addresses are left: %w", a.Size, backend.OutOfMemory)
	}
	a.Base, a.Access = base, true
	p, err := l.enterAllocation(a)
	if err != nil {
		l.heap.freeBytes(a.Base, a.Size)
		return Piece[B]{}, err
	}
	return p, nil
}

// enterAllocation makes the bytes of an allocation that has its place in the heap.
func (l *Ledger[B]) enterAllocation(a backend.Allocation) (Piece[B], error) {
	first := a.Base &^ (backend.Granule - 1)
	ar := l.granules[first]
	if ar == nil {
		size := RoundUp(uint64(a.Base-first)+a.Size, backend.Granule)
		var err error
		if ar, err = l.newArenaAt(first, size); err != nil {
			return Piece[B]{}, err
		}
		ar.refs = 0
		l.granules[first] = ar
		l.used += size
	}
	ar.refs++
	l.Insert(a)
	l.lives[a.Base] = &Life{}
	return l.pieceOf(a, ar), nil
}

// Leave takes an allocation out. Its bytes are still there: see Unref.
func (l *Ledger[B]) Leave(a backend.Allocation) Piece[B] {
	l.Remove(a.Base)
	first := a.Base &^ (backend.Granule - 1)
	ar := l.granules[first]
	if n := l.heap.freeBytes(a.Base, a.Size); n > 0 {
		l.used -= n
		delete(l.granules, first)
	}
	p := l.pieceOf(a, ar)
	delete(l.lives, a.Base)
	return p
}

// Shared tells whether a piece's arena has other memory that is live.
func (l *Ledger[B]) Shared(p Piece[B]) bool {
	return l.granules[p.Alloc.Base&^(backend.Granule-1)] == p.Arena
}

// Pieces lists the allocations with bytes of their own, ascending.
func (l *Ledger[B]) Pieces() []Piece[B] {
	var out []Piece[B]
	for _, a := range l.allocs {
		if l.lives[a.Base] != nil {
			out = append(out, l.pieceOf(a, l.granules[a.Base&^(backend.Granule-1)]))
		}
	}
	return out
}

func (l *Ledger[B]) pieceOf(a backend.Allocation, ar *Arena[B]) Piece[B] {
	return Piece[B]{a, ar, l.lives[a.Base]}
}

// At finds the allocation that begins at an address.
func (l *Ledger[B]) At(a backend.Addr) (backend.Allocation, bool) {
	i, found := l.searchAllocation(a)
	if !found {
		return backend.Allocation{}, false
	}
	return l.allocs[i], true
}

func (l *Ledger[B]) searchAllocation(a backend.Addr) (int, bool) {
	return slices.BinarySearchFunc(l.allocs, a, func(x backend.Allocation, a backend.Addr) int { return compareAddrs(x.Base, a) })
}

// Insert enters an allocation unchanged, and Remove takes an allocation out: host memory, for example.
func (l *Ledger[B]) Insert(a backend.Allocation) {
	i, _ := l.searchAllocation(a.Base)
	l.allocs = slices.Insert(l.allocs, i, a)
}

// Remove is Insert's reverse.
func (l *Ledger[B]) Remove(a backend.Addr) {
	if i, found := l.searchAllocation(a); found {
		l.allocs = slices.Delete(l.allocs, i, i+1)
	}
}

// Lookup finds the allocation that holds an address.
func (l *Ledger[B]) Lookup(a backend.Addr) (backend.Allocation, bool) {
	i, found := l.searchAllocation(a)
	if !found {
		i--
	}
	if i < 0 || a-l.allocs[i].Base >= backend.Addr(Extent(l.allocs[i])) {
		return backend.Allocation{}, false
	}
	return l.allocs[i], true
}

// Extent is how many bytes can be used of an allocation.
func Extent(a backend.Allocation) uint64 {
	if a.Kind == backend.Host {
		return a.Size
	}
	return RoundUp(a.Size, Quantum)
}

// Covers tells whether the device may use all n bytes at an address.
func (l *Ledger[B]) Covers(a backend.Addr, n uint64) bool {
	if uint64(a)+n < uint64(a) {
		return false
	}
	for end := a + backend.Addr(n); ; {
		x, ok := l.Lookup(a)
		if !ok || !x.Access {
			return n == 0
		}
		if a = x.Base + backend.Addr(Extent(x)); a >= end {
			return true
		}
	}
}

// Within returns the allocations that overlap a range.
func (l *Ledger[B]) Within(a backend.Addr, n uint64) []backend.Allocation {
	i, found := l.searchAllocation(a)
	if !found && i > 0 && l.allocs[i-1].Base+backend.Addr(Extent(l.allocs[i-1])) > a {
		i--
	}
	k := i
	for k < len(l.allocs) && l.allocs[k].Base < a+backend.Addr(n) {
		k++
	}
	return slices.Clone(l.allocs[i:k])
}

// Block finds the bytes of a block of State: an arena and an offset in it. InvalidValue if there is no such block.
func (l *Ledger[B]) Block(id backend.BlockID) (*Arena[B], uint64, error) {
	bad := fmt.Errorf("block %+v: %w", id, backend.InvalidValue)
	switch {
	case id.Memory != 0:
		m := l.memories[id.Memory]
		if m == nil || id.Base != 0 || id.Offset%backend.Granule != 0 || id.Offset >= m.Arena.Size {
			return nil, 0, bad
		}
		return m.Arena, id.Offset, nil
	case id.Base%backend.Granule != 0 || id.Offset != 0:
		return nil, 0, bad
	}
	i, found := l.heap.findSpan(id.Base)
	if !found {
		i--
	}
	if i < 0 {
		return nil, 0, bad
	}
	span := l.heap.spans[i]
	ar := l.granules[span.base]
	if ar == nil {
		ar = l.imports[span.base]
	}
	if ar == nil || id.Base-span.base >= backend.Addr(span.size) {
		return nil, 0, bad
	}
	return ar, uint64(id.Base - span.base), nil
}
