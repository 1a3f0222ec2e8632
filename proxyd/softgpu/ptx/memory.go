// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// Generic addresses below MinAddress belong to the windows through which a thread sees its
// block's shared memory, its own local memory and the kernel's parameters. Memory is
// mapped at or above MinAddress.
const (
	sharedWindow   = 1 << 32
	localWindow    = 2 << 32
	paramWindow    = 3 << 32
	functionWindow = 3<<32 + 1<<31 // addresses of functions
	windowSize     = 1 << 31
	MinAddress     = 4 << 32
)

// mapping is a range of addresses with its bytes. A mapping does not change.
type mapping struct {
	base, size uint64
	bytes      []byte
	readOnly   bool
}

// nowhere is the empty range that access sites start with.
var nowhere mapping

// Memory is a device's memory: ranges of 64-bit addresses over bytes of the caller's. The
// zero value is empty. All methods may be called concurrently, with launches too; what a
// launch still uses must not be unmapped.
type Memory struct {
	mu     sync.Mutex
	ranges atomic.Pointer[[]*mapping] // ascending; replaced, never changed
	gone   atomic.Uint64              // times that something was unmapped
}

// Map makes bytes readable and, if they are not readOnly, writable at base. base must be a
// multiple of 256, and the bytes' own address of 16, which the addresses of large allocations are.
// It is an error to map over another range or below MinAddress.
func (m *Memory) Map(base uint64, bytes []byte, readOnly bool) error {
	size := uint64(len(bytes))
	switch {
	case size == 0:
		return fmt.Errorf("map %#x: no bytes", base)
	case base < MinAddress || base+size < base:
		return fmt.Errorf("map %#x: outside of the addresses for memory", base)
	case base%256 != 0 || !isAligned(bytes):
		return fmt.Errorf("map %#x: not aligned", base)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.rangeList()
	i := sort.Search(len(old), func(i int) bool { return old[i].base >= base })
	if i < len(old) && old[i].base-base < size || i > 0 && base-old[i-1].base < old[i-1].size {
		return fmt.Errorf("map %#x: in use", base)
	}
	list := slices.Insert(slices.Clone(old), i, &mapping{base: base, size: size, bytes: bytes, readOnly: readOnly})
	m.ranges.Store(&list)
	return nil
}

// Unmap undoes the Map at base.
func (m *Memory) Unmap(base uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.rangeList()
	i := sort.Search(len(old), func(i int) bool { return old[i].base >= base })
	if i == len(old) || old[i].base != base {
		return fmt.Errorf("unmap %#x: not mapped", base)
	}
	list := slices.Delete(slices.Clone(old), i, i+1)
	m.ranges.Store(&list)
	m.gone.Add(1)
	return nil
}

func (m *Memory) rangeList() []*mapping {
	if p := m.ranges.Load(); p != nil {
		return *p
	}
	return nil
}

// findRange returns the range that holds all of the n bytes at addr, or nil.
func (m *Memory) findRange(addr, n uint64) *mapping {
	list := m.rangeList()
	i := sort.Search(len(list), func(i int) bool { return list[i].base > addr })
	if i == 0 {
		return nil
	}
	if r := list[i-1]; addr-r.base < r.size && r.size-(addr-r.base) >= n {
		return r
	}
	return nil
}

// Bytes returns the n bytes at addr, which lie in a single range, or nil. They are the mapped bytes
// themselves.
func (m *Memory) Bytes(addr, n uint64) []byte {
	r := m.findRange(addr, n)
	if r == nil {
		return nil
	}
	return r.bytes[addr-r.base:][:n:n]
}

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

// localMemory is the local memory of a warp's threads, one after the other.
type localMemory struct {
	data []byte
	size uint32 // of a thread
	used bool
	tops [warpSize]uint32 // end of what alloca gave
}

func (l *localMemory) init(size uint32) {
	l.size = (size + 15) &^ 15
	l.data = make([]byte, uint64(l.size)*warpSize+16)
}

// clearAll clears the memory, so that no block sees what another has left.
func (l *localMemory) clearAll() {
	if l.used {
		clear(l.data)
		l.used = false
	}
	l.tops = [warpSize]uint32{}
}

// laneBytes returns n bytes of a lane's memory; they are within.
func (l *localMemory) laneBytes(lane int, at, n uint32) []byte {
	l.used = true
	return l.data[uint64(lane)*uint64(l.size)+uint64(at):][:n:n]
}

// highestEnd is the highest end of what alloca gave to the lanes m.
func (l *localMemory) highestEnd(m uint32) uint32 {
	t := uint32(0)
	for i := range warpSize {
		if m>>i&1 != 0 {
			t = max(t, l.tops[i])
		}
	}
	return t
}

// restoreTop takes back what the lanes m were given above limit.
func (l *localMemory) restoreTop(m, limit uint32) {
	for i := range warpSize {
		if m>>i&1 != 0 {
			l.tops[i] = min(l.tops[i], limit)
		}
	}
}
