// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"

// NewPool implements backend.Pools.
func (s *space) NewPool(maxSize uint64) (backend.PoolID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	return s.ledger.NewPool(maxSize), nil
}

// DestroyPool implements backend.Pools.
func (s *space) DestroyPool(id backend.PoolID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.DestroyPool(id)
}

// PoolAttribute implements backend.Pools.
func (s *space) PoolAttribute(id backend.PoolID, a backend.PoolAttribute) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.PoolAttribute(id, a)
}

// SetPoolAttribute implements backend.Pools.
func (s *space) SetPoolAttribute(id backend.PoolID, a backend.PoolAttribute, v uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.SetPoolAttribute(id, a, v)
}

// TrimPool implements backend.Pools: a pool holds nothing but what is in use.
func (s *space) TrimPool(id backend.PoolID, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.TrimPool(id)
}
