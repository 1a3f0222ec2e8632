// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"context"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// hostCall is a function of the program that a stream has come to. The stream goes on when done is closed.
type hostCall struct {
	ticket  uint64 // the shim's name for the function
	last    bool   // the function is not called again
	context *driver.Context
	done    chan struct{}
}

// HostFunctions are the functions that a process has yet to call. A thread of the shim asks for them in turn.
type HostFunctions struct {
	mu      sync.Mutex
	ready   []*hostCall
	running []*hostCall
	more    chan struct{} // closed when a call becomes ready; nil: no thread asks
}

// callProgram has the program call a function and returns after the call, or when the process is gone.
func (h *HostFunctions) callProgram(ctx context.Context, x *driver.Context, ticket uint64, last bool) {
	call := &hostCall{ticket: ticket, last: last, context: x, done: make(chan struct{})}
	h.mu.Lock()
	h.ready = append(h.ready, call)
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
	h.mu.Unlock()
	select {
	case <-call.done:
	case <-ctx.Done():
	}
}

// nextCall waits for a function to call, nil when ctx is done.
func (h *HostFunctions) nextCall(ctx context.Context) *hostCall {
	for {
		h.mu.Lock()
		if len(h.ready) > 0 {
			call := h.ready[0]
			h.ready = h.ready[1:]
			h.running = append(h.running, call)
			h.mu.Unlock()
			return call
		}
		if h.more == nil {
			h.more = make(chan struct{})
		}
		more := h.more
		h.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
}

// IsAsked tells whether a thread of the shim waits for a function.
func (h *HostFunctions) IsAsked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.more != nil
}

// endCall ends the call that nextCall handed out, the earliest of that ticket.
func (h *HostFunctions) endCall(ticket uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.running, func(c *hostCall) bool { return c.ticket == ticket })
	if i < 0 {
		return false
	}
	close(h.running[i].done)
	h.running = slices.Delete(h.running, i, i+1)
	return true
}

// HostFunc implements dispatch.Backend, as all below.
func (p *Calls) HostFunc(c *dispatch.Call, stream dispatch.Stream, ticket uint64) dispatch.Result {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	rec, captured := c.Into.(*recorder)
	if captured {
		rec.ticket = ticket
	}
	x := st.Context
	return p.Result(st.Backend.Host(func() { p.HostFunctions.callProgram(p.Lifetime, x, ticket, !captured) }))
}

func (p *Calls) HostFuncNext(c *dispatch.Call) (ticket uint64, status int32, last uint32, r dispatch.Result) {
	if c.Waits == nil {
		return 0, 0, 0, dispatch.ResultInvalidValue // no thread would call it
	}
	p.BeginWait(c)
	ctx, stop := p.UntilCut()
	defer stop()
	call := p.HostFunctions.nextCall(ctx)
	switch {
	case p.IsGone(): // streams may still have come to functions that will not be called any more
		return 0, 0, 0, dispatch.ResultDeinitialized
	case call == nil:
		return 0, 0, 0, 0 // the shim asks again, when the gates are open
	}
	if call.context != nil {
		status = int32(p.Result(call.context.Backend.Err()))
	}
	if call.last {
		last = 1
	}
	return call.ticket, status, last, 0
}

func (p *Calls) HostFuncDone(_ *dispatch.Call, ticket uint64) dispatch.Result {
	if !p.HostFunctions.endCall(ticket) {
		return dispatch.ResultInvalidValue
	}
	return 0
}
