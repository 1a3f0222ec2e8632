// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Calls carries out a program's calls that concern the ledger of its space alone, and no bytes: methods of
// backend.Memory, backend.MappableMemory and backend.Pools. A space embeds Calls, and has the other methods itself.
type Calls[B any] struct {
	mu     sync.Locker
	ledger *Ledger[B]
	alive  func() error
}

// NewCalls makes the calls for a ledger. mu is the lock of the space. alive, which is called with mu held, returns an
// error if the space is closed: then the calls make no more objects.
func NewCalls[B any](mu sync.Locker, ledger *Ledger[B], alive func() error) *Calls[B] {
	return &Calls[B]{mu, ledger, alive}
}

// Info implements backend.Memory.
func (c *Calls[B]) Info() (free, total uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.Info()
}

// Lookup implements backend.Memory.
func (c *Calls[B]) Lookup(a backend.Addr) (backend.Allocation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.Lookup(a)
}

// Exported implements backend.ShareHolder.
func (c *Calls[B]) Exported(s backend.Share) (backend.Allocation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alive() != nil {
		return backend.Allocation{}, false
	}
	return c.ledger.Exported(s)
}

// Reserve implements backend.MappableMemory.
func (c *Calls[B]) Reserve(size, align uint64, hint backend.Addr) (backend.Addr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.alive(); err != nil {
		return 0, err
	}
	return c.ledger.Reserve(size, align, hint)
}

// Unreserve implements backend.MappableMemory.
func (c *Calls[B]) Unreserve(a backend.Addr, size uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.Unreserve(a, size)
}

// NewMemory implements backend.MappableMemory.
func (c *Calls[B]) NewMemory(size uint64) (backend.MemoryID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.alive(); err != nil {
		return 0, err
	}
	return c.ledger.NewMemory(size)
}

// RetainMemory implements backend.MappableMemory.
func (c *Calls[B]) RetainMemory(a backend.Addr) (backend.MemoryID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.RetainMemory(a)
}

// MapMemory implements backend.MappableMemory.
func (c *Calls[B]) MapMemory(a backend.Addr, size, offset uint64, id backend.MemoryID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.MapMemory(a, size, offset, id)
}

// NewPool implements backend.Pools.
func (c *Calls[B]) NewPool(maxSize uint64) (backend.PoolID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.alive(); err != nil {
		return 0, err
	}
	return c.ledger.NewPool(maxSize), nil
}

// DestroyPool implements backend.Pools.
func (c *Calls[B]) DestroyPool(id backend.PoolID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.DestroyPool(id)
}

// PoolAttribute implements backend.Pools.
func (c *Calls[B]) PoolAttribute(id backend.PoolID, a backend.PoolAttribute) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.PoolAttribute(id, a)
}

// SetPoolAttribute implements backend.Pools.
func (c *Calls[B]) SetPoolAttribute(id backend.PoolID, a backend.PoolAttribute, v uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.SetPoolAttribute(id, a, v)
}

// TrimPool implements backend.Pools: a pool holds no memory beyond its allocations.
func (c *Calls[B]) TrimPool(id backend.PoolID, _ uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.TrimPool(id)
}
