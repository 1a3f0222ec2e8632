// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"testing"
)

// TestScratch: pieces of a Scratch are mapped, zero and apart, also where another Scratch has mapped memory, and are gone
// when the Scratch is unmapped.
func TestScratch(t *testing.T) {
	var m Memory
	var a, b Scratch
	seen := []uint64{}
	for i := range 6 {
		s := &a
		if i%2 == 1 {
			s = &b
		}
		at := s.Alloc(&m, 40<<10)
		bytes := m.Bytes(at, 40<<10)
		if bytes == nil || at%scratchAlign != 0 {
			t.Fatalf("piece %d at %#x is not mapped or not aligned", i, at)
		}
		for _, other := range seen {
			if at < other+40<<10 && other < at+40<<10 {
				t.Errorf("pieces at %#x and %#x overlap", at, other)
			}
		}
		seen = append(seen, at)
		bytes[0] = 1
	}
	if at := a.Alloc(&m, scratchChunk+1); at != 0 {
		t.Errorf("a piece of more than a chunk is at %#x, want none", at)
	}
	a.Reset(&m)
	at := a.Alloc(&m, 100)
	if bytes := m.Bytes(at, 100); bytes == nil || slices.Max(bytes) != 0 {
		t.Errorf("the piece after a reset, at %#x, has the bytes %v", at, bytes)
	}
	if n := len(m.rangeList()); n != 4 {
		t.Errorf("%d chunks are mapped after one Scratch was reset, want 1 of it and 3 of the other", n)
	}
	a.Unmap(&m)
	b.Unmap(&m)
	if n := len(m.rangeList()); n != 0 {
		t.Errorf("%d chunks are mapped at the end", n)
	}
}
