// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// holdings are the spaces in a device's memory, and the counts of swaps. A device holds no more memory of spaces than
// it has. When a space is mapped, or allocates, and there is no room, the spaces that were mapped longest ago leave:
// their bytes are copied to the host's memory and their arenas are freed. The bytes come back whole, when their space
// is mapped. Two kinds of memory stay in place, and count as the host's meanwhile: buffers of a collective, because the
// collective needs other spaces to end; and a space that a peer's work or the server reaches into while the space is
// not mapped. So does memory that several spaces share: see share.go.
//
// Bytes that spaces have in common, see common_blocks.go, are in the device's memory once, and leave with the last of
// these spaces.
//
// The device's lock guards all this, and is held while bytes are copied.
type holdings struct {
	spaces []*space // that are in the device's memory, the longest mapped first
	swap   backend.SwapCounter
	read   uint64 // bytes, to find blocks of spaces that are alike
}

// Swapped implements backend.Swapper.
func (d *device) Swapped() backend.Swap {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holdings.swap.Counts()
}

// admitSpace brings a whole space into the device's memory. The caller holds mu.
func (d *device) admitSpace(s *space) {
	h := &d.holdings
	s.mu.Lock()
	free, total := s.ledger.Info()
	s.onDevice = total - free
	s.mu.Unlock()
	h.spaces = append(withoutSpace(h.spaces, s), s)
	before := h.spaces[:len(h.spaces)-1]
	if residentBytes(h.spaces) > d.info.Memory {
		for _, o := range before {
			d.joinEqual(o)
		}
	}
	s.swapIn()
	sum := residentBytes(h.spaces)
	for _, o := range before {
		if sum <= d.info.Memory {
			break
		}
		h.spaces = withoutSpace(h.spaces, o)
		o.swapOut()
		sum = residentBytes(h.spaces)
	}
	h.swap.CountHeld(sum)
}

func withoutSpace(list []*space, s *space) []*space {
	return slices.DeleteFunc(slices.Clone(list), func(o *space) bool { return o == s })
}

// makeRoomFor is called when a space has allocated: its memory must fit, if the space is mapped.
func (d *device) makeRoomFor(s *space) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mapped == s {
		d.admitSpace(s)
	}
}

// swapOut moves a space's bytes to the host's memory, unless a peer or the server reaches into the space. The
// caller holds the device's mu.
func (s *space) swapOut() {
	s.onDevice = 0
	if !s.reclaimer.shutIfIdle() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	began, out, spared := time.Now(), uint64(0), uint64(0)
	s.ledger.Arenas(func(h *holder) {
		if a := h.Bytes; a.away == nil && a.share == nil && !s.device.backend.isPinned(a.bytes) {
			moved, common := a.swapOut()
			out, spared = out+moved, spared+common
		}
	})
	s.at.Load().holdings.swap.CountMoved(out, 0, time.Since(began))
	s.at.Load().holdings.swap.CountSpared(spared)
}

// swapIn undoes swapOut. The caller holds the device's mu.
func (s *space) swapIn() {
	if !s.reclaimer.isShut() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	began, in := time.Now(), uint64(0)
	s.ledger.Arenas(func(h *holder) {
		if a := h.Bytes; a.away != nil {
			in += a.swapIn()
		}
	})
	s.at.Load().holdings.swap.CountMoved(0, in, time.Since(began))
	s.reclaimer.reopenSpace()
}

// beginOperation brings the space's bytes into the device's memory, if they are away. Work that touches these bytes
// begins with it.
func (s *space) beginOperation(op *operation) {
	for !s.reclaimer.beginOperation(op) {
		d := lockDeviceOf(s)
		s.swapIn()
		d.mu.Unlock()
	}
}

// swapOut moves bytes to the host's memory, and returns how many were moved and how many need not be, because other
// blocks show them. If the host has no memory left, they stay.
func (a *arena) swapOut() (n, spared uint64) {
	host, err := newArena(uint64(len(a.bytes)))
	if err != nil {
		return 0, 0
	}
	a.away = host
	a.forgetWritten()
	n, spared = a.swapOutCommon()
	common := a.commonBlocks.copyShown()
	for at := uint64(0); at < uint64(len(a.bytes)); at += backend.Granule {
		if common[at].common == nil {
			n += moveTouched(host[at:], a.blockAt(at))
		}
	}
	return n, spared
}

// swapIn undoes swapOut.
func (a *arena) swapIn() uint64 {
	n := a.swapInCommon() + moveTouched(a.bytes, a.away)
	freeArena(a.away)
	a.away = nil
	a.protectCopied()
	return n
}

// moveTouched copies the touched parts of from, gives their pages back to the kernel, and returns the number of bytes.
func moveTouched(to, from []byte) (n uint64) {
	for len(from) > 0 {
		part := from[:min(len(from), backend.Granule)]
		if wasTouched(part) {
			n += uint64(copy(to, part))
			wipeBytes(part)
		}
		from, to = from[len(part):], to[len(part):]
	}
	return n
}

// pinPieces keeps bytes where they are until the operation that they are for is over.
func (b *Backend) pinPieces(op *operation, pieces [][][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pins[op] = slices.Concat(pieces...)
}

func (b *Backend) unpinOperation(op *operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pins, op)
}

// isPinned tells whether any of these bytes must stay.
func (b *Backend) isPinned(bytes []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pieces := range b.pins {
		for _, p := range pieces {
			if bytesOverlap(p, bytes) {
				return true
			}
		}
	}
	return false
}

func bytesOverlap(a, b []byte) bool {
	x, y := addressOf(a), addressOf(b)
	return x < y+uint64(len(b)) && y < x+uint64(len(a))
}
