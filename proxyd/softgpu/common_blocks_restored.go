// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/pages"
)

// WriteBlocks implements backend.BlockSharer.
func (d *device) WriteBlocks(blocks, alike []backend.SpaceBlock, p []byte) error {
	d.mu.Lock()
	written := d.writeCommon(blocks, alike, p)
	d.mu.Unlock()
	for _, b := range blocks[written:] {
		if err := b.Space.WriteBlock(b.ID, p); err != nil {
			return err
		}
	}
	return nil
}

// writeCommon has the first of some blocks show common bytes, and returns how many do. Blocks that hold the bytes
// already may show them too. The caller holds mu.
func (d *device) writeCommon(blocks, alike []backend.SpaceBlock, p []byte) int {
	first := blocks[0].Space
	several := func(all []backend.SpaceBlock) bool {
		return slices.ContainsFunc(all, func(b backend.SpaceBlock) bool { return b.Space != first })
	}
	if d.common == nil || len(p) != backend.Granule || !several(blocks) && !several(alike) {
		return 0 // in a single space, common bytes save no memory and make the first write to each page slower
	}
	c, err := d.commonOf(alike, p)
	if err != nil {
		return 0 // each block has bytes of its own then
	}
	c.Hold(false)
	defer c.Drop(false)
	joined := several(blocks)
	for _, b := range alike {
		joined = d.showBlock(b, c, p, true) && b.Space != first || joined
	}
	if !joined {
		return 0
	}
	for i, b := range blocks {
		if !d.showBlock(b, c, p, false) {
			return i
		}
	}
	return len(blocks)
}

// commonOf is common bytes that are equal to p: those that one of some blocks shows, or new ones. The caller holds mu.
func (d *device) commonOf(alike []backend.SpaceBlock, p []byte) (*pages.Block, error) {
	var shown *pages.Block
	for _, b := range alike {
		d.useBlock(b, func(a *arena, at uint64) bool {
			if c := a.commonAt(at); c != nil && bytes.Equal(a.blockAt(at), p) {
				shown = c
			}
			return true
		})
		if shown != nil {
			return shown, nil
		}
	}
	return d.common.Add(p)
}

// showBlock has a block show common bytes, which are p, unless work may use the block's space. equal: only if the block
// holds p already. The caller holds the device's mu.
func (d *device) showBlock(b backend.SpaceBlock, c *pages.Block, p []byte, equal bool) bool {
	return d.useBlock(b, func(a *arena, at uint64) bool {
		if a.commonAt(at) == c {
			return true
		}
		if equal && (!a.isTouched(at) || !bytes.Equal(a.blockAt(at), p)) {
			return false
		}
		return a.showBlock(at, c) == nil
	})
}

// useBlock calls f with the place of a block which may show common bytes, while no work can use the block's space. Without a
// call useBlock returns false. The caller holds the device's mu.
func (d *device) useBlock(b backend.SpaceBlock, f func(a *arena, at uint64) bool) bool {
	s, ok := b.Space.(*space)
	// A restored space may be mapped, and its job is stopped. Work that is under way nevertheless loses no more than it
	// would lose to WriteBlock, since all of the block is written.
	if !ok || s.at.Load() != d || s.reclaimer.isShut() || !s.reclaimer.shutIfIdle() {
		return false
	}
	defer s.reclaimer.reopenSpace()
	defer s.reclaimer.forgetWrites(writes{})
	s.mu.Lock()
	defer s.mu.Unlock()
	a, at, err := findBlock(s, b.ID)
	return err == nil && d.canShow(s, a) && f(a, at)
}
