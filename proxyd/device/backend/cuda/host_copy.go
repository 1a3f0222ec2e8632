// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// hostStore is the bytes of memories that have left the devices. Blocks with the same sum hold the same bytes, and are
// in the host's memory once.
type hostStore struct {
	mu    sync.Mutex // no other lock is taken under mu
	known map[blockSum]*hostBlock
	slabs [][]byte // mappings: the kernel allows a process 65530 of them
	free  [][]byte // blocks of slabs that no hostBlock has; all are zero, and take no memory
}

// slabSize is the size of a slab.
const slabSize = 32 * backend.Granule

func newHostStore() *hostStore { return &hostStore{known: map[blockSum]*hostBlock{}} }

// unmapSlabs ends the store. All copies have ended.
func (s *hostStore) unmapSlabs() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, slab := range s.slabs {
		errs = append(errs, unix.Munmap(slab))
	}
	s.slabs, s.free = nil, nil
	return errors.Join(errs...)
}

// hostBlock is the bytes of a block. They do not change while the block has a sum.
type hostBlock struct {
	bytes []byte
	sum   blockSum // zero: not known
	users int      // blocks of copies, guarded by the store's mu
}

// hostCopy is the bytes of a memory. The memory's lock guards the hostCopy.
type hostCopy struct {
	store  *hostStore
	blocks []*hostBlock // nil: zeros
}

// newCopy makes a copy of zeros.
func (s *hostStore) newCopy(size uint64) *hostCopy {
	return &hostCopy{store: s, blocks: make([]*hostBlock, size/backend.Granule)}
}

// newBlock makes a block of zeros that no copy uses yet.
func (s *hostStore) newBlock() (*hostBlock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		slab, err := unix.Mmap(-1, 0, slabSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return nil, fmt.Errorf("the host has no %d bytes to swap to: %w: %w", slabSize, err, backend.OutOfMemory)
		}
		s.slabs = append(s.slabs, slab)
		s.free = slices.Collect(slices.Chunk(slab, backend.Granule))
	}
	last := len(s.free) - 1
	b := &hostBlock{bytes: s.free[last]}
	s.free = s.free[:last]
	return b, nil
}

// freeBlock gives a block's memory back.
func (s *hostStore) freeBlock(b *hostBlock) {
	if unix.Madvise(b.bytes, unix.MADV_DONTNEED) != nil {
		clear(b.bytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, b.bytes)
}

// takeKnown has block i be the store's bytes with a sum, and tells whether the store has these.
func (c *hostCopy) takeKnown(i int, sum blockSum) bool {
	if sum == zeroSum {
		c.setBlock(i, nil)
		return true
	}
	c.store.mu.Lock()
	b := c.store.known[sum]
	if b != nil {
		b.users++
	}
	c.store.mu.Unlock()
	if b != nil {
		c.dropBlock(i)
		c.blocks[i] = b
	}
	return b != nil
}

// keepBytes has block i be bytes with a sum, which is not that of zeros, or with zeroSum if the sum is not known.
func (c *hostCopy) keepBytes(i int, sum blockSum, p []byte) error {
	if sum != zeroSum && c.takeKnown(i, sum) {
		return nil
	}
	b, err := c.store.newBlock()
	if err != nil {
		return err
	}
	copy(b.bytes, p)
	c.setBlock(i, b)
	if sum == zeroSum {
		return nil
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.store.known[sum] == nil { // else another device was quicker
		b.sum, c.store.known[sum] = sum, b
	}
	return nil
}

// setBlock has block i be a block that no other copy uses, or zeros.
func (c *hostCopy) setBlock(i int, b *hostBlock) {
	c.dropBlock(i)
	if b != nil {
		b.users = 1
	}
	c.blocks[i] = b
}

// dropBlock has block i be zeros.
func (c *hostCopy) dropBlock(i int) {
	b := c.blocks[i]
	if b == nil {
		return
	}
	c.blocks[i] = nil
	c.store.mu.Lock()
	b.users--
	last := b.users == 0
	if last && b.sum != zeroSum {
		delete(c.store.known, b.sum)
	}
	c.store.mu.Unlock()
	if last {
		c.store.freeBlock(b)
	}
}

// ownBlock has block i be bytes that no other copy uses and that have no sum, so that they can be written.
func (c *hostCopy) ownBlock(i int) ([]byte, error) {
	if b := c.blocks[i]; b != nil {
		c.store.mu.Lock()
		own := b.users == 1
		if own && b.sum != zeroSum {
			delete(c.store.known, b.sum)
			b.sum = zeroSum
		}
		c.store.mu.Unlock()
		if own {
			return b.bytes, nil
		}
	}
	b, err := c.store.newBlock()
	if err != nil {
		return nil, err
	}
	if old := c.blocks[i]; old != nil {
		copy(b.bytes, old.bytes)
	}
	c.setBlock(i, b)
	return b.bytes, nil
}

// sumAt is the sum of block i, if the sum is known.
func (c *hostCopy) sumAt(i int) (blockSum, bool) {
	b := c.blocks[i]
	if b == nil {
		return zeroSum, true
	}
	return b.sum, b.sum != zeroSum
}

// readBlock copies block i into p.
func (c *hostCopy) readBlock(i int, p []byte) { c.readAt(uint64(i)*backend.Granule, p) }

// readAt copies bytes out.
func (c *hostCopy) readAt(at uint64, p []byte) {
	for len(p) > 0 {
		from, n := at%backend.Granule, min(uint64(len(p)), backend.Granule-at%backend.Granule)
		if b := c.blocks[at/backend.Granule]; b != nil {
			copy(p[:n], b.bytes[from:])
		} else {
			clear(p[:n])
		}
		at, p = at+n, p[n:]
	}
}

// writeAt copies bytes in.
func (c *hostCopy) writeAt(at uint64, p []byte) error {
	for len(p) > 0 {
		n := min(uint64(len(p)), backend.Granule-at%backend.Granule)
		b, err := c.ownBlock(int(at / backend.Granule))
		if err != nil {
			return err
		}
		copy(b[at%backend.Granule:], p[:n])
		at, p = at+n, p[n:]
	}
	return nil
}

// clearRange makes bytes zero.
func (c *hostCopy) clearRange(at, n uint64) error {
	for end := at + n; at < end; {
		i, from := int(at/backend.Granule), at%backend.Granule
		k := min(end-at, backend.Granule-from)
		if k == backend.Granule {
			c.dropBlock(i)
		} else if c.blocks[i] != nil {
			b, err := c.ownBlock(i)
			if err != nil {
				return err
			}
			clear(b[from:][:k])
		}
		at += k
	}
	return nil
}

// freeBlocks has all be zeros.
func (c *hostCopy) freeBlocks() {
	for i := range c.blocks {
		c.dropBlock(i)
	}
}
