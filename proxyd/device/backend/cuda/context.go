// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// cudaContext is a context of the program, and a context of the driver's: a fault stays there.
type cudaContext struct {
	core.ContextState
	space  *space
	number uint64 // of the space's contexts and modules, in the order in which they were made
	ctx    driver.Context
	own    *driverStream // for work that is in no stream of the program
	clock  clock
	marks  events // spare events of the driver's

	moving sync.Mutex // held by the user of own

	mu      sync.Mutex // the order in which streams are given work
	legacy  *stream
	streams map[*stream]bool // also streams that were destroyed with work in them
	modules map[*module]bool // also modules that were unloaded and that queued work uses
	events  map[*event]bool

	settings sync.Mutex
	limits   []limitValue // that the program has set, in this order

	ending sync.RWMutex // held while the driver's context ends, for reading during calls on the context
	ended  bool
}

func newContext(s *space, id backend.ContextID) (*cudaContext, error) {
	c := &cudaContext{space: s, number: s.countObject(), streams: map[*stream]bool{}, modules: map[*module]bool{}, events: map[*event]bool{}}
	c.Init(id)
	c.marks.drv, c.clock.context = s.device.backend.drv, c
	c.legacy = c.plainStream(backend.StreamConfig{})
	c.streams[c.legacy] = true
	p, err := c.makeObjects(s.currentDevice(), s.cfg.Owner)
	if err != nil {
		return nil, err
	}
	c.adoptObjects(p)
	return c, nil
}

// firstVariable is the name of firstModule's variable.
const firstVariable = "sing_first"

// firstModule has the driver reserve the addresses of a context's code and variables when the context is made, and not
// when the program's first module is loaded: so other calls of the program before that do not change where its
// variables are.
const firstModule = `
.version 6.0
.target sm_30
.address_size 64
.visible .global .align 4 .u32 sing_first = 1;
.visible .entry sing_first_kernel()
{
	ret;
}
`

// recordFault takes an error of the driver's: sticky errors are the context's fault.
func (c *cudaContext) recordFault(err error) error {
	if err != nil && backend.ResultOf(err).Sticky() {
		c.SetFault(err)
		return c.Err()
	}
	return err
}

// listStreams returns all streams.
func (c *cudaContext) listStreams() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*stream, 0, len(c.streams))
	for s := range c.streams {
		all = append(all, s)
	}
	return all
}

// pendingWork returns a mark at the end of each stream that has work.
func (c *cudaContext) pendingWork(of func(*stream) bool) []*mark {
	var marks []*mark
	for _, st := range c.listStreams() {
		if of(st) && !st.isEmpty() {
			marks = append(marks, st.fenceMark())
		}
	}
	return marks
}

func anyStream(*stream) bool { return true }

func isBlocking(st *stream) bool { return !st.cfg.NonBlocking }

// Synchronize implements backend.Context.
func (c *cudaContext) Synchronize(ctx context.Context) error {
	freed := c.space.freed.marksOf(func(st *stream) bool { return st.context == c })
	for _, m := range c.pendingWork(anyStream) {
		if err := m.waitFor(ctx); err != nil {
			return err
		}
	}
	c.space.freed.finishMarks(freed)
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

// limits are the limits that a program may ask for; dynamic parallelism, which has two more, is refused.
var limits = []backend.Limit{
	backend.LimitStackSize, backend.LimitPrintfFIFO, backend.LimitMallocHeap, backend.LimitL2Fetch, backend.LimitPersistingL2,
}

// Limit implements backend.Context.
func (c *cudaContext) Limit(l backend.Limit) (uint64, error) {
	if err := c.CheckUsable(); err != nil {
		return 0, err
	}
	if !slices.Contains(limits, l) {
		return 0, fmt.Errorf("limit %d: %w", l, backend.UnsupportedLimit)
	}
	var v uint64
	err := c.whileAlive(func() (err error) {
		v, err = c.space.device.backend.drv.Limit(c.ctx, l)
		return err
	})
	return v, c.recordFault(err)
}

// SetLimit implements backend.Context.
func (c *cudaContext) SetLimit(l backend.Limit, v uint64) error {
	if _, err := c.Limit(l); err != nil {
		return err
	}
	return c.recordFault(c.whileAlive(func() error {
		if err := c.space.device.backend.drv.SetLimit(c.ctx, l, v); err != nil {
			return err
		}
		c.settings.Lock()
		defer c.settings.Unlock()
		c.limits = append(slices.DeleteFunc(c.limits, func(x limitValue) bool { return x.limit == l }), limitValue{l, v})
		return nil
	}))
}

// limitValue is the value of a limit.
type limitValue struct {
	limit backend.Limit
	value uint64
}

// Destroy implements backend.Context.
func (c *cudaContext) Destroy() error {
	s := c.space
	s.steady.RLock()
	defer s.steady.RUnlock()
	if err := c.MarkDestroyed(); err != nil {
		return err
	}
	for _, m := range c.pendingWork(anyStream) {
		if m.waitFor(s.ctx) != nil {
			return errClosed
		}
	}
	s.mu.Lock()
	var own []backend.Addr
	for _, a := range s.ledger.Allocations() {
		if a.Context == c.ID() && (a.Kind == backend.Plain || a.Kind == backend.Globals) {
			own = append(own, a.Base)
		}
	}
	s.dropVariables(func(v variable) bool { return v.module.context == c })
	s.mu.Unlock()
	for _, a := range own {
		if err := s.freeMemory(a, backend.Plain, backend.Globals); err != nil {
			return err
		}
	}
	s.mu.Lock()
	delete(s.contexts, c.ID())
	s.mu.Unlock()
	return c.endContext()
}

// endContext ends the driver's context, with all its contents.
func (c *cudaContext) endContext() error {
	_ = c.MarkDestroyed() // the program may have destroyed the context before
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	return c.space.device.backend.drv.DestroyContext(c.ctx)
}

// whileAlive calls f, which asks something of the driver's context and does not wait, unless that has ended.
func (c *cudaContext) whileAlive(f func() error) error {
	c.ending.RLock()
	defer c.ending.RUnlock()
	if c.ended {
		return fmt.Errorf("context %d: %w", c.ID(), backend.ContextIsDestroyed)
	}
	return f()
}
