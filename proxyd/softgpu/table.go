// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// table is the memory that running work finds: addresses over bytes. What calls may name is another matter, see
// spaceLedger: the two differ for as long as stream-ordered allocations are under way.
type table struct {
	engine    addresses  // what kernels see
	reclaimer *reclaimer // of the space

	mu      sync.RWMutex
	entries []entry  // ascending
	seenBy  []*table // tables of the spaces with kernels that see this space
	closed  bool
}

type entry struct {
	base  backend.Addr
	bytes []byte
	host  bool // the program's memory: mapped into each of its spaces, so not shown to peers
}

func (e entry) endAddr() backend.Addr { return e.base + backend.Addr(len(e.bytes)) }

func (t *table) findEntry(a backend.Addr) (int, bool) {
	return slices.BinarySearchFunc(t.entries, a, func(e entry, a backend.Addr) int { return compareAddrs(e.base, a) })
}

// mapBytes maps bytes at an address, for this space's kernels and for the kernels of spaces that see this space.
func (t *table) mapBytes(a backend.Addr, b []byte) error {
	return t.insertEntry(entry{base: a, bytes: b})
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

// unmapBytes undoes mapBytes, if anything is there. Work that runs may still use the bytes.
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

// showTo lets o's kernels see all that is and will be mapped here.
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

// closeTable takes all away, from everybody, for good.
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
