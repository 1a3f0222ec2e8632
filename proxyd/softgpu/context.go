// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
)

// cudaContext is a context of the program.
type cudaContext struct {
	core.ContextState
	space *space

	mu      sync.Mutex // the order in which streams are given work
	legacy  *stream
	streams map[*stream]bool
	orphans []*mark // of blocking streams that were destroyed with work in them
	modules map[*module]bool
	limits  map[backend.Limit]uint64

	launches []streamLaunch // not used yet
}

var defaultLimits = map[backend.Limit]uint64{
	backend.LimitStackSize: 1 << 10, backend.LimitPrintfFIFO: 1 << 20, backend.LimitMallocHeap: 8 << 20,
	backend.LimitL2Fetch: 64, backend.LimitPersistingL2: 0, backend.LimitPendingLaunches: 2048,
}

func newContext(s *space, id backend.ContextID) *cudaContext {
	c := &cudaContext{space: s, streams: map[*stream]bool{}, modules: map[*module]bool{}, limits: map[backend.Limit]uint64{}}
	for l, v := range defaultLimits {
		c.limits[l] = v
	}
	c.Init(id)
	c.legacy = c.plainStream(backend.StreamConfig{})
	c.streams[c.legacy] = true
	return c
}

// lastWork is the last work of each stream.
func (c *cudaContext) lastWork() []*mark { return c.collectWork((*stream).lastMark) }

// collectWork lists the marks of work that last finds in each stream, and of work in streams that were destroyed.
func (c *cudaContext) collectWork(last func(*stream) *mark) []*mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orphans = unreachedMarks(c.orphans)
	marks := append([]*mark(nil), c.orphans...)
	for s := range c.streams {
		marks = append(marks, last(s))
	}
	return unreachedMarks(marks)
}

// Synchronize implements backend.Context.
func (c *cudaContext) Synchronize(ctx context.Context) error {
	for _, m := range c.lastWork() {
		if err := m.waitReached(ctx); err != nil {
			return err
		}
	}
	return c.CheckUsable()
}

// Alloc implements backend.Context.
func (c *cudaContext) Alloc(n uint64) (backend.Addr, error) {
	if err := c.CheckUsable(); err != nil {
		return 0, err
	}
	p, err := c.space.placeMemory(backend.Allocation{Size: n, Kind: backend.Plain, Context: c.ID()})
	return p.Alloc.Base, err
}

// AllocPitch implements backend.Context.
func (c *cudaContext) AllocPitch(width, height uint64, element uint32) (backend.Addr, uint64, error) {
	return core.AllocPitched(c, width, height, element, c.space.cfg.Memory)
}

// Free implements backend.Context.
func (c *cudaContext) Free(a backend.Addr) error {
	if err := c.CheckUsable(); err != nil || a == 0 {
		return err
	}
	return c.space.freeMemory(a, backend.Plain, backend.Pooled)
}

// Legacy implements backend.Context.
func (c *cudaContext) Legacy() backend.Stream { return c.legacy }

// NewStream implements backend.Context.
func (c *cudaContext) NewStream(cfg backend.StreamConfig) (backend.Stream, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, err
	}
	cfg.Priority = min(max(cfg.Priority, backend.GreatestPriority), backend.LeastPriority)
	s := c.plainStream(cfg)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[s] = true
	return s, nil
}

// Limit implements backend.Context.
func (c *cudaContext) Limit(l backend.Limit) (uint64, error) {
	if err := c.CheckUsable(); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.limits[l]
	if !ok {
		return 0, fmt.Errorf("limit %d: %w", l, backend.UnsupportedLimit)
	}
	return v, nil
}

// SetLimit implements backend.Context.
func (c *cudaContext) SetLimit(l backend.Limit, v uint64) error {
	if _, err := c.Limit(l); err != nil {
		return err
	}
	switch {
	case l == backend.LimitPersistingL2 || l == backend.LimitL2Fetch && v > 128,
		l == backend.LimitStackSize && v > 512<<10, l == backend.LimitMallocHeap && v > c.space.cfg.Memory,
		l == backend.LimitPendingLaunches && v > mostPending:
		return fmt.Errorf("limit %d of %d: %w", l, v, backend.InvalidValue)
	}
	if l == backend.LimitMallocHeap && c.space.hasKernelHeap() {
		return fmt.Errorf("limit %d: kernels use the heap: %w", l, backend.InvalidValue)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits[l] = v
	return nil
}

// Destroy implements backend.Context.
func (c *cudaContext) Destroy() error {
	if err := c.MarkDestroyed(); err != nil {
		return err
	}
	s := c.space
	if err := s.awaitMarks(c.lastWork()); err != nil {
		return err
	}
	s.mu.Lock()
	var own, imports []backend.Addr
	for _, a := range s.ledger.Allocations() {
		switch {
		case a.Context != c.ID():
		case a.Kind == backend.Plain || a.Kind == backend.Globals:
			own = append(own, a.Base)
		case a.Kind == backend.Imported:
			imports = append(imports, a.Base)
		}
	}
	s.mu.Unlock()
	for _, a := range imports {
		if err := closeImport(s, a); err != nil {
			return err
		}
	}
	for _, a := range own {
		if err := s.freeMemory(a, backend.Plain, backend.Globals); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernelHeap != nil {
		s.kernelHeap.freeContext(c.ID())
	}
	delete(s.contexts, c.ID())
	return nil
}
