// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Spaces of a group can see each other's memory: the table of the importing space has the exporter's bytes at an
// address of its own. Both name the same arena, which is freed when the last of them drops it.
//
// A shared arena stays where it is, like the buffers of a collective: work of a space that is mapped may use the arena
// while its exporter is not mapped. So a shared arena is never swapped, nor does it show common bytes that it did not
// show before. And no kernel that uses shared memory takes another kernel's result, or leaves a result: another space
// may write there at any time.

// shareKey names shared memory of a backend.
type shareKey struct {
	group uint64
	id    backend.ShareID
}

// arenaShare is the state of an arena that several spaces share. The Backend's mu guards an arenaShare, but for last,
// which the owner's mu guards.
type arenaShare struct {
	backend *Backend
	key     shareKey
	owner   *space         // with allocations in the arena; nil: the owner has freed all, or is closed
	users   map[*space]int // that have the arena, and how often
	last    uint64         // Number of the last export
}

// shareArena lets other spaces of the group have an arena.
func (b *Backend) shareArena(a *arena, s *space) *arenaShare {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.share == nil {
		x := &arenaShare{backend: b, key: shareKey{group: s.cfg.Group}, owner: s, users: map[*space]int{s: 1}}
		_, _ = rand.Read(x.key.id[:]) // rand.Read never fails
		a.share = x
		b.shared[x.key] = a
	}
	return a.share
}

// restoreShared is the arena of saved shared memory, for the space that owns the memory or for a space that imports the
// memory. The first space that asks makes the arena.
func (b *Backend) restoreShared(s *space, m backend.SharedMemory, n uint64, own bool) (*arena, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := shareKey{s.cfg.Group, m.ID}
	a := b.shared[key]
	if a == nil {
		var err error
		if a, err = makeArena(n); err != nil {
			return nil, err
		}
		a.share = &arenaShare{backend: b, key: key, users: map[*space]int{}}
		b.shared[key] = a
	}
	if uint64(len(a.bytes)) != n || own && a.share.owner != nil {
		return nil, fmt.Errorf("shared memory of %d bytes, not of %d, or of two spaces: %w", len(a.bytes), n, backend.InvalidValue)
	}
	if own {
		a.share.owner, a.share.last = s, m.Last
	}
	a.share.users[s]++
	return a, nil
}

// useShared notes another use of a shared arena.
func (x *arenaShare) useShared(s *space) {
	x.backend.mu.Lock()
	defer x.backend.mu.Unlock()
	x.users[s]++
}

// dropUser undoes useShared, and tells whether that was the last use.
func (x *arenaShare) dropUser(s *space) bool {
	b := x.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.owner == s {
		x.owner = nil // the owner has no import of its own memory
	}
	if x.users[s]--; x.users[s] <= 0 {
		delete(x.users, s)
	}
	if len(x.users) > 0 {
		return false
	}
	delete(b.shared, x.key)
	return true
}

// dropArena drops a space's arena, and frees it if no other space has it.
func dropArena(s *space, a *arena) {
	if a.share == nil || a.share.dropUser(s) {
		a.freeBytes()
	}
}

// Export implements backend.Sharer.
func (c *cudaContext) Export(a backend.Addr) (out backend.Share, err error) {
	if err := c.CheckUsable(); err != nil {
		return out, err
	}
	// While this is under way the space does not leave the device, and afterwards its shared memory stays.
	if !c.space.guardBytes(func() { out, err = exportMemory(c.space, a) }) {
		return out, errClosed
	}
	return out, err
}

// exportMemory names an allocation among spaces.
func exportMemory(s *space, a backend.Addr) (backend.Share, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.ledger.Exportable(a)
	if err != nil || p.Alloc.Share.Number != 0 {
		return p.Alloc.Share, err
	}
	x := s.device.backend.shareArena(p.Arena.Bytes, s)
	x.last++
	name := backend.Share{Memory: x.key.id, Number: x.last}
	s.ledger.NameShare(p.Alloc.Base, name)
	return name, nil
}

// useExported finds an exported allocation and its arena, which counts a use of another space from then on.
func useExported(s *space, name backend.Share, by *space) (backend.Allocation, *arena, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, found := s.ledger.Exported(name)
	if s.closed || !found {
		return x, nil, fmt.Errorf("import: the exporter does not have that: %w", backend.InvalidHandle)
	}
	a := s.ledger.ArenaOf(x).Bytes
	a.share.useShared(by)
	return x, a, nil
}

// Import implements backend.Sharer.
func (c *cudaContext) Import(from backend.Space, name backend.Share) (backend.Addr, error) {
	if err := c.CheckUsable(); err != nil {
		return 0, err
	}
	s := c.space
	f, ok := from.(*space)
	if !ok || f == s || f.device.backend != s.device.backend || f.cfg.Group != s.cfg.Group {
		return 0, fmt.Errorf("import from a space that does not share memory with this one: %w", backend.InvalidValue)
	}
	x, a, err := useExported(f, name, s)
	if err != nil {
		return 0, err
	}
	x, waits, err := enterImport(s, x, a, c.ID())
	if err != nil {
		dropArena(s, a)
		return 0, err
	}
	if err := s.awaitMarks(waits); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, still := s.ledger.At(x.Base); !still {
		return 0, fmt.Errorf("import: closed meanwhile: %w", backend.InvalidValue)
	}
	return x.Base, s.table.mapBytes(x.Base, bytesOfImport(s, x))
}

// enterImport finds room for an import. Its addresses can be used once the returned marks are reached.
func enterImport(s *space, x backend.Allocation, a *arena, id backend.ContextID) (backend.Allocation, []*mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return x, nil, errClosed
	}
	x.Context = id
	x, err := s.ledger.Import(x, uint64(x.Base)%backend.Granule, a)
	if err != nil {
		return x, nil, err
	}
	return x, s.ledger.waitsFor(x.Base&^(backend.Granule-1), uint64(len(a.bytes))), nil
}

// bytesOfImport are the bytes of an import. The caller holds mu.
func bytesOfImport(s *space, x backend.Allocation) []byte {
	return bytesOf(piece{Alloc: x, Arena: s.ledger.ArenaOf(x)})
}

// CloseImport implements backend.Sharer.
func (c *cudaContext) CloseImport(a backend.Addr) error {
	if err := c.CheckUsable(); err != nil {
		return err
	}
	return closeImport(c.space, a)
}

// closeImport takes an import out of the ledger at once, and unmaps it when all work given so far is done: see
// freeMemory.
func closeImport(s *space, a backend.Addr) error {
	work := s.contextsWork()
	s.mu.Lock()
	_, ar, err := s.ledger.CloseImport(a)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	over := s.ledger.addFreeing(a&^(backend.Granule-1), ar.Size)
	s.mu.Unlock()
	s.afterMarks(over, work, func() {
		s.table.unmapBytes(a)
		s.dropReference(ar)
	})
	return nil
}

// OpenEvent implements backend.Sharer.
func (c *cudaContext) OpenEvent(x backend.Event) (backend.Event, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, err
	}
	e, ok := x.(*event)
	if !ok || e.context.space.device.backend != c.space.device.backend || e.context.space.cfg.Group != c.space.cfg.Group {
		return nil, fmt.Errorf("open an event of a context that does not share events with this one: %w", backend.InvalidValue)
	}
	return &event{context: c, cfg: e.cfg, recorded: e.recorded}, nil
}

// describeShared adds the space's shared memory to a state. The caller holds mu.
func describeShared(s *space, st *backend.State) {
	b := s.device.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[*arena]bool{}
	for _, a := range st.Allocations {
		h := s.ledger.ArenaOf(a)
		if h == nil || h.Bytes.share == nil || seen[h.Bytes] {
			continue
		}
		x := h.Bytes.share
		if a.Kind != backend.Imported {
			st.Shared = append(st.Shared, backend.SharedMemory{Base: h.Base, ID: x.key.id, Last: x.last})
			seen[h.Bytes] = true
		} else if keepsOrphan(s, x) {
			st.Orphans = append(st.Orphans, a.Base)
			seen[h.Bytes] = true
		}
	}
	slices.SortFunc(st.Shared, func(x, y backend.SharedMemory) int { return cmp.Compare(x.Base, y.Base) })
}

// keepsOrphan tells whether a save has the bytes of shared memory with this space: no space has the memory as its own, and
// of those that import the memory, this is the first. The caller holds the Backend's mu.
func keepsOrphan(s *space, x *arenaShare) bool {
	if x.owner != nil {
		return false
	}
	for o := range x.users {
		if o.number < s.number {
			return false
		}
	}
	return true
}
