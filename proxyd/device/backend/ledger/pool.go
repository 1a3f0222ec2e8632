// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Pool is a memory pool. It counts bytes; the heap places the allocations.
type Pool struct {
	maxSize   uint64
	destroyed bool
	reuse     [3]bool
	threshold uint64
	used      uint64
	usedHigh  uint64
	resHigh   uint64
}

// PlacePooled is Place for a pool.
func (l *Ledger[B]) PlacePooled(id backend.PoolID, n uint64) (Piece[B], error) {
	p, err := l.findPool(id)
	if err != nil {
		return Piece[B]{}, err
	}
	if p.maxSize != 0 && RoundUp(n, Quantum) > p.maxSize-min(p.used, p.maxSize) {
		return Piece[B]{}, fmt.Errorf("pool %d of %d bytes, %d are used: %w", id, p.maxSize, p.used, backend.OutOfMemory)
	}
	got, err := l.Place(backend.Allocation{Size: n, Kind: backend.Pooled, Pool: id})
	if err == nil {
		l.countPooled(got.Alloc, true)
	}
	return got, err
}

// Unname takes an allocation of these kinds out of the ledger. Its bytes are still there: see Unref.
func (l *Ledger[B]) Unname(a backend.Addr, kinds ...backend.AllocKind) (Piece[B], error) {
	if x, ok := l.At(a); ok {
		for _, k := range kinds {
			if x.Kind != k {
				continue
			}
			if k == backend.Pooled {
				l.countPooled(x, false)
			}
			return l.Leave(x), nil
		}
	}
	return Piece[B]{}, fmt.Errorf("free %#x: no allocation begins there: %w", uint64(a), backend.InvalidValue)
}

// countPooled counts an allocation that a pool gives or takes back.
func (l *Ledger[B]) countPooled(a backend.Allocation, given bool) {
	p := l.pools[a.Pool]
	n := RoundUp(a.Size, Quantum)
	if given {
		p.used += n
		p.usedHigh, p.resHigh = max(p.usedHigh, p.used), max(p.resHigh, p.used)
		return
	}
	if p.used -= n; p.used == 0 && p.destroyed {
		delete(l.pools, a.Pool)
	}
}

// findPool finds a pool that can be used.
func (l *Ledger[B]) findPool(id backend.PoolID) (*Pool, error) {
	if p := l.pools[id]; p != nil && !p.destroyed {
		return p, nil
	}
	return nil, fmt.Errorf("pool %d: %w", id, backend.InvalidValue)
}

// NewPool carries out NewPool of backend.Pools; likewise the methods below.
func (l *Ledger[B]) NewPool(maxSize uint64) backend.PoolID {
	l.nextPool++
	l.pools[l.nextPool] = &Pool{maxSize: maxSize, reuse: [3]bool{true, true, true}}
	return l.nextPool
}

// DestroyPool ends a pool.
func (l *Ledger[B]) DestroyPool(id backend.PoolID) error {
	p, err := l.findPool(id)
	if err != nil || id == backend.DefaultPool {
		return fmt.Errorf("destroy pool %d: %w", id, backend.InvalidValue)
	}
	if p.destroyed = true; p.used == 0 {
		delete(l.pools, id)
	}
	return nil
}

// PoolAttribute reads an attribute.
func (l *Ledger[B]) PoolAttribute(id backend.PoolID, a backend.PoolAttribute) (uint64, error) {
	p, err := l.findPool(id)
	if err != nil {
		return 0, err
	}
	switch a {
	case backend.PoolReuseFollowEvents, backend.PoolReuseOpportunistic, backend.PoolReuseInternalDependencies:
		if p.reuse[a-backend.PoolReuseFollowEvents] {
			return 1, nil
		}
		return 0, nil
	case backend.PoolReleaseThreshold:
		return p.threshold, nil
	case backend.PoolReservedCurrent, backend.PoolUsedCurrent:
		return p.used, nil
	case backend.PoolReservedHigh:
		return p.resHigh, nil
	case backend.PoolUsedHigh:
		return p.usedHigh, nil
	}
	return 0, fmt.Errorf("pool attribute %d: %w", a, backend.InvalidValue)
}

// SetPoolAttribute sets an attribute.
func (l *Ledger[B]) SetPoolAttribute(id backend.PoolID, a backend.PoolAttribute, v uint64) error {
	p, err := l.findPool(id)
	if err != nil {
		return err
	}
	switch {
	case a >= backend.PoolReuseFollowEvents && a <= backend.PoolReuseInternalDependencies:
		p.reuse[a-backend.PoolReuseFollowEvents] = v != 0
	case a == backend.PoolReleaseThreshold:
		p.threshold = v
	case a == backend.PoolReservedHigh && v == 0:
		p.resHigh = p.used
	case a == backend.PoolUsedHigh && v == 0:
		p.usedHigh = p.used
	default:
		return fmt.Errorf("set pool attribute %d to %d: %w", a, v, backend.InvalidValue)
	}
	return nil
}

// Surplus returns how many of the kept free bytes of a pool are too many: a pool may hold as many bytes as its release
// threshold, or as are in use if that is more. A pool that was destroyed may keep no free bytes.
func (l *Ledger[B]) Surplus(id backend.PoolID, kept uint64) uint64 {
	p := l.pools[id]
	if p == nil || p.destroyed {
		return kept
	}
	return kept - min(kept, p.threshold-min(p.threshold, p.used))
}

// Excess is Surplus with hold in the place of the release threshold.
func (l *Ledger[B]) Excess(id backend.PoolID, kept, hold uint64) uint64 {
	p := l.pools[id]
	if p == nil {
		return kept
	}
	return kept - min(kept, hold-min(hold, p.used))
}

// TrimPool only checks the pool: the backend holds the bytes that a pool keeps beyond its allocations.
func (l *Ledger[B]) TrimPool(id backend.PoolID) error {
	_, err := l.findPool(id)
	return err
}
