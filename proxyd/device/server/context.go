// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// cudaContext is one of the program's contexts.
type cudaContext struct {
	b      backend.Context
	space  *space
	handle dispatch.Context
	id     uint64 // never used again in the process
	gone   atomic.Bool

	late dispatch.Result // of what was posted and failed; the process's mu guards it

	mu        sync.Mutex
	flags     uint32
	cache     int32
	legacy    *cudaStream
	perThread map[uint32]*cudaStream
	sweeps    int // of perThread, and how many the last one left
	swept     int
	peers     map[*space]bool
}

// current is the context that is current where the call comes from: INVALID_CONTEXT if there is none.
func (p *core) current(c *dispatch.Call) (*cudaContext, dispatch.Result) {
	return p.context(c.Context)
}

// context finds a context: INVALID_CONTEXT if there is none with this handle, CONTEXT_IS_DESTROYED if there was one.
func (p *core) context(h dispatch.Context) (*cudaContext, dispatch.Result) {
	if x, ok := p.contexts.get(h); ok {
		return x, 0
	}
	if _, was := p.destroyed.get(h); was {
		return nil, dispatch.ResultContextIsDestroyed
	}
	return nil, dispatch.ResultInvalidContext
}

// newContext makes a context on a device and gives it the handle.
func (p *core) newContext(h dispatch.Context, flags uint32, dev int32) (*cudaContext, dispatch.Result) {
	s, r := p.space(dev)
	if r != 0 {
		return nil, r
	}
	var id backend.ContextID
	if p.rebuild != nil {
		id = p.rebuild.ContextID(h)
	}
	b, err := s.NewContext(id)
	if err != nil {
		return nil, p.result(err)
	}
	x := &cudaContext{b: b, space: s, handle: h, id: p.nextID(), flags: flags, perThread: map[uint32]*cudaStream{}, peers: map[*space]bool{}}
	x.legacy = &cudaStream{context: x, b: b.Legacy(), id: p.nextID()}
	if p.rebuild != nil {
		p.rebuild.WrapContext(x)
	}
	if r := p.contexts.put(h, x); r != 0 {
		_ = b.Destroy() // nobody has used it
		return nil, r
	}
	p.destroyed.drop(h) // a primary one comes again
	return x, 0
}

// nextID numbers contexts and streams.
func (p *core) nextID() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lasts++
	return p.lasts
}

// destroy ends a context and what belongs to it. It waits for the context's work.
func (p *core) destroy(c *dispatch.Call, x *cudaContext) dispatch.Result {
	if x.gone.Swap(true) {
		return dispatch.ResultContextIsDestroyed
	}
	p.destroyed.put(x.handle, struct{}{}) // if there is room: else it will be one that never was
	p.contexts.drop(x.handle)
	p.streams.dropIf(func(s *cudaStream) bool { return s.context == x })
	p.events.dropIf(func(e *cudaEvent) bool { return e.context == x })
	for _, end := range p.onContextEnd {
		end(x)
	}
	x.mu.Lock()
	for s := range x.peers {
		_ = x.space.deny(s) // it was allowed
	}
	clear(x.peers)
	x.mu.Unlock()
	p.waits(c)
	return p.result(x.b.Destroy())
}

// newDestroyedContext is what stands for a context that was destroyed before a save.
func newDestroyedContext(h dispatch.Context) *cudaContext {
	x := &cudaContext{handle: h}
	x.gone.Store(true)
	return x
}
