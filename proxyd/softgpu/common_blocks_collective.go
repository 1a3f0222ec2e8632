// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"maps"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/pages"
)

// What a collective gives to several spaces of a device is there once: whole blocks of their buffers show common bytes.
// And bytes that a collective has added up already are given up until it has its result: blocks of such a buffer show
// an empty block.
//
// A buffer that a collective writes belongs to its operation: while the operation goes on, a program may neither write
// to the buffer nor read it. So blocks that lie wholly in such a buffer may change what they show, though the space is
// mapped and other work of the space goes on. Where anything else could use a block, the block keeps its own memory:
// buffers that several operations use, memory that other processes import, and memory that other spaces see.

// bufferPlace is where a buffer of a collective lies.
type bufferPlace struct {
	bytes  []byte
	space  *space
	arena  *arena
	offset uint64 // of the buffer in the arena
}

// findBuffer finds the space with the memory of a buffer.
func (b *Backend) findBuffer(p []byte) (x bufferPlace, ok bool) {
	b.mu.Lock()
	all := slices.Collect(maps.Keys(b.spaces))
	b.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		s.ledger.Arenas(func(h *holder) {
			a := h.Bytes
			if at := addressOf(p) - addressOf(a.bytes); len(p) > 0 && at < uint64(len(a.bytes)) && uint64(len(a.bytes))-at >= uint64(len(p)) {
				x, ok = bufferPlace{p, s, a, at}, true
			}
		})
		s.mu.Unlock()
		if ok {
			return x, true
		}
	}
	return x, false
}

// firstBlock is the place in the buffer at which its first whole block begins.
func (x bufferPlace) firstBlock() uint64 { return -x.offset % backend.Granule }

// wholeBlocks are the places in the buffer at which whole blocks begin.
func (x bufferPlace) wholeBlocks() (out []uint64) {
	for at := x.firstBlock(); at+backend.Granule <= uint64(len(x.bytes)); at += backend.Granule {
		out = append(out, at)
	}
	return out
}

// mayShow tells whether whole blocks of the buffer may show common bytes.
func (x bufferPlace) mayShow() bool {
	d := lockDeviceOf(x.space)
	defer d.mu.Unlock()
	x.space.mu.Lock()
	defer x.space.mu.Unlock()
	return len(x.wholeBlocks()) > 0 && d.mayShowBuffer(x, x.bytes)
}

// mayShowBuffer tells whether a part of a buffer may show common bytes. The caller holds the device's mu and the space's.
func (d *device) mayShowBuffer(x bufferPlace, part []byte) bool {
	s, a := x.space, x.arena
	return d.common != nil && !s.closed && a.share == nil && a.away == nil && !s.table.isSeen() &&
		(s.kernelHeap == nil || s.kernelHeap.arena != a) && d.backend.countPins(part) == 1
}

// countPins counts the operations that have pinned any of these bytes.
func (b *Backend) countPins(bytes []byte) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pieces := range b.pins {
		if slices.ContainsFunc(pieces, func(p []byte) bool { return bytesOverlap(p, bytes) }) {
			n++
		}
	}
	return n
}

// isSeen tells whether kernels of other spaces see the memory.
func (t *table) isSeen() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.seenBy) > 0
}

// groupKey is what buffers have in common of which blocks can show the same bytes.
type groupKey struct {
	device *device
	first  uint64
}

// groupBuffers finds the buffers of which blocks can show the same bytes.
func (b *Backend) groupBuffers(buffers [][]byte) map[groupKey][]bufferPlace {
	groups := map[groupKey][]bufferPlace{}
	for _, p := range buffers {
		if len(p) < backend.Granule {
			continue
		}
		if x, ok := b.findBuffer(p); ok && x.mayShow() {
			k := groupKey{x.space.at.Load(), x.firstBlock()}
			groups[k] = append(groups[k], x)
		}
	}
	maps.DeleteFunc(groups, func(_ groupKey, all []bufferPlace) bool { return len(all) < 2 })
	return groups
}

// CanShare implements backend.BufferSharer.
func (b *Backend) CanShare(buffers [][]byte) bool { return len(b.groupBuffers(buffers)) > 0 }

// GiveUp implements backend.BufferSharer.
func (b *Backend) GiveUp(buffer []byte) {
	x, ok := b.findBuffer(buffer)
	if !ok {
		return
	}
	d := lockDeviceOf(x.space)
	defer d.mu.Unlock()
	if d.common == nil {
		return
	}
	c, err := d.common.AddEmpty()
	if err != nil {
		return
	}
	c.Hold(false)
	defer c.Drop(false)
	for _, at := range x.wholeBlocks() {
		d.showInBuffer(x, at, c)
	}
}

// Spread implements backend.BufferSharer.
func (b *Backend) Spread(from []byte, buffers [][]byte) {
	shown := map[*byte]bool{}
	for k, group := range b.groupBuffers(buffers) {
		for _, x := range group {
			shown[&x.bytes[0]] = true
		}
		k.device.spreadInGroup(from, group)
	}
	for _, p := range buffers {
		if len(p) > 0 && !shown[&p[0]] && &p[0] != &from[0] {
			copy(p, from)
		}
	}
}

// spreadInGroup gives buffers the bytes of from. Blocks of the buffers lie at the same places of these bytes.
func (d *device) spreadInGroup(from []byte, group []bufferPlace) {
	whole := group[0].wholeBlocks()
	copyPart := func(x bufferPlace, at, end uint64) {
		if &x.bytes[0] != &from[0] {
			copy(x.bytes[at:end], from[at:end])
		}
	}
	for _, x := range group {
		copyPart(x, 0, whole[0])
		copyPart(x, whole[len(whole)-1]+backend.Granule, uint64(len(from)))
	}
	for _, at := range whole {
		for _, x := range d.spreadBlock(from, group, at) {
			copyPart(x, at, at+backend.Granule)
		}
	}
}

// spreadBlock has a block of each buffer show the same bytes, and returns the buffers of which the block does not.
func (d *device) spreadBlock(from []byte, group []bufferPlace, at uint64) (left []bufferPlace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.commonInGroup(from, group, at)
	if err != nil {
		return group
	}
	c.Hold(false)
	defer c.Drop(false)
	for _, x := range group {
		if !d.showInBuffer(x, at, c) {
			left = append(left, x)
		}
	}
	return left
}

// commonInGroup is common bytes for a block of some buffers. If from is among the buffers, and its block shows common
// bytes, no new bytes are made. The caller holds mu.
func (d *device) commonInGroup(from []byte, group []bufferPlace, at uint64) (*pages.Block, error) {
	for _, x := range group {
		if &x.bytes[0] != &from[0] {
			continue
		}
		if c := x.arena.commonAt(x.offset + at); c != nil && !c.IsEmpty() {
			return c, nil
		}
	}
	return d.common.Add(from[at:][:backend.Granule])
}

// showInBuffer has a block of a buffer show common bytes, and tells whether it does. The caller holds mu.
func (d *device) showInBuffer(x bufferPlace, at uint64, c *pages.Block) bool {
	x.space.mu.Lock()
	defer x.space.mu.Unlock()
	if x.space.at.Load() != d || !d.mayShowBuffer(x, x.bytes[at:][:backend.Granule]) {
		return false
	}
	block := x.offset + at
	return x.arena.commonAt(block) == c || x.arena.showBlock(block, c) == nil
}
