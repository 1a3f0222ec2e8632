// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"crypto/sha256"
	"slices"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/pages"
)

// The result of a launch is the bytes of the memory that the launch has written. Where such memory is a whole block,
// its bytes become common memory: the space that has run the launch shows them, and so does each space that takes the
// result, so that they exist once until a space writes there. Blocks that the launch has only read become common as
// well, since a space that takes the result has the same bytes in them. The rest is copied.

// keptLaunch is the memory that a launch has written.
type keptLaunch struct {
	parts    []keptPart
	contents []keptContent
	issued   uint64
	taken    bool
	users    atomic.Int32
}

// keptContent is the content of a piece of memory that the launch has written.
type keptContent struct {
	at splice.Span
	is *splice.Content
}

// keptPart is a part of that memory: a copy of its bytes, or a block of common memory.
type keptPart struct {
	at    backend.Addr
	bytes []byte
	block *pages.Block
}

// Hold implements splice.Result.
func (k *keptLaunch) Hold() { k.users.Add(1) }

// Drop implements splice.Result.
func (k *keptLaunch) Drop() {
	if k.users.Add(-1) > 0 {
		return
	}
	for _, p := range k.parts {
		if p.block != nil {
			p.block.Release()
		}
	}
}

// Size implements splice.Result: the bytes that no space shows.
func (k *keptLaunch) Size() (n uint64) {
	for _, p := range k.parts {
		if n += uint64(len(p.bytes)); p.block != nil && p.block.IsOnlyKept() {
			n += backend.Granule
		}
	}
	return n
}

// eachBlock calls f for each block of a piece of memory, and for the pieces before the first and behind the last.
func eachBlock(x splice.Span, f func(at backend.Addr, n uint64)) {
	for at, end := x.Base, x.Base+x.Size; at < end; {
		n := min(end, (at/backend.Granule+1)*backend.Granule) - at
		f(backend.Addr(at), n)
		at += n
	}
}

// findWholeBlock finds a block of memory that work of the space finds at an address, and that may show common bytes. The caller
// holds the mu of the space and of its device.
func (d *device) findWholeBlock(s *space, at backend.Addr, n uint64) (a *arena, offset uint64, ok bool) {
	if d.common == nil || n != backend.Granule {
		return nil, 0, false
	}
	a, offset, ok = s.table.findOwnBlock(at)
	return a, offset, ok && d.canShow(s, a)
}

// readResult returns the memory that a launch has written, and whether all of it is still there. No other work uses the
// memory meanwhile. The caller drops the result in any case.
func readResult(s *space, seen *accesses) (*keptLaunch, bool) {
	k := &keptLaunch{contents: nameContents(seen.writes)}
	k.Hold()
	d := lockDeviceOf(s)
	defer d.mu.Unlock()
	for _, x := range withoutRepeats(seen.reads) { // written memory is among them
		b, ok := presentBytes(s, x)
		if !ok {
			return k, false
		}
		written := slices.Contains(seen.writes, x)
		eachBlock(x, func(at backend.Addr, n uint64) {
			p := keptPart{at: at, block: d.shareBlock(s, at, n)}
			if p.block == nil && written {
				p.bytes = append(p.bytes, b[uint64(at)-x.Base:][:n]...)
			}
			if p.block != nil || written {
				k.parts = append(k.parts, p)
			}
		})
	}
	return k, true
}

// shareBlock has a block show common bytes, and keeps these. It returns nil for memory that is no whole block, or
// cannot show them. The caller holds the device's mu, and no other work uses the space.
func (d *device) shareBlock(s *space, at backend.Addr, n uint64) *pages.Block {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, offset, ok := d.findWholeBlock(s, at, n)
	if !ok {
		return nil
	}
	c := a.commonAt(offset)
	if c != nil {
		c.Keep()
		return c
	}
	c, err := d.common.Add(a.blockAt(offset))
	if err != nil {
		return nil // no more files, or too large ones
	}
	c.Keep()
	if a.showBlock(offset, c) != nil {
		c.Release()
		return nil
	}
	return c
}

// writeResult gives the launch's space the bytes of a result, and returns how many were copied.
func (a *spliceLaunch) writeResult(k *keptLaunch) (copied uint64, err error) {
	r := &a.space.reclaimer
	at, _ := r.isAlone(a.operation)
	if copied, err = writeBytes(a.space, k); err != nil {
		return copied, err
	}
	if !r.hooks.isOverlooked(takingWriter) {
		r.noteResult(a.operation, at, k.contents)
	}
	a.operation.wrote = writes{by: takingWriter} // all writes were reported
	return copied, nil
}

// writeBytes gives a space the bytes of a result, and returns how many were copied. No other work uses the space.
func writeBytes(s *space, k *keptLaunch) (copied uint64, err error) {
	d := lockDeviceOf(s)
	defer d.mu.Unlock()
	for _, p := range k.parts {
		if p.block != nil {
			if d.showKept(s, p) {
				continue
			}
			p.bytes = make([]byte, backend.Granule)
			if err := p.block.Read(p.bytes); err != nil {
				return copied, err
			}
		}
		to, err := s.table.viewBytes(p.at, uint64(len(p.bytes)))
		if err != nil {
			return copied, err // never: the memory was there for the record, and stays while the launch goes on
		}
		for _, b := range to {
			n := copy(b, p.bytes)
			copied, p.bytes = copied+uint64(n), p.bytes[n:]
		}
	}
	return copied, nil
}

// showKept has a block show the common bytes of a result, and tells whether it does. The caller holds the device's mu.
func (d *device) showKept(s *space, p keptPart) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, offset, ok := d.findWholeBlock(s, p.at, backend.Granule)
	if !ok || a.commonAt(offset) != p.block && a.showBlock(offset, p.block) != nil {
		return false
	}
	if p.block.Arrive(true, false) {
		d.holdings.swap.CountMoved(0, backend.Granule, 0)
	}
	return true
}

// hashSpan hashes a piece of memory, unless the memory is gone. The bytes of blocks that are common memory are read once.
func (a *spliceLaunch) hashSpan(x splice.Span) (out splice.Sum, ok bool) {
	b, ok := presentBytes(a.space, x)
	if !ok {
		return out, false
	}
	h := sha256.New()
	eachBlock(x, func(at backend.Addr, n uint64) {
		if c := commonBlock(a.space, at, n); c != nil {
			a.hooks.noteHashing()
			tag, err := c.Sum(a.hasher.key, func() ([16]byte, error) { return a.hashCommon(c) })
			ok = ok && err == nil
			h.Write(tag[:])
			return
		}
		a.read += n
		tag := a.hasher.hashTag(b[uint64(at)-x.Base:][:n])
		h.Write(tag[:])
	})
	h.Sum(out[:0])
	return out, ok
}

// hashCommon hashes common bytes. It reads the block itself, and not the memory in which the space shows the block: other
// work of the space may begin to write there meanwhile, and the hash is for all spaces that show the block.
func (a *spliceLaunch) hashCommon(c *pages.Block) (tag [16]byte, err error) {
	if a.block == nil {
		a.block = make([]byte, backend.Granule)
	}
	if err := c.Read(a.block); err != nil {
		return tag, err
	}
	a.read += backend.Granule
	return a.hasher.hashTag(a.block), nil
}

// commonBlock is the common bytes that a whole block shows, or nil.
func commonBlock(s *space, at backend.Addr, n uint64) *pages.Block {
	if n != backend.Granule {
		return nil
	}
	a, offset, ok := s.table.findOwnBlock(at)
	if !ok {
		return nil
	}
	return a.commonAt(offset)
}
