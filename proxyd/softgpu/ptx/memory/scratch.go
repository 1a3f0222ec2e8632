// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

// Scratch is memory that a launch maps beside its caller's, while the launch runs. The zero value is empty. A Scratch is
// used by a single goroutine.
type Scratch struct {
	chunks []uint64 // addresses of mapped chunks
	last   []byte   // the latest chunk
	used   uint64   // bytes of the latest chunk
}

const (
	scratchWindow = MinAddress + 1<<32 // addresses of chunks, of which each takes the first free
	scratchEnd    = scratchWindow + 1<<32
	scratchChunk  = 64 << 10
	scratchAlign  = 64
)

// Alloc returns the address of n bytes that are zero, at most 64 KiB, or 0 if no address is free.
func (s *Scratch) Alloc(m *Memory, n uint64) uint64 {
	n = (n + scratchAlign - 1) &^ (scratchAlign - 1)
	if n == 0 || n > scratchChunk {
		return 0
	}
	if len(s.chunks) == 0 || s.used+n > scratchChunk {
		at := uint64(scratchWindow)
		s.last = make([]byte, scratchChunk)
		for m.Map(at, s.last, false) != nil {
			if at += scratchChunk; at >= scratchEnd {
				return 0
			}
		}
		s.chunks, s.used = append(s.chunks, at), 0
	}
	at := s.chunks[len(s.chunks)-1] + s.used
	clear(s.last[s.used:][:n])
	s.used += n
	return at
}

// Reset frees all that was allocated. A chunk stays mapped for later allocations.
func (s *Scratch) Reset(m *Memory) {
	for len(s.chunks) > 1 {
		_ = m.Unmap(s.chunks[0]) // the Scratch has mapped the chunk
		s.chunks = s.chunks[1:]
	}
	s.used = 0
}

// Unmap frees all, and unmaps the memory.
func (s *Scratch) Unmap(m *Memory) {
	for _, at := range s.chunks {
		_ = m.Unmap(at)
	}
	*s = Scratch{}
}
