// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// Context is a context of the program.
type Context struct {
	Backend backend.Context
	Space   *Space
	Handle  dispatch.Context
	ID      uint64 // never used again in the process
	Gone    atomic.Bool

	late dispatch.Result // of posted calls that failed; the process's mu guards late

	mu        sync.Mutex
	flags     uint32
	cache     int32
	Legacy    *Stream
	perThread map[uint32]*Stream
	sweeps    int // of perThread, and how many the last sweep left
	swept     int
	peers     map[*Space]bool
}

// Current is the context that is current for the calling thread: INVALID_CONTEXT without such a context.
func (p *Process) Current(c *dispatch.Call) (*Context, dispatch.Result) {
	return p.Context(c.Context)
}

// Context finds a context: INVALID_CONTEXT if there is none with this handle, CONTEXT_IS_DESTROYED if there was a
// context.
func (p *Process) Context(h dispatch.Context) (*Context, dispatch.Result) {
	if x, ok := p.Contexts.Get(h); ok {
		return x, 0
	}
	if _, was := p.destroyed.Get(h); was {
		return nil, dispatch.ResultContextIsDestroyed
	}
	return nil, dispatch.ResultInvalidContext
}

// newContext makes a context on a device, with the handle.
func (p *Process) newContext(h dispatch.Context, flags uint32, dev int32) (*Context, dispatch.Result) {
	s, r := p.Space(dev)
	if r != 0 {
		return nil, r
	}
	var id backend.ContextID
	if p.Restoring != nil {
		id = p.Restoring.ContextID(h)
	}
	b, err := s.NewContext(id)
	if err != nil {
		return nil, p.Result(err)
	}
	x := &Context{Backend: b, Space: s, Handle: h, ID: p.nextID(), flags: flags, perThread: map[uint32]*Stream{}, peers: map[*Space]bool{}}
	x.Legacy = &Stream{Context: x, Backend: b.Legacy(), ID: p.nextID()}
	if p.Restoring != nil {
		p.Restoring.WrapContext(x)
	}
	if r := p.Contexts.Put(h, x); r != 0 {
		_ = b.Destroy() // b is unused
		return nil, r
	}
	p.destroyed.Drop(h) // a primary context comes again
	return x, 0
}

// nextID numbers contexts and streams.
func (p *Process) nextID() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lasts++
	return p.lasts
}

// destroyContext ends a context with its streams, events and modules, and waits for the context's work.
func (p *Process) destroyContext(c *dispatch.Call, x *Context) dispatch.Result {
	if x.Gone.Swap(true) {
		return dispatch.ResultContextIsDestroyed
	}
	p.destroyed.Put(x.Handle, struct{}{}) // if there is room: else the handle becomes unknown
	p.Contexts.Drop(x.Handle)
	p.streams.DropIf(func(s *Stream) bool { return s.Context == x })
	p.events.DropIf(func(e *Event) bool { return e.Context == x })
	p.Sharing.ForgetEvents(func(e *Event) bool { return e.Context == x })
	for _, end := range p.OnContextEnd {
		end(x)
	}
	x.mu.Lock()
	for s := range x.peers {
		_ = x.Space.denyPeer(s) // s was allowed
	}
	clear(x.peers)
	x.mu.Unlock()
	p.BeginWait(c)
	return p.Result(x.Backend.Destroy())
}

// ThreadCount is the number of threads that have default streams.
func (x *Context) ThreadCount() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.perThread)
}

// NewDestroyedContext makes the entry of a context that was destroyed before a save.
func NewDestroyedContext(h dispatch.Context) *Context {
	x := &Context{Handle: h}
	x.Gone.Store(true)
	return x
}
