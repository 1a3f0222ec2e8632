// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// ContextCalls implements dispatch.ContextCalls.
type ContextCalls struct{ *Process }

// ContextWaits are the calls of this file, and of device.go, that may wait.
var ContextWaits = []string{
	"cuCtxSynchronize", "cuCtxSynchronize_v2", "cuCtxDestroy_v2", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2",
}

// contextFlags are all that cuCtxCreate takes.
const contextFlags = 0xff

// checkFlags is INVALID_VALUE for context flags that no driver accepts.
func checkFlags(flags uint32) dispatch.Result {
	switch schedule := flags & 7; {
	case flags&^contextFlags != 0, schedule != 0 && schedule != 1 && schedule != 2 && schedule != 4:
		return dispatch.ResultInvalidValue
	}
	return 0
}

// CtxCreateV2 implements dispatch.Backend, as all below.
func (p *ContextCalls) CtxCreateV2(_ *dispatch.Call, ctx dispatch.Context, flags uint32, dev int32) dispatch.Result {
	if r := checkFlags(flags); r != 0 {
		return r
	}
	_, r := p.newContext(ctx, flags, dev)
	return r
}

func (p *ContextCalls) CtxDestroyV2(c *dispatch.Call, ctx dispatch.Context) dispatch.Result {
	x, r := p.Context(ctx)
	if r != 0 {
		return r
	}
	if p.IsPrimary(x) {
		return dispatch.ResultInvalidContext
	}
	return p.destroyContext(c, x)
}

// apiVersion is the API version of contexts: 3020 since CUDA 3.2.
const apiVersion = 3020

func (p *ContextCalls) CtxGetApiVersion(c *dispatch.Call, ctx dispatch.Context) (uint32, dispatch.Result) {
	if ctx == 0 {
		ctx = c.Context
	}
	_, r := p.Context(ctx)
	return apiVersion, r
}

func (p *ContextCalls) CtxGetId(c *dispatch.Call, ctx dispatch.Context) (uint64, dispatch.Result) {
	if ctx == 0 {
		ctx = c.Context
	}
	x, r := p.Context(ctx)
	if r != 0 {
		return 0, r
	}
	return x.ID, 0
}

func (p *ContextCalls) CtxSynchronize(c *dispatch.Call) dispatch.Result {
	return p.CtxSynchronizeV2(c, c.Context)
}

func (p *ContextCalls) CtxSynchronizeV2(c *dispatch.Call, ctx dispatch.Context) dispatch.Result {
	x, r := p.Context(ctx)
	if r != 0 {
		return r
	}
	return p.Wait(c, x, x.Backend.Synchronize)
}

func (p *ContextCalls) CtxGetFlags(c *dispatch.Call) (uint32, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.flags, 0
}

func (p *ContextCalls) CtxSetFlags(c *dispatch.Call, flags uint32) dispatch.Result {
	x, r := p.Current(c)
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

// Limits of contexts that are in turns with graphics.
const (
	limitGraphics         = 8
	limitGraphicsFallback = 9
)

func (p *ContextCalls) CtxGetLimit(c *dispatch.Call, limit int32) (uint64, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, r
	}
	if limit == limitGraphics || limit == limitGraphicsFallback {
		return 0, 0 // no context shares its device's turns with graphics
	}
	v, err := x.Backend.Limit(backend.Limit(limit))
	return v, p.Result(err)
}

func (p *ContextCalls) CtxSetLimit(c *dispatch.Call, limit int32, value uint64) dispatch.Result {
	x, r := p.Current(c)
	if r != 0 {
		return r
	}
	return p.Result(x.Backend.SetLimit(backend.Limit(limit), value))
}

func (p *ContextCalls) CtxGetCacheConfig(c *dispatch.Call) (int32, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cache, 0
}

// CtxSetCacheConfig remembers the preference, which has no effect.
func (p *ContextCalls) CtxSetCacheConfig(c *dispatch.Call, config int32) dispatch.Result {
	x, r := p.Current(c)
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

// CtxGetSharedMemConfig answers with banks of four bytes, which all devices have since compute capability 5.0.
func (p *ContextCalls) CtxGetSharedMemConfig(c *dispatch.Call) (int32, dispatch.Result) {
	const fourBytes = 1
	_, r := p.Current(c)
	return fourBytes, r
}

func (p *ContextCalls) CtxSetSharedMemConfig(c *dispatch.Call, config int32) dispatch.Result {
	if _, r := p.Current(c); r != 0 {
		return r
	}
	if config < 0 || config > 2 {
		return dispatch.ResultInvalidValue
	}
	return 0
}

func (p *ContextCalls) CtxGetStreamPriorityRange(c *dispatch.Call, _, _ bool) (least, greatest int32, r dispatch.Result) {
	_, r = p.Current(c)
	return backend.LeastPriority, backend.GreatestPriority, r
}

func (p *ContextCalls) CtxResetPersistingL2Cache(c *dispatch.Call) dispatch.Result {
	_, r := p.Current(c)
	return r
}

func (p *ContextCalls) CtxEnablePeerAccess(c *dispatch.Call, peer dispatch.Context, flags uint32) dispatch.Result {
	x, r := p.Current(c)
	if r != 0 {
		return r
	}
	y, r := p.Context(peer)
	switch {
	case r != 0:
		return r
	case flags != 0:
		return dispatch.ResultInvalidValue
	case x == y:
		return dispatch.ResultInvalidContext
	case x.Space == y.Space:
		return dispatch.ResultPeerAccessUnsupported
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.peers[y.Space] {
		return dispatch.ResultPeerAccessAlreadyEnabled
	}
	if err := x.Space.Allow(y.Space); err != nil {
		return p.Result(err)
	}
	x.peers[y.Space] = true
	return 0
}

func (p *ContextCalls) CtxDisablePeerAccess(c *dispatch.Call, peer dispatch.Context) dispatch.Result {
	x, r := p.Current(c)
	if r != 0 {
		return r
	}
	y, r := p.Context(peer)
	if r != 0 {
		return r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.peers[y.Space] {
		return dispatch.ResultPeerAccessNotEnabled
	}
	delete(x.peers, y.Space)
	return p.Result(x.Space.denyPeer(y.Space))
}
