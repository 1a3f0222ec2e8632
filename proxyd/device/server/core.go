// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// peer is the process at the other end of a ring, beside the ring.
type peer interface {
	// Memory is its memory.
	Memory() wire.Process
	// Print writes what its kernels printed to its standard output (1) or error (2).
	Print(fd int, text []byte)
	// Watch returns when it is gone, with the reason, or with "" after Close.
	Watch() string
	// Close gives up what the server holds of it.
	Close()
}

// restorer is what a process that is being restored had before: what is made again is made like that.
type restorer interface {
	// SpaceState is what a new space of a device begins with; nil: nothing.
	SpaceState(ordinal int32) *backend.State
	// ContextID is the number of a new context in its space; 0: the next one.
	ContextID(h dispatch.Context) backend.ContextID
	// WrapContext lets a new context take over the memory that is there.
	WrapContext(x *cudaContext)
	// RecordedAt is when a new event was recorded; nil: it was not.
	RecordedAt(h dispatch.Event) *time.Duration
}

// coreConfig is what a core is made of.
type coreConfig struct {
	id      uint64
	ring    *wire.Ring // nil: the process has not come back
	peer    peer
	log     *slog.Logger
	devices []*device // all of the job's
	view    []int     // those that the process sees, by ordinal
	onFault func(error)
}

// core is what every area of calls needs of its process: its contexts, streams and events, its spaces on devices, and how
// results and faults reach the program.
type core struct {
	id   uint64
	ring *wire.Ring
	peer peer
	log  *slog.Logger

	ctx     context.Context // ends with the process
	cancel  context.CancelFunc
	fault   atomic.Uint32 // the ring's
	onFault func(error)

	contexts  table[dispatch.Context, *cudaContext]
	streams   table[dispatch.Stream, *cudaStream]
	events    table[dispatch.Event, *cudaEvent]
	destroyed table[dispatch.Context, struct{}] // contexts that were
	output    output
	ringHold  ringHold
	interrupt interrupt

	onContextEnd []func(*cudaContext) // drop what belongs to a context that is being destroyed; they do not wait
	onNewSpace   func(*space)         // maps the program's pinned memory into a new space

	jobDevices []*device
	view       []int
	rebuild    restorer // while the process is restored, else nil

	mu      sync.Mutex
	ended   bool
	devices []deviceState   // by ordinal
	lasts   uint64          // how many contexts and streams were made: their ids
	late    dispatch.Result // of a posted call without a context
	said    map[string]bool
}

// deviceState is what a process has of one device. Its process's mu guards it.
type deviceState struct {
	space    *space
	primary  *cudaContext
	retained int
	flags    uint32 // of the primary context
}

// newCore makes a core. It ends with ctx.
func newCore(ctx context.Context, cfg coreConfig) *core {
	p := &core{
		id: cfg.id, ring: cfg.ring, peer: cfg.peer, log: cfg.log, onFault: cfg.onFault, jobDevices: cfg.devices, view: cfg.view,
		devices: make([]deviceState, len(cfg.view)), said: map[string]bool{},
	}
	p.output.to = cfg.peer
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// attach gives a process that was restored its ring and its peer.
func (p *core) attach(ring *wire.Ring, peer peer) {
	p.ring, p.peer, p.output.to = ring, peer, peer
}

// markEnded notes that the process has ended, and returns whether it had not before. No space is made from then on.
func (p *core) markEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.ended
	p.ended = true
	return !was
}

// sayOnce tells whether something is to be logged: it was not yet, and fewer than most things were; 0: however many were.
func (p *core) sayOnce(what string, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said[what] || most > 0 && len(p.said) >= most {
		return false
	}
	p.said[what] = true
	return true
}

// ifSpace is the space of a device; nil if the process has not used that.
func (p *core) ifSpace(ordinal int32) *space {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ordinal < 0 || int(ordinal) >= len(p.devices) {
		return nil
	}
	return p.devices[ordinal].space
}

// space is what the process sees as a device, made when it is first asked for: INVALID_DEVICE if there is no such.
func (p *core) space(ordinal int32) (*space, dispatch.Result) {
	s, isNew, r := p.spaceOf(ordinal)
	if isNew && p.onNewSpace != nil {
		p.onNewSpace(s)
	}
	return s, r
}

func (p *core) spaceOf(ordinal int32) (s *space, isNew bool, r dispatch.Result) {
	if ordinal < 0 || int(ordinal) >= len(p.devices) {
		return nil, false, dispatch.ResultInvalidDevice
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices[ordinal]
	if d.space != nil {
		return d.space, false, 0
	}
	if p.ended {
		return nil, false, dispatch.ResultDeinitialized
	}
	s, err := p.newSpace(ordinal)
	if err != nil {
		return nil, false, p.result(err)
	}
	d.space = s
	return s, true, 0
}

// spaceAt is the space in which an address lies, or nil. It need not be allocated.
func (p *core) spaceAt(a backend.Addr) *space {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.devices {
		if s := p.devices[i].space; s != nil && a >= s.base && a-s.base < backend.Addr(s.size) {
			return s
		}
	}
	return nil
}

// result is the driver's number of a backend's error. A fault is written into the ring.
func (p *core) result(err error) dispatch.Result {
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) {
		return dispatch.ResultDeinitialized // the process is gone, nobody reads it
	}
	r := backend.ResultOf(err)
	switch {
	case r.Sticky():
		p.faulted(r, err)
	case r == backend.Unknown:
		p.log.Error("a call failed", "error", err)
	}
	return dispatch.Result(r)
}

// faulted makes every later call of the process return a fault.
func (p *core) faulted(r backend.Result, err error) {
	if p.fault.CompareAndSwap(0, uint32(r)) {
		p.log.Warn("a fault ends the process's use of devices", "error", err)
		p.onFault(err)
		if p.ring != nil {
			p.ring.SetFault(uint32(r))
		}
	}
}

// failed notes that work which was posted in a context failed after all. x may be nil. symbol names the call.
func (p *core) failed(x *cudaContext, symbol string, r dispatch.Result) {
	if p.sayOnce(symbol, 0) {
		p.log.Warn("a posted call failed; the next that synchronises says so", "call", symbol, "result", int32(r))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	late := &p.late
	if x != nil {
		late = &x.late
	}
	if *late == 0 {
		*late = r
	}
}

// synchronised is what a call of a context that waited for work returns: what the wait brought, else what came late.
func (p *core) synchronised(x *cudaContext, err error) dispatch.Result {
	if err != nil {
		return p.result(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := x.late
	if r == 0 {
		r, p.late = p.late, 0
	}
	x.late = 0
	return r
}

// look has the ring say what fault there is, if the context of a call has one by now.
func (p *core) look(h dispatch.Context) {
	x, ok := p.contexts.get(h)
	if !ok || p.fault.Load() != 0 {
		return
	}
	if err := x.b.Err(); err != nil {
		p.result(err)
	}
}

// spaces are those that the process has so far.
func (p *core) spaces() []*space {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*space
	for i := range p.devices {
		if s := p.devices[i].space; s != nil {
			all = append(all, s)
		}
	}
	return all
}

// waits lets the ring go on while the call waits. The caller holds no lock. What was posted must not wait: see dispatch.Call.
func (p *core) waits(c *dispatch.Call) {
	if c.Waits != nil {
		c.Waits()
	}
}

// pid is the process's number as this server sees it.
func (p *core) pid() int { return int(p.peer.Memory()) }

// isGone tells whether the process has ended, or is ending.
func (p *core) isGone() bool { return p.ctx.Err() != nil }

// untilCut is a context for calls that have no answer as long as there is nothing to say: see interrupt. stop must be called. When
// it is done and the process's own is not, they answer that there is nothing, and are made again.
func (p *core) untilCut() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	cut := p.interrupt.wait()
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// device is what the process calls by that number.
func (p *core) device(ordinal int32) *device { return p.jobDevices[p.view[ordinal]] }

// used is how much of a device its spaces have allocated: the program sees its own, as cuMemGetInfo says it.
func (p *core) used(dev int32) uint64 {
	ordinal := slices.Index(p.view, int(dev))
	if ordinal < 0 {
		return 0
	}
	p.mu.Lock()
	s := p.devices[ordinal].space
	p.mu.Unlock()
	if s == nil {
		return 0
	}
	free, total := s.Info()
	return total - free
}

// uses tells whether the process has a space on a device.
func (p *core) uses(dev int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.devices[dev].space != nil
}

// info describes a device: INVALID_DEVICE if there is none of that number.
func (p *core) info(dev int32) (*backend.Info, dispatch.Result) {
	if dev < 0 || int(dev) >= len(p.view) {
		return nil, dispatch.ResultInvalidDevice
	}
	return p.device(dev).Info(), 0
}

// isPrimary tells whether a context is one of a device's, which is not destroyed but released.
func (p *core) isPrimary(x *cudaContext) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.devices[x.space.ordinal].primary == x
}
