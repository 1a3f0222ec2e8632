// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

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
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// Peer is the process at the other end of a ring, beside the ring.
type Peer interface {
	// Memory is the access to the memory of the process.
	Memory() wire.Process
	// Print writes what its kernels printed to its standard output (1) or error (2).
	Print(fd int, text []byte)
	// Watch returns when the process is gone, with the reason, or with "" after Close.
	Watch() string
	// Close releases the server's resources of the process.
	Close()
}

// Restorer has the former state of a process that is being restored: its objects are made again with that state.
type Restorer interface {
	// SpaceState is the state with which a new space of a device begins; nil: an empty space.
	SpaceState(ordinal int32) *backend.State
	// SpaceOwner is the number with which a new space of a device begins that has a state: see OwnerNumbers; 0: the state does
	// not say.
	SpaceOwner(ordinal int32) uint64
	// ContextID is the number of a new context in its space; 0: the next number.
	ContextID(h dispatch.Context) backend.ContextID
	// WrapContext lets a new context take over its former memory.
	WrapContext(x *Context)
	// EventShare is a new event's name among the processes that share it; zero: the event is not shared.
	EventShare(h dispatch.Event) RandomID
	// RecordedAt is when a new event was recorded; nil: never.
	RecordedAt(h dispatch.Event) *time.Duration
}

// Config is the configuration of a Process.
type Config struct {
	ID      uint64
	Ring    *wire.Ring // nil: the process has not come back
	Peer    Peer
	Log     *slog.Logger
	Devices []*Device // all of the job's
	View    []int     // the devices that the process sees, by ordinal
	Sharing *Sharing  // with the other processes of the server
	Owners  *OwnerNumbers
	Capsule int // the server's number among the job's, for Owners
	OnFault func(error)
	// OnMissed is called with each feature that the program asked for and that is not covered; nil: not recorded.
	OnMissed func(what string)
}

// Process is the part of a process that every area of calls needs: its contexts, streams and events, its spaces on
// devices, and how results and faults reach the program.
type Process struct {
	ID   uint64
	Ring *wire.Ring
	Peer Peer
	Log  *slog.Logger

	Lifetime context.Context // ends with the process
	Cancel   context.CancelFunc
	Fault    atomic.Uint32 // the ring's
	onFault  func(error)
	onMissed func(what string)

	Contexts  handles.Table[dispatch.Context, *Context]
	streams   handles.Table[dispatch.Stream, *Stream]
	events    handles.Table[dispatch.Event, *Event]
	destroyed handles.Table[dispatch.Context, struct{}] // contexts that were
	Output    output
	ringHold  ringHold
	Interrupt Interrupt
	Work      HeldWork
	Limit     WorkLimit
	Sharing   *Sharing
	owners    *OwnerNumbers
	capsule   int

	OnContextEnd []func(*Context) // drop the objects of a context that is being destroyed; they do not wait
	OnNewSpace   func(*Space)     // maps the program's pinned memory into a new space

	JobDevices []*Device
	View       []int
	Restoring  Restorer // while the process is restored, else nil

	mu      sync.Mutex
	ended   bool
	devices []deviceState   // by ordinal
	lasts   uint64          // number of contexts and streams made, and the last id
	late    dispatch.Result // of a posted call without a context
	said    map[string]bool
}

// deviceState is the state of a process on a device. The process's mu guards a deviceState.
type deviceState struct {
	space    *Space
	primary  *Context
	retained int
	flags    uint32 // of the primary context
}

// New makes a Process, which ends with ctx.
func New(ctx context.Context, cfg Config) *Process {
	p := &Process{
		ID: cfg.ID, Ring: cfg.Ring, Peer: cfg.Peer, Log: cfg.Log, onFault: cfg.OnFault, onMissed: cfg.OnMissed, JobDevices: cfg.Devices, View: cfg.View,
		Sharing: cfg.Sharing, owners: cfg.Owners, capsule: cfg.Capsule,
		devices: make([]deviceState, len(cfg.View)), said: map[string]bool{},
	}
	p.Output.to, p.Limit.process = cfg.Peer, p
	p.Lifetime, p.Cancel = context.WithCancel(ctx)
	return p
}

// Reattach gives a process that was restored its ring and its peer.
func (p *Process) Reattach(ring *wire.Ring, peer Peer) {
	p.Ring, p.Peer, p.Output.to = ring, peer, peer
}

// MarkEnded notes that the process has ended, and returns whether this is the first call. No space is made from then
// on.
func (p *Process) MarkEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.ended
	p.ended = true
	return !was
}

// NoteMissed notes a feature that the program asked for and that is not covered, and has the program told.
func (p *Process) NoteMissed(what string) {
	if p.onMissed != nil {
		p.onMissed(what)
	}
}

// LogOnce tells whether something is to be logged: it was not logged yet, and fewer than most things were; 0: any
// number.
func (p *Process) LogOnce(what string, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said[what] || most > 0 && len(p.said) >= most {
		return false
	}
	p.said[what] = true
	return true
}

// SpaceIfUsed is the space of a device; nil if the process has not used the device.
func (p *Process) SpaceIfUsed(ordinal int32) *Space {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ordinal < 0 || int(ordinal) >= len(p.devices) {
		return nil
	}
	return p.devices[ordinal].space
}

// Space is the space of a device of the process, made at its first use: INVALID_DEVICE if the number is of no device.
func (p *Process) Space(ordinal int32) (*Space, dispatch.Result) {
	s, isNew, r := p.spaceOf(ordinal)
	if isNew && p.OnNewSpace != nil {
		p.OnNewSpace(s)
	}
	return s, r
}

func (p *Process) spaceOf(ordinal int32) (s *Space, isNew bool, r dispatch.Result) {
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
		return nil, false, p.Result(err)
	}
	d.space = s
	return s, true, 0
}

// SpaceAt is the space in which an address lies, or nil. The address need not be allocated.
func (p *Process) SpaceAt(a backend.Addr) *Space {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.devices {
		if s := p.devices[i].space; s != nil && a >= s.base && a-s.base < backend.Addr(s.size) {
			return s
		}
	}
	return nil
}

// Result is the driver's number of a backend's error. A fault is written into the ring.
func (p *Process) Result(err error) dispatch.Result {
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) {
		return dispatch.ResultDeinitialized // the process is gone and does not read the result
	}
	r := backend.ResultOf(err)
	switch {
	case r.Sticky():
		p.failWith(r, err)
	case r == backend.Unknown:
		p.Log.Error("a call failed", "error", err)
	}
	return dispatch.Result(r)
}

// failWith makes every later call of the process return a fault, also a fault that another call has found and not yet
// reported.
func (p *Process) failWith(r backend.Result, err error) {
	first := p.Fault.CompareAndSwap(0, uint32(r))
	if p.Ring != nil {
		p.Ring.SetFault(p.Fault.Load())
	}
	if first {
		p.Log.Warn("a fault ends the process's use of devices", "error", err)
		p.onFault(err)
	}
}

// FailLater notes that work which was posted in a context failed after all. x may be nil. symbol names the call.
func (p *Process) FailLater(x *Context, symbol string, r dispatch.Result) {
	if p.LogOnce(symbol, 0) {
		p.Log.Warn("a posted call failed; the next that synchronises says so", "call", symbol, "result", int32(r))
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

// FinishWait is the result of a call that waited for work in a context: the error of the wait, else a late error of the
// context.
func (p *Process) FinishWait(x *Context, err error) dispatch.Result {
	if err != nil {
		return p.Result(err)
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

// CheckFault has the ring announce the fault of a call's context, if the context has one by now.
func (p *Process) CheckFault(h dispatch.Context) {
	x, ok := p.Contexts.Get(h)
	if !ok || p.Fault.Load() != 0 {
		return
	}
	if err := x.Backend.Err(); err != nil {
		p.Result(err)
	}
}

// Spaces are the spaces that the process has so far.
func (p *Process) Spaces() []*Space {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*Space
	for i := range p.devices {
		if s := p.devices[i].space; s != nil {
			all = append(all, s)
		}
	}
	return all
}

// BeginWait lets the ring go on while the call waits. The caller holds no lock. A posted call must not wait: see
// dispatch.Call.
func (p *Process) BeginWait(c *dispatch.Call) {
	if c.Waits != nil {
		c.Waits()
	}
}

// PID is the process's number in this server's PID namespace.
func (p *Process) PID() int { return int(p.Peer.Memory()) }

// IsGone tells whether the process has ended, or is ending.
func (p *Process) IsGone() bool { return p.Lifetime.Err() != nil }

// Again is the result of a call that a cut has interrupted: the call had no effect, and the shim makes the call again.
// See WaitContext.
const Again dispatch.Result = wire.StatusAgain

// WaitContext returns the context that ends a call's wait for work: at a cut, if the call can be made again then, and
// at the process's end.
func (p *Process) WaitContext() context.Context {
	if p.Ring != nil && p.Ring.AsksAgain() {
		return p.Interrupt.interruptible(p.Lifetime)
	}
	return p.Lifetime
}

// Interrupted tells whether a wait with that context has ended for a cut.
func (p *Process) Interrupted(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && p.Lifetime.Err() == nil && errors.Is(err, ctx.Err())
}

// Wait is the part of a call of a context that waits for work: wait waits.
func (p *Process) Wait(c *dispatch.Call, x *Context, wait func(context.Context) error) dispatch.Result {
	p.BeginWait(c)
	ctx := p.WaitContext()
	err := wait(ctx)
	if p.Interrupted(ctx, err) {
		return Again
	}
	p.Output.Flush(p.Lifetime)
	return p.FinishWait(x, err)
}

// UntilCut returns a context for calls that have no answer as long as there is no task: see interrupt. stop must be
// called. When that context is done and the process's own is not, the calls answer that there is no task, and are made
// again.
func (p *Process) UntilCut() (ctx context.Context, stop func()) {
	return context.WithCancel(p.Interrupt.interruptible(p.Lifetime))
}

// deviceAt is the device that has this number in the process.
func (p *Process) deviceAt(ordinal int32) *Device { return p.JobDevices[p.View[ordinal]] }

// UsedBytes is how much of a device its spaces have allocated: the program sees only its own use, as in cuMemGetInfo.
func (p *Process) UsedBytes(dev int32) uint64 {
	ordinal := slices.Index(p.View, int(dev))
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

// Uses tells whether the process has a space on a device, by the job's number of the device.
func (p *Process) Uses(dev int32) bool {
	return p.SpaceIfUsed(int32(slices.Index(p.View, int(dev)))) != nil
}

// Info describes a device: INVALID_DEVICE if no device has this number.
func (p *Process) Info(dev int32) (*backend.Info, dispatch.Result) {
	if dev < 0 || int(dev) >= len(p.View) {
		return nil, dispatch.ResultInvalidDevice
	}
	return p.deviceAt(dev).Info(), 0
}

// IsPrimary tells whether a context is a device's primary context, which is not destroyed but released.
func (p *Process) IsPrimary(x *Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.devices[x.Space.Ordinal].primary == x
}
