// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// table is the memory that running work finds: addresses over bytes. spaceLedger is the memory that calls may name: the
// two differ for as long as stream-ordered allocations are under way.
type table struct {
	engine    addresses  // the memory as kernels see it
	reclaimer *reclaimer // of the space

	mu      sync.RWMutex
	entries []entry  // ascending
	seenBy  []*table // tables of the spaces with kernels that see this space
	closed  bool
}

type entry struct {
	base  backend.Addr
	bytes []byte
	host  bool   // the program's memory: mapped into each of its spaces, so not shown to peers
	arena *arena // of a piece of the space's ledger, nil for all other memory; the bytes begin at the piece's offset
}

func (e entry) endAddr() backend.Addr { return e.base + backend.Addr(len(e.bytes)) }

func (t *table) findEntry(a backend.Addr) (int, bool) {
	return slices.BinarySearchFunc(t.entries, a, func(e entry, a backend.Addr) int { return compareAddrs(e.base, a) })
}

// mapBytes maps bytes at an address, for this space's kernels and for the kernels of spaces that see this space.
func (t *table) mapBytes(a backend.Addr, b []byte) error {
	return t.insertEntry(entry{base: a, bytes: b})
}

// mapPiece is mapBytes for a piece of the space's ledger.
func (t *table) mapPiece(p piece) error {
	return t.insertEntry(entry{base: p.Alloc.Base, bytes: bytesOf(p), arena: p.Arena.Bytes})
}

// findPiece finds the piece that running work finds at an address, and how far into the piece the address is. Calls may
// no longer name the piece, and name other memory at the address. ok is false unless a piece of the ledger is there.
// The caller holds mu.
func (t *table) findPiece(a backend.Addr) (e entry, from uint64, ok bool) {
	i, found := t.findEntry(a)
	if !found {
		i--
	}
	if i < 0 || i >= len(t.entries) || t.entries[i].arena == nil || a >= t.entries[i].endAddr() {
		return entry{}, 0, false
	}
	return t.entries[i], uint64(a - t.entries[i].base), true
}

// findOwnBlock finds the arena of a whole block that lies in a piece, and the block's offset there.
func (t *table) findOwnBlock(a backend.Addr) (in *arena, offset uint64, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, from, ok := t.findPiece(a)
	if !ok || a%backend.Granule != 0 || backend.Granule > uint64(len(e.bytes))-from {
		return nil, 0, false
	}
	return e.arena, uint64(e.base%backend.Granule) + from, true
}

// addHost maps memory of the program at its own address, for this space's kernels only: peers map the memory
// themselves.
func (t *table) addHost(a backend.Addr, b []byte) error {
	return t.insertEntry(entry{base: a, bytes: b, host: true})
}

func (t *table) insertEntry(e entry) error {
	a, b := e.base, e.bytes
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	i, found := t.findEntry(a)
	if found || i > 0 && t.entries[i-1].endAddr() > a || i < len(t.entries) && t.entries[i].base < a+backend.Addr(len(b)) {
		return fmt.Errorf("map %#x: in use: %w", uint64(a), backend.InvalidValue)
	}
	if err := t.engine.Map(uint64(a), b, false); err != nil {
		return fmt.Errorf("%w: %w", backend.InvalidValue, err)
	}
	seenBy := t.seenBy
	if e.host {
		seenBy = nil
	}
	for k, o := range seenBy {
		if err := o.engine.Map(uint64(a), b, false); err != nil {
			_ = t.engine.Unmap(uint64(a))
			for _, o := range seenBy[:k] {
				_ = o.engine.Unmap(uint64(a))
			}
			return fmt.Errorf("map %#x for a peer: %w: %w", uint64(a), backend.InvalidValue, err)
		}
	}
	t.entries = slices.Insert(t.entries, i, e)
	t.reclaimer.noteRemapped(a, uint64(len(b)))
	return nil
}

// holdsBytes tells whether these bytes are at an address.
func (t *table) holdsBytes(a backend.Addr, b []byte) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, found := t.findEntry(a)
	return found && &t.entries[i].bytes[0] == &b[0]
}

// unmapBytes undoes mapBytes, if bytes are mapped at the address. Work that runs may still use the bytes.
func (t *table) unmapBytes(a backend.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, found := t.findEntry(a)
	if !found {
		return
	}
	host := t.entries[i].host
	t.reclaimer.noteRemapped(a, uint64(len(t.entries[i].bytes)))
	t.entries = slices.Delete(t.entries, i, i+1)
	_ = t.engine.Unmap(uint64(a))
	if host {
		return
	}
	for _, o := range t.seenBy {
		_ = o.engine.Unmap(uint64(a))
	}
}

// showTo lets o's kernels see all memory that is and will be mapped here.
func (t *table) showTo(o *table) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.seenBy, o) {
		return fmt.Errorf("peer: %w", backend.PeerAccessAlreadyEnabled)
	}
	for i, e := range t.entries {
		if e.host {
			continue
		}
		if err := o.engine.Map(uint64(e.base), e.bytes, false); err != nil {
			for _, e := range t.entries[:i] {
				if !e.host {
					_ = o.engine.Unmap(uint64(e.base))
				}
			}
			return fmt.Errorf("peer: %w: %w", backend.InvalidValue, err)
		}
	}
	t.seenBy = append(t.seenBy, o)
	return nil
}

// hideFrom undoes showTo.
func (t *table) hideFrom(o *table) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.seenBy, o)
	if i < 0 {
		return fmt.Errorf("peer: %w", backend.PeerAccessNotEnabled)
	}
	t.seenBy = slices.Delete(t.seenBy, i, i+1)
	for _, e := range t.entries {
		if !e.host {
			_ = o.engine.Unmap(uint64(e.base))
		}
	}
	return nil
}

// closeTable unmaps all memory, for this space's kernels and for its peers'; no memory can be mapped afterwards.
func (t *table) closeTable() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.entries {
		_ = t.engine.Unmap(uint64(e.base))
		if e.host {
			continue
		}
		for _, o := range t.seenBy {
			_ = o.engine.Unmap(uint64(e.base))
		}
	}
	t.entries, t.seenBy, t.closed = nil, nil, true
}

// viewBytes returns the n bytes at an address, in as many pieces as they lie in. The error wraps IllegalAddress.
func (t *table) viewBytes(a backend.Addr, n uint64) ([][]byte, error) {
	if n == 0 {
		return nil, nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, found := t.findEntry(a)
	if !found {
		i--
	}
	var out [][]byte
	for at, left := a, n; ; i++ {
		if i < 0 || i >= len(t.entries) || t.entries[i].base > at || t.entries[i].endAddr() <= at {
			return nil, fmt.Errorf("%d bytes at %#x: nothing is at %#x: %w", n, uint64(a), uint64(at), backend.IllegalAddress)
		}
		piece := t.entries[i].bytes[at-t.entries[i].base:]
		if uint64(len(piece)) >= left {
			return append(out, piece[:left:left]), nil
		}
		out = append(out, piece)
		at += backend.Addr(len(piece))
		left -= uint64(len(piece))
	}
}
