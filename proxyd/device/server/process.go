// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"log/slog"
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

// process is one of the job's processes: what it has made, and how its calls are carried out.
type process struct {
	dispatch.Unsupported

	server *Server
	id     uint64
	ring   *wire.Ring
	peer   peer
	log    *slog.Logger

	ctx    context.Context // ends with the process
	cancel context.CancelFunc
	freed  chan struct{}  // closed when its spaces are
	gone   chan struct{}  // closed when nothing of it is left
	calls  sync.WaitGroup // that are on goroutines of their own
	fault  atomic.Uint32  // the ring's
	heard  atomic.Bool    // it has its ring, or had it

	contexts table[dispatch.Context, *cudaContext]
	streams  table[dispatch.Stream, *cudaStream]
	events   table[dispatch.Event, *cudaEvent]
	pools    table[dispatch.Mempool, *memoryPool]
	memories table[dispatch.Alloc, *physicalMemory]
	pinned   table[dispatch.Hostmem, *pinnedMemory]
	buffers  bufferIDs
	shares   hostShares
	code     codeState
	graphs   graphState
	nccl     ncclState
	output   output
	exits    bool   // it has said so; of the ring's goroutine, as scratch
	scratch  []byte // of handle
	valve    valve

	view      []int                             // the server's devices that it sees, by ordinal
	destroyed table[dispatch.Context, struct{}] // contexts that were
	keeping                                     // of state*.go

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
	flags    uint32           // of the primary context
	defaults dispatch.Mempool // the handle of the default pool, 0 until it was asked for
	pool     dispatch.Mempool // the current one, 0: the default
}

// newProcess makes a process that sees these of the server's devices.
func newProcess(s *Server, id uint64, ring *wire.Ring, p peer, view []int) *process {
	q := &process{
		server: s, id: id, ring: ring, peer: p, log: s.cfg.Log.With("process", id),
		freed: make(chan struct{}), gone: make(chan struct{}), view: view, devices: make([]deviceState, len(view)), said: map[string]bool{},
	}
	q.pools.class, q.memories.class, q.nccl.buffers.class = poolClass, memoryClass, bufferClass
	q.output.to = p
	q.code.begin()
	q.ctx, q.cancel = context.WithCancel(s.ctx)
	return q
}

// run serves the ring, and cleans up when that is over.
func (p *process) run() {
	err := p.ring.Serve(p.handle)
	var hostile *wire.HostileError
	switch {
	case errors.As(err, &hostile):
		p.end(hostile.Error())
	case err != nil:
		p.end(err.Error())
	case p.exits:
		p.end("it has ended")
	default:
		p.end("its ring was closed")
	}
	<-p.freed
	p.calls.Wait()
	p.code.end()
	p.graphs.end()
	p.nccl.end(p)
	p.peer.Close()
	close(p.gone)
}

// exitPatience is how long a process that has ended of its own will is served for what it had posted.
const exitPatience = 10 * time.Second

// left takes that there is nobody any more. Its end may be seen before its last messages are handled: if it has said that it ends, they are
// handled first, for that is no kill.
func (p *process) left(why string) {
	if !p.ring.Exits() {
		p.end(why)
		return
	}
	late := time.AfterFunc(exitPatience, func() { p.end(why + ", and what it had posted does not come to an end") })
	context.AfterFunc(p.ctx, func() { late.Stop() })
}

// end begins the end: calls fail, waits are over, memory is freed. What the process made is gone when run returns. It may be
// called more than once; the first reason is logged.
func (p *process) end(why string) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended = true
	var spaces []*space
	for i := range p.devices {
		if s := p.devices[i].space; s != nil {
			spaces = append(spaces, s)
		}
	}
	p.mu.Unlock()
	p.log.Info("a process is gone", "why", why)
	p.cancel()
	if p.ring != nil { // else it has not come back
		p.ring.Close()
	}
	for _, s := range spaces {
		s.close()
	}
	p.endShares()
	close(p.freed)
}

// space is what the process sees as a device, made when it is first asked for: INVALID_DEVICE if there is no such.
func (p *process) space(ordinal int32) (*space, dispatch.Result) {
	s, isNew, r := p.spaceOf(ordinal)
	if isNew {
		p.shareWith(s)
	}
	return s, r
}

func (p *process) spaceOf(ordinal int32) (s *space, isNew bool, r dispatch.Result) {
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
func (p *process) spaceAt(a backend.Addr) *space {
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
func (p *process) result(err error) dispatch.Result {
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
func (p *process) faulted(r backend.Result, err error) {
	if p.fault.CompareAndSwap(0, uint32(r)) {
		p.log.Warn("a fault ends the process's use of devices", "error", err)
		p.server.seen.fault(p.id, err)
		if p.ring != nil {
			p.ring.SetFault(uint32(r))
		}
	}
}

// failed notes that work which was posted in a context failed after all. x may be nil. symbol names the call.
func (p *process) failed(x *cudaContext, symbol string, r dispatch.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.said[symbol] {
		p.said[symbol] = true
		p.log.Warn("a posted call failed; the next that synchronises says so", "call", symbol, "result", int32(r))
	}
	late := &p.late
	if x != nil {
		late = &x.late
	}
	if *late == 0 {
		*late = r
	}
}

// synchronised is what a call of a context that waited for work returns: what the wait brought, else what came late.
func (p *process) synchronised(x *cudaContext, err error) dispatch.Result {
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
func (p *process) look(h dispatch.Context) {
	x, ok := p.contexts.get(h)
	if !ok || p.fault.Load() != 0 {
		return
	}
	if err := x.b.Err(); err != nil {
		p.result(err)
	}
}
