// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

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
	SharedWindow   = 1 << 32
	LocalWindow    = 2 << 32
	ParamWindow    = 3 << 32
	FunctionWindow = 3<<32 + 1<<31 // addresses of functions
	WindowSize     = 1 << 31
	MinAddress     = 4 << 32
)

// Range is a range of addresses with its bytes. A Range does not change.
type Range struct {
	Base, Size uint64
	Bytes      []byte
	ReadOnly   bool
}

// Nowhere is the empty range that access sites start with.
var Nowhere Range

// Memory is a device's memory: ranges of 64-bit addresses over bytes of the caller's. The zero value is empty. All
// methods may be called concurrently, with launches too; a range that a launch still uses must not be unmapped.
type Memory struct {
	mu     sync.Mutex
	ranges atomic.Pointer[[]*Range] // ascending; replaced, never changed
	gone   atomic.Uint64            // times that a range was unmapped
	whole  *Memory                  // of a View: the Memory that it shows
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
	i := sort.Search(len(old), func(i int) bool { return old[i].Base >= base })
	if i < len(old) && old[i].Base-base < size || i > 0 && base-old[i-1].Base < old[i-1].Size {
		return fmt.Errorf("map %#x: in use", base)
	}
	list := slices.Insert(slices.Clone(old), i, &Range{Base: base, Size: size, Bytes: bytes, ReadOnly: readOnly})
	m.ranges.Store(&list)
	return nil
}

// Unmap undoes the Map at base.
func (m *Memory) Unmap(base uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.rangeList()
	i := sort.Search(len(old), func(i int) bool { return old[i].Base >= base })
	if i == len(old) || old[i].Base != base {
		return fmt.Errorf("unmap %#x: not mapped", base)
	}
	list := slices.Delete(slices.Clone(old), i, i+1)
	m.ranges.Store(&list)
	m.gone.Add(1)
	return nil
}

// Unmapped counts how often a range was unmapped.
func (m *Memory) Unmapped() uint64 {
	if m.whole != nil {
		return m.whole.Unmapped()
	}
	return m.gone.Load()
}

// Part is a part of a range.
type Part struct{ Base, Size uint64 }

// View returns a Memory that shows the ranges of m, some of them in parts. An access within a part finds a Range that
// is the part alone, so TouchedRanges tells which parts a launch has accessed. Any other access finds the range of m.
// Parts ascend and do not overlap; each lies in a range of m, which stays for as long as the View is in use. Map must
// not be called on a View.
func (m *Memory) View(parts []Part) *Memory {
	list := make([]*Range, 0, len(parts))
	for _, p := range parts {
		if r := m.FindRange(p.Base, p.Size); r != nil && p.Size > 0 {
			list = append(list, &Range{Base: p.Base, Size: p.Size, Bytes: r.Bytes[p.Base-r.Base:][:p.Size:p.Size], ReadOnly: r.ReadOnly})
		}
	}
	v := &Memory{whole: m}
	v.ranges.Store(&list)
	return v
}

func (m *Memory) rangeList() []*Range {
	if p := m.ranges.Load(); p != nil {
		return *p
	}
	return nil
}

// FindRange returns the range that holds all of the n bytes at addr, or nil.
func (m *Memory) FindRange(addr, n uint64) *Range {
	list := m.rangeList()
	i := sort.Search(len(list), func(i int) bool { return list[i].Base > addr })
	if i > 0 {
		if r := list[i-1]; addr-r.Base < r.Size && r.Size-(addr-r.Base) >= n {
			return r
		}
	}
	if m.whole != nil {
		return m.whole.FindRange(addr, n)
	}
	return nil
}

// Bytes returns the n bytes at addr, which lie in a single range, or nil. They are the mapped bytes
// themselves.
func (m *Memory) Bytes(addr, n uint64) []byte {
	r := m.FindRange(addr, n)
	if r == nil {
		return nil
	}
	return r.Bytes[addr-r.Base:][:n:n]
}

// TouchedRanges collects which ranges of its Memory a launch has accessed: each range that Map made, as a whole. The zero
// value is empty. The effects of a launch depend on its Config, its kernel, and the bytes of these ranges alone, unless
// the launch has called a hook.
type TouchedRanges struct {
	mu     sync.Mutex
	ranges map[*Range]bool // true: written
}

// TouchedRange is a range of which a launch has read or written bytes.
type TouchedRange struct {
	Base, Size uint64
	Written    bool
}

// Ranges lists the ranges, by their addresses. No launch may run that collects here.
func (t *TouchedRanges) Ranges() []TouchedRange {
	out := make([]TouchedRange, 0, len(t.ranges))
	for r, written := range t.ranges {
		out = append(out, TouchedRange{r.Base, r.Size, written})
	}
	slices.SortFunc(out, func(a, b TouchedRange) int { return cmp.Compare(a.Base, b.Base) })
	return out
}

// Add adds accessed ranges: true for a range that was written.
func (t *TouchedRanges) Add(ranges map[*Range]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ranges == nil {
		t.ranges = map[*Range]bool{}
	}
	for r, written := range ranges {
		t.ranges[r] = t.ranges[r] || written
	}
}
