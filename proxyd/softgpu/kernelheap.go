// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
)

// kernelHeap is the memory of kernels' malloc: at the top of the space's addresses, in a single piece that is mapped on
// first use and stays. A piece is placed at the lowest address where it fits, so that its place follows from the live
// pieces. The space's lock guards a kernelHeap. (Kernels that allocate run on one core, block after block.)
type kernelHeap struct {
	base   backend.Addr
	size   uint64
	arena  *arena
	pieces []backend.KernelPiece // ascending
}

// kernelAlign is the alignment of malloc's addresses.
const kernelAlign = 16

// newKernelHeap makes the heap of a space, and maps it. The caller holds the space's mu, or has the space for itself.
func newKernelHeap(b *spaceLedger, t *table, size uint64) (*kernelHeap, error) {
	ar, err := b.NewArena(ledger.RoundUp(size, backend.Granule))
	if err != nil {
		return nil, err
	}
	h := &kernelHeap{base: b.End(), size: size, arena: ar.Bytes}
	return h, t.mapBytes(h.base, ar.Bytes.bytes[:ledger.RoundUp(size, ledger.Quantum)])
}

// allocFromKernel is a kernel's call of malloc: an address, or 0. size is the size of the heap, if this call makes the
// heap.
func (s *space) allocFromKernel(n, size uint64, id backend.ContextID) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernelHeap == nil && size > 0 && !s.closed {
		h, err := newKernelHeap(&s.ledger, &s.table, size)
		if err != nil {
			return 0
		}
		s.kernelHeap = h
	}
	if s.kernelHeap == nil {
		return 0
	}
	return uint64(s.kernelHeap.allocPiece(n, id))
}

// allocPiece places a piece at the lowest address with room, and returns the address, or 0 if there is no room.
func (h *kernelHeap) allocPiece(n uint64, id backend.ContextID) backend.Addr {
	if n == 0 || n > h.size {
		return 0
	}
	n = ledger.RoundUp(n, kernelAlign)
	at := h.base
	i := 0
	for ; i < len(h.pieces) && uint64(h.pieces[i].Base-at) < n; i++ {
		at = h.pieces[i].Base + backend.Addr(h.pieces[i].Size)
	}
	if uint64(at-h.base)+n > h.size {
		return 0
	}
	h.pieces = slices.Insert(h.pieces, i, backend.KernelPiece{Base: at, Size: n, Context: id})
	return at
}

// kernelFree is a kernel's call of free; an address at which no piece begins is ignored.
func (s *space) kernelFree(addr uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernelHeap != nil {
		s.kernelHeap.freePiece(backend.Addr(addr))
	}
}

// freePiece frees the piece at an address, if a piece begins there.
func (h *kernelHeap) freePiece(a backend.Addr) {
	i, found := slices.BinarySearchFunc(h.pieces, a, func(p backend.KernelPiece, a backend.Addr) int { return compareAddrs(p.Base, a) })
	if found {
		h.wipePiece(h.pieces[i])
		h.pieces = slices.Delete(h.pieces, i, i+1)
	}
}

// wipePiece clears a piece: memory that is not in use is zero in every replica.
func (h *kernelHeap) wipePiece(p backend.KernelPiece) {
	h.arena.wipeRange(h.arena.bytes[p.Base-h.base:][:p.Size])
}

// freeContext frees the pieces that a context's kernels have allocated.
func (h *kernelHeap) freeContext(id backend.ContextID) {
	h.pieces = slices.DeleteFunc(h.pieces, func(p backend.KernelPiece) bool {
		if p.Context == id {
			h.wipePiece(p)
		}
		return p.Context == id
	})
}

func (s *space) hasKernelHeap() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kernelHeap != nil
}

// restoreKernelHeap makes the heap that a state describes, of at most memory bytes. The caller has the space for itself.
func restoreKernelHeap(b *spaceLedger, t *table, memory uint64, st *backend.KernelHeap) (*kernelHeap, error) {
	if st.Base != b.End() || st.Size == 0 || st.Size > memory {
		return nil, fmt.Errorf("%d bytes at %#x", st.Size, uint64(st.Base))
	}
	last := st.Base
	for _, p := range st.Pieces {
		if p.Base < last || p.Base%kernelAlign != 0 || p.Size == 0 || p.Size%kernelAlign != 0 || p.Size > st.Size || uint64(p.Base-st.Base) > st.Size-p.Size {
			return nil, fmt.Errorf("a piece of %d bytes at %#x", p.Size, uint64(p.Base))
		}
		last = p.Base + backend.Addr(p.Size)
	}
	h, err := newKernelHeap(b, t, st.Size)
	if err != nil {
		return nil, err
	}
	h.pieces = slices.Clone(st.Pieces)
	return h, nil
}

// describeHeap is the heap in a state, nil for no heap.
func (h *kernelHeap) describeHeap() *backend.KernelHeap {
	if h == nil {
		return nil
	}
	return &backend.KernelHeap{Base: h.base, Size: h.size, Pieces: slices.Clone(h.pieces)}
}
