// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// contextWaits are the calls of this file, and of device.go, that may wait.
var contextWaits = []string{
	"cuCtxSynchronize", "cuCtxSynchronize_v2", "cuCtxDestroy_v2", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2",
}

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
func (p *process) current(c *dispatch.Call) (*cudaContext, dispatch.Result) {
	return p.context(c.Context)
}

// context finds a context: INVALID_CONTEXT if there is none with this handle, CONTEXT_IS_DESTROYED if there was one.
func (p *process) context(h dispatch.Context) (*cudaContext, dispatch.Result) {
	if x, ok := p.contexts.get(h); ok {
		return x, 0
	}
	if _, was := p.destroyed.get(h); was {
		return nil, dispatch.ResultContextIsDestroyed
	}
	return nil, dispatch.ResultInvalidContext
}

// newContext makes a context on a device and gives it the handle.
func (p *process) newContext(h dispatch.Context, flags uint32, dev int32) (*cudaContext, dispatch.Result) {
	s, r := p.space(dev)
	if r != 0 {
		return nil, r
	}
	b, err := s.NewContext(p.rebuild.contextID(h))
	if err != nil {
		return nil, p.result(err)
	}
	x := &cudaContext{b: b, space: s, handle: h, id: p.nextID(), flags: flags, perThread: map[uint32]*cudaStream{}, peers: map[*space]bool{}}
	x.legacy = &cudaStream{context: x, b: b.Legacy(), id: p.nextID()}
	p.rebuild.made(x)
	if r := p.contexts.put(h, x); r != 0 {
		_ = b.Destroy() // nobody has used it
		return nil, r
	}
	p.destroyed.drop(h) // a primary one comes again
	return x, 0
}

// nextID numbers contexts and streams.
func (p *process) nextID() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lasts++
	return p.lasts
}

// destroy ends a context and what belongs to it. It waits for the context's work.
func (p *process) destroy(c *dispatch.Call, x *cudaContext) dispatch.Result {
	if x.gone.Swap(true) {
		return dispatch.ResultContextIsDestroyed
	}
	p.destroyed.put(x.handle, struct{}{}) // if there is room: else it will be one that never was
	p.contexts.drop(x.handle)
	p.streams.dropIf(func(s *cudaStream) bool { return s.context == x })
	p.events.dropIf(func(e *cudaEvent) bool { return e.context == x })
	p.code.contextEnded(x)
	p.graphs.contextEnded(x)
	p.nccl.contextEnded(x)
	x.mu.Lock()
	for s := range x.peers {
		_ = x.space.deny(s) // it was allowed
	}
	clear(x.peers)
	x.mu.Unlock()
	p.waits(c)
	return p.result(x.b.Destroy())
}

// contextFlags are all that cuCtxCreate takes.
const contextFlags = 0xff

// checkFlags is INVALID_VALUE for flags of a context that no driver takes.
func checkFlags(flags uint32) dispatch.Result {
	switch schedule := flags & 7; {
	case flags&^contextFlags != 0, schedule != 0 && schedule != 1 && schedule != 2 && schedule != 4:
		return dispatch.ResultInvalidValue
	}
	return 0
}

// CtxCreateV2 implements dispatch.Backend, as all below.
func (p *process) CtxCreateV2(_ *dispatch.Call, ctx dispatch.Context, flags uint32, dev int32) dispatch.Result {
	if r := checkFlags(flags); r != 0 {
		return r
	}
	_, r := p.newContext(ctx, flags, dev)
	return r
}

func (p *process) CtxDestroyV2(c *dispatch.Call, ctx dispatch.Context) dispatch.Result {
	x, r := p.context(ctx)
	if r != 0 {
		return r
	}
	if p.isPrimary(x) {
		return dispatch.ResultInvalidContext
	}
	return p.destroy(c, x)
}

// apiVersion is of contexts: 3020 since CUDA 3.2.
const apiVersion = 3020

func (p *process) CtxGetApiVersion(c *dispatch.Call, ctx dispatch.Context) (uint32, dispatch.Result) {
	if ctx == 0 {
		ctx = c.Context
	}
	_, r := p.context(ctx)
	return apiVersion, r
}

func (p *process) CtxGetId(c *dispatch.Call, ctx dispatch.Context) (uint64, dispatch.Result) {
	if ctx == 0 {
		ctx = c.Context
	}
	x, r := p.context(ctx)
	if r != 0 {
		return 0, r
	}
	return x.id, 0
}

func (p *process) CtxSynchronize(c *dispatch.Call) dispatch.Result {
	return p.CtxSynchronizeV2(c, c.Context)
}

func (p *process) CtxSynchronizeV2(c *dispatch.Call, ctx dispatch.Context) dispatch.Result {
	x, r := p.context(ctx)
	if r != 0 {
		return r
	}
	p.waits(c)
	err := x.b.Synchronize(p.ctx)
	p.output.flush(p.ctx)
	return p.synchronised(x, err)
}

func (p *process) CtxGetFlags(c *dispatch.Call) (uint32, dispatch.Result) {
	x, r := p.current(c)
	if r != 0 {
		return 0, r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.flags, 0
}

func (p *process) CtxSetFlags(c *dispatch.Call, flags uint32) dispatch.Result {
	x, r := p.current(c)
	if r == 0 {
		r = checkFlags(flags)
	}
	if r != 0 {
		return r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flags = flags
	return 0
}

func (p *process) CtxGetLimit(c *dispatch.Call, limit int32) (uint64, dispatch.Result) {
	x, r := p.current(c)
	if r != 0 {
		return 0, r
	}
	v, err := x.b.Limit(backend.Limit(limit))
	return v, p.result(err)
}

func (p *process) CtxSetLimit(c *dispatch.Call, limit int32, value uint64) dispatch.Result {
	x, r := p.current(c)
	if r != 0 {
		return r
	}
	return p.result(x.b.SetLimit(backend.Limit(limit), value))
}

func (p *process) CtxGetCacheConfig(c *dispatch.Call) (int32, dispatch.Result) {
	x, r := p.current(c)
	if r != 0 {
		return 0, r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cache, 0
}

// CtxSetCacheConfig remembers what is preferred; it changes nothing.
func (p *process) CtxSetCacheConfig(c *dispatch.Call, config int32) dispatch.Result {
	x, r := p.current(c)
	if r != 0 {
		return r
	}
	if config < 0 || config > 3 {
		return dispatch.ResultInvalidValue
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cache = config
	return 0
}

// CtxGetSharedMemConfig is of banks of four bytes, as all devices have since compute capability 5.0.
func (p *process) CtxGetSharedMemConfig(c *dispatch.Call) (int32, dispatch.Result) {
	const fourBytes = 1
	_, r := p.current(c)
	return fourBytes, r
}

func (p *process) CtxSetSharedMemConfig(c *dispatch.Call, config int32) dispatch.Result {
	if _, r := p.current(c); r != 0 {
		return r
	}
	if config < 0 || config > 2 {
		return dispatch.ResultInvalidValue
	}
	return 0
}

func (p *process) CtxGetStreamPriorityRange(c *dispatch.Call, _, _ bool) (least, greatest int32, r dispatch.Result) {
	_, r = p.current(c)
	return backend.LeastPriority, backend.GreatestPriority, r
}

func (p *process) CtxResetPersistingL2Cache(c *dispatch.Call) dispatch.Result {
	_, r := p.current(c)
	return r
}

func (p *process) CtxEnablePeerAccess(c *dispatch.Call, peer dispatch.Context, flags uint32) dispatch.Result {
	x, r := p.current(c)
	if r != 0 {
		return r
	}
	y, r := p.context(peer)
	switch {
	case r != 0:
		return r
	case flags != 0:
		return dispatch.ResultInvalidValue
	case x == y:
		return dispatch.ResultInvalidContext
	case x.space == y.space:
		return dispatch.ResultPeerAccessUnsupported
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.peers[y.space] {
		return dispatch.ResultPeerAccessAlreadyEnabled
	}
	if err := x.space.allow(y.space); err != nil {
		return p.result(err)
	}
	x.peers[y.space] = true
	return 0
}

func (p *process) CtxDisablePeerAccess(c *dispatch.Call, peer dispatch.Context) dispatch.Result {
	x, r := p.current(c)
	if r != 0 {
		return r
	}
	y, r := p.context(peer)
	if r != 0 {
		return r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.peers[y.space] {
		return dispatch.ResultPeerAccessNotEnabled
	}
	delete(x.peers, y.space)
	return p.result(x.space.deny(y.space))
}
