// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// bufferIDs numbers allocations for programs that ask: an allocation at the place of an earlier allocation has another
// number.
type bufferIDs struct {
	mu   sync.Mutex
	last uint64
	all  map[backend.Addr]buffer
}

type buffer struct {
	what backend.Allocation
	id   uint64
}

// idOf names an allocation, 0 if too many have names.
func (b *bufferIDs) idOf(a backend.Allocation) uint64 {
	a.Share = backend.Share{} // an allocation that is exported stays the same
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.all[a.Base]; ok && known.what == a {
		return known.id
	}
	if b.all == nil {
		b.all = map[backend.Addr]buffer{}
	}
	if len(b.all) >= handles.Max {
		return 0
	}
	b.last++
	b.all[a.Base] = buffer{a, b.last}
	return b.last
}

// forgetFreed forgets the buffer that begins at an address.
func (b *bufferIDs) forgetFreed(a backend.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, a)
}

// PointerFacts finds the allocation that holds an address: NOT_FOUND if there is none, or for pinned memory, which the
// shim knows.
func (p *Calls) PointerFacts(_ *dispatch.Call, ptr dispatch.Devptr) (kind uint32, ctx dispatch.Context, dev int32, begin, n, id uint64, pool dispatch.Mempool, r dispatch.Result) {
	s := p.SpaceAt(backend.Addr(ptr))
	if s == nil {
		return 0, 0, 0, 0, 0, 0, 0, dispatch.ResultNotFound
	}
	a, ok := s.Lookup(backend.Addr(ptr))
	if !ok {
		return 0, 0, 0, 0, 0, 0, 0, dispatch.ResultNotFound
	}
	for _, x := range p.Contexts.Values() {
		if x.Space == s && x.Backend.ID() == a.Context && (a.Kind == backend.Plain || a.Kind == backend.Globals || a.Kind == backend.Imported) {
			ctx = x.Handle
		}
	}
	if a.Kind == backend.Pooled {
		pool = p.poolOf(s, a.Pool)
	}
	kind = uint32(a.Kind)
	if p.isShareable(s, a) {
		kind |= shareable
	}
	return kind, ctx, s.Ordinal, uint64(a.Base), a.Size, p.Buffers.idOf(a), pool, 0
}

// poolOf is the handle of a space's pool, 0 if the program has no handle of the pool.
func (p *Calls) poolOf(s *driver.Space, id backend.PoolID) dispatch.Mempool {
	hs, pools := handles.Sorted(&p.pools)
	for i, m := range pools {
		if m.space == s && m.id == id && !m.imported {
			return hs[i]
		}
	}
	return 0
}
