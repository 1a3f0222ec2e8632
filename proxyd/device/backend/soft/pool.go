// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// pool is a memory pool: it counts, and places nothing.
type pool struct {
	maxSize   uint64
	destroyed bool
	reuse     [3]bool
	threshold uint64
	used      uint64
	usedHigh  uint64
	resHigh   uint64
}

// pooled counts an allocation that a pool gives or takes back.
func (l *ledger) pooled(a backend.Allocation, given bool) {
	p := l.pools[a.Pool]
	n := roundUp(a.Size, quantum)
	if given {
		p.used += n
		p.usedHigh, p.resHigh = max(p.usedHigh, p.used), max(p.resHigh, p.used)
		return
	}
	if p.used -= n; p.used == 0 && p.destroyed {
		delete(l.pools, a.Pool)
	}
}

// pool finds a pool that can be used.
func (l *ledger) pool(id backend.PoolID) (*pool, error) {
	if p := l.pools[id]; p != nil && !p.destroyed {
		return p, nil
	}
	return nil, fmt.Errorf("pool %d: %w", id, backend.InvalidValue)
}

// NewPool implements backend.Pools.
func (s *space) NewPool(maxSize uint64) (backend.PoolID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	s.ledger.nextPool++
	s.ledger.pools[s.ledger.nextPool] = &pool{maxSize: maxSize, reuse: [3]bool{true, true, true}}
	return s.ledger.nextPool, nil
}

// DestroyPool implements backend.Pools.
func (s *space) DestroyPool(id backend.PoolID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.ledger.pool(id)
	if err != nil || id == backend.DefaultPool {
		return fmt.Errorf("destroy pool %d: %w", id, backend.InvalidValue)
	}
	if p.destroyed = true; p.used == 0 {
		delete(s.ledger.pools, id)
	}
	return nil
}

// PoolAttribute implements backend.Pools.
func (s *space) PoolAttribute(id backend.PoolID, a backend.PoolAttribute) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.ledger.pool(id)
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

// SetPoolAttribute implements backend.Pools.
func (s *space) SetPoolAttribute(id backend.PoolID, a backend.PoolAttribute, v uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.ledger.pool(id)
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

// TrimPool implements backend.Pools: a pool holds nothing but what is in use.
func (s *space) TrimPool(id backend.PoolID, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.ledger.pool(id)
	return err
}
