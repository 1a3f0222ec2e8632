// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/pages"
)

// Blocks of a device's spaces that hold the same bytes can be the same memory. Each arena shows the memory at the
// block's own addresses, so tables and kernels see no difference. A write goes into a page of the arena's own, by the
// kernel's copy on write; a block with such pages counts as memory of the space's own from then on.
//
// Three events bring blocks together: WriteBlocks, of a restore; a collective that gives several spaces the same bytes,
// see common_blocks_collective.go; and a switch for which there is no room. Before a space leaves the device in such a
// switch, its blocks are compared with those of the device's other spaces. Equal blocks need not be copied to the host's
// memory.
//
// The common bytes themselves stay in their file when the last space that shows them leaves the device, since the file
// is the host's memory in any case. Bytes that a device would have to copy are counted.

// commonBlocks is which blocks of an arena show common bytes.
type commonBlocks struct {
	mu     sync.Mutex
	blocks map[uint64]shownBlock // by the offset in the arena
}

// shownBlock tells which bytes a block shows.
type shownBlock struct {
	common  *pages.Block // nil: bytes of its own
	written bool         // some pages of the block are its own by now
}

func (s *commonBlocks) shownAt(offset uint64) shownBlock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocks[offset]
}

// copyShown is a copy of blocks.
func (s *commonBlocks) copyShown() map[uint64]shownBlock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.blocks)
}

func (s *commonBlocks) setShown(offset uint64, x shownBlock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case x.common == nil:
		delete(s.blocks, offset)
	case s.blocks == nil:
		s.blocks = map[uint64]shownBlock{offset: x}
	default:
		s.blocks[offset] = x
	}
}

// blockAt is a block's bytes.
func (a *arena) blockAt(offset uint64) []byte {
	return a.bytes[offset:][:backend.Granule:backend.Granule]
}

// commonAt is the common bytes that a block shows, or nil if some of its bytes are its own.
func (a *arena) commonAt(offset uint64) *pages.Block {
	x := a.commonBlocks.shownAt(offset)
	if x.common == nil || x.written {
		return nil
	}
	if pages.OwnPages(a.blockAt(offset)) > 0 {
		x.written = true
		a.commonBlocks.setShown(offset, x)
		x.common.NoteWritten()
		return nil
	}
	return x.common
}

// isTouched tells whether a block may hold anything but zeros.
func (a *arena) isTouched(offset uint64) bool {
	return a.commonBlocks.shownAt(offset).common != nil || wasTouched(a.blockAt(offset))
}

// showBlock has a block show common bytes. No work can use the arena meanwhile. An error leaves the block as it was.
func (a *arena) showBlock(offset uint64, c *pages.Block) error {
	here := a.away == nil
	c.Hold(here)
	if err := c.Show(a.blockAt(offset)); err != nil {
		c.Drop(here)
		return err
	}
	a.sums.forgetSum(offset)
	old := a.commonBlocks.shownAt(offset).common
	a.commonBlocks.setShown(offset, shownBlock{common: c})
	if old != nil {
		old.Forget()
		old.Drop(here)
	}
	if !here {
		wipeBytes(a.away[offset:][:backend.Granule])
	}
	return nil
}

// hideBlock gives a block zeros of its own. No work can use the block meanwhile. An error leaves the block as it was.
func (a *arena) hideBlock(offset uint64, c *pages.Block, here bool) error {
	if err := c.Hide(a.blockAt(offset)); err != nil {
		return err
	}
	a.commonBlocks.setShown(offset, shownBlock{})
	a.sums.rewatchBlock(a.blockAt(offset))
	c.Drop(here)
	return nil
}

// swapOutCommon is swapOut for the blocks that show common bytes. A block with pages of its own is copied whole, and has
// bytes of its own from then on.
func (a *arena) swapOutCommon() (n, spared uint64) {
	for offset, x := range a.commonBlocks.copyShown() {
		if a.commonAt(offset) != nil {
			moved := x.common.Leave()
			n, spared = n+moved, spared+backend.Granule-moved
			continue
		}
		n += uint64(copy(a.away[offset:][:backend.Granule], a.blockAt(offset)))
		if a.hideBlock(offset, x.common, true) != nil {
			n += x.common.Leave() // swapIn copies a.away back into this block too
		}
	}
	return n, spared
}

// swapInCommon undoes swapOutCommon.
func (a *arena) swapInCommon() (n uint64) {
	for _, x := range a.commonBlocks.copyShown() {
		n += x.common.ComeBack()
	}
	return n
}

// dropCommon forgets all common bytes of an arena that is unmapped.
func (a *arena) dropCommon() {
	for offset, x := range a.commonBlocks.copyShown() {
		a.commonBlocks.setShown(offset, shownBlock{})
		x.common.Forget()
		x.common.Drop(a.away == nil)
	}
}

// wipeCommon makes zero those bytes of b that lie in blocks with common bytes, and calls f for the rest, in parts.
func (a *arena) wipeCommon(b []byte, f func([]byte)) {
	common := a.commonBlocks.copyShown()
	for len(b) > 0 && len(common) > 0 {
		at := addressOf(b) - addressOf(a.bytes)
		offset := at &^ (backend.Granule - 1)
		part := b[:min(uint64(len(b)), offset+backend.Granule-at)]
		switch c := common[offset].common; {
		case c == nil:
			f(part)
		case uint64(len(part)) < backend.Granule || a.hideBlock(offset, c, a.away == nil) != nil:
			clear(part)
		}
		b = b[len(part):]
	}
	if len(b) > 0 {
		f(b)
	}
}

// residentBytes is how many bytes of a device's memory some spaces take together.
func residentBytes(spaces []*space) (n uint64) {
	seen := map[*pages.Block]bool{}
	for _, s := range spaces {
		n += s.onDevice
		eachCommon(s, func(c *pages.Block) {
			if seen[c] || c.IsEmpty() {
				n -= min(n, backend.Granule)
			}
			seen[c] = true
		})
	}
	return n
}

// eachCommon calls f for each block of a space that shows common bytes.
func eachCommon(s *space, f func(*pages.Block)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Arenas(func(h *holder) {
		for offset := range h.Bytes.commonBlocks.copyShown() {
			if c := h.Bytes.commonAt(offset); c != nil {
				f(c)
			}
		}
	})
}

// otherSpaces are the device's spaces without s.
func (d *device) otherSpaces(s *space) (out []*space) {
	b := d.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	for o := range b.spaces {
		if o != s && o.at.Load() == d {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *space) int { return cmp.Compare(a.number, b.number) })
	return out
}

// joinEqual has blocks of a space show common bytes if they are equal to blocks of other spaces that cannot run now.
// The mapped space is left out, even if no work of it is under way: a collective may be about to begin there, and bytes
// that the collective writes before it has pinned them would be lost. The caller holds the device's mu.
func (d *device) joinEqual(s *space) {
	if d.common == nil || s == d.mapped || !s.reclaimer.shutIfIdle() {
		return
	}
	defer s.reclaimer.reopenSpace()
	var still []*space
	for _, o := range d.otherSpaces(s) {
		switch {
		case o == d.mapped:
			continue
		case o.reclaimer.isShut():
		case o.reclaimer.shutIfIdle():
			defer o.reclaimer.reopenSpace()
		default:
			continue
		}
		still = append(still, o)
	}
	for _, r := range s.State().Regions() {
		for _, id := range ledger.IDs(r) {
			for _, o := range still {
				if d.joinBlock(s, o, id) {
					break
				}
			}
		}
	}
}

// joinBlock has a block of s and the block at the same place of o show common bytes, if their bytes are equal, and
// tells whether they do. No work can use either. The caller holds the device's mu.
func (d *device) joinBlock(s, o *space, id backend.BlockID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	mine, at, err := findBlock(s, id)
	if err != nil || !mine.isTouched(at) || !d.canShow(s, mine) {
		return false
	}
	if id.Memory == 0 {
		id.Base += o.cfg.Base - s.cfg.Base
	}
	theirs, place, err := findBlock(o, id)
	if err != nil || !d.canShow(o, theirs) {
		return false
	}
	a, b := mine.commonAt(at), theirs.commonAt(place)
	if a != nil && a == b {
		return true
	}
	from, own := theirs.blockAt(place), theirs.commonBlocks.shownAt(place).common == nil
	if theirs.away != nil && own {
		from = theirs.away[place:][:backend.Granule]
	}
	if own && !wasTouched(from) {
		return false // a read of memory that was never touched would allocate its pages
	}
	d.holdings.read += 2 * backend.Granule
	if !bytes.Equal(mine.blockAt(at), from) {
		return false
	}
	return d.joinArenas(mine, at, theirs, place) == nil
}

// joinArenas has two blocks with equal bytes show common bytes: those that one of them shows now, or new ones.
func (d *device) joinArenas(mine *arena, at uint64, theirs *arena, place uint64) error {
	c := theirs.commonAt(place)
	if c == nil {
		c = mine.commonAt(at)
	}
	if c == nil {
		var err error
		if c, err = d.common.Add(mine.blockAt(at)); err != nil {
			return err
		}
	}
	c.Hold(false)
	defer c.Drop(false)
	hosted := theirs.away != nil && theirs.commonBlocks.shownAt(place).common == nil
	var errs []error
	if mine.commonAt(at) != c {
		errs = append(errs, mine.showBlock(at, c))
	}
	if theirs.commonAt(place) != c {
		errs = append(errs, theirs.showBlock(place, c))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.Arrive(true, hosted)
	return nil
}

// canShow tells whether blocks of an arena may show common bytes: a collective, or a space that shares the arena, may be
// working on the arena's own, and kernels' heap is not counted as memory of the space. The caller holds mu.
func (d *device) canShow(s *space, a *arena) bool {
	return (s.kernelHeap == nil || s.kernelHeap.arena != a) && a.share == nil && (a.away != nil || !d.backend.isPinned(a.bytes))
}

// Common implements backend.BlockSharer.
func (d *device) Common() backend.CommonMemory {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := backend.CommonMemory{Compared: d.holdings.read}
	seen := map[*pages.Block]bool{}
	for _, s := range d.otherSpaces(nil) {
		s.mu.Lock()
		free, total := s.ledger.Info()
		s.mu.Unlock()
		out.Private += total - free
		eachCommon(s, func(c *pages.Block) {
			out.Private -= min(out.Private, backend.Granule)
			if seen[c] || c.IsEmpty() {
				out.Saved += backend.Granule
			} else {
				out.Shared += backend.Granule
			}
			seen[c] = true
		})
	}
	if d.common != nil {
		out.Unshared = d.common.Written() * backend.Granule
	}
	return out
}
