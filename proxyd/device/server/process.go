// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/graphs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/modules"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nvml"
)

// The areas of calls, each under the name by which process embeds it.
type (
	deviceCalls  = driver.DeviceCalls
	contextCalls = driver.ContextCalls
	streamCalls  = driver.StreamCalls
	memoryCalls  = memory.Calls
	poolCalls    = memory.PoolCalls
	copyCalls    = memory.CopyCalls
	moduleCalls  = modules.Calls
	launchCalls  = modules.LaunchCalls
	graphCalls   = graphs.Calls
	nodeCalls    = graphs.NodeCalls
	execCalls    = graphs.ExecCalls
	ncclCalls    = nccl.Calls
	nvmlCalls    = nvml.Calls
)

// process is a process of the job: its ring, and the areas of calls that carry out the messages of the ring.
type process struct {
	fallbackCalls
	*driver.Process
	*deviceCalls
	*contextCalls
	*streamCalls
	*memoryCalls
	*poolCalls
	*copyCalls
	*moduleCalls
	*launchCalls
	*graphCalls
	*nodeCalls
	*execCalls
	*ncclCalls
	*nvmlCalls

	server         *Server
	graphs         *graphs.Graphs
	history        history
	back           *processState           // the state that the process must come back to, or nil
	heldWork       []driver.QueuedCall     // work of before a restore, until queued again
	heldWorkEvents map[dispatch.Event]bool // events that were made for held work alone
	freed          chan struct{}           // closed when its spaces are
	gone           chan struct{}           // closed when the last object of the process is gone
	endIsReported  bool                    // attempts at a cut need not hear of its end any more; of cuts.mu
	calls          sync.WaitGroup          // that are on goroutines of their own
	heard          atomic.Bool             // the process has its ring, or had it
	exits          bool                    // the process has said so; of the ring's goroutine, as scratch
	scratch        []byte                  // of handle
	newCalls       []dispatch.Call         // not used yet; of newCall
	argsRoom       []byte                  // with the arguments of the latest calls; of copyArgs
}

var _ dispatch.Backend = (*process)(nil)

// fallbackCalls answers the calls that no area implements: NOT_SUPPORTED. fallbackCalls is embedded deeper than any
// area, so that each area's methods come before its own.
type fallbackCalls struct{ uncoveredCalls }

type uncoveredCalls struct{ unsupportedCalls }

type unsupportedCalls struct{ dispatch.Unsupported }

// newProcess makes a process that sees these of the server's devices.
func newProcess(s *Server, id uint64, ring *wire.Ring, p driver.Peer, view []int) *process {
	q := &process{server: s, freed: make(chan struct{}), gone: make(chan struct{})}
	c := driver.New(s.ctx, driver.Config{
		ID: id, Ring: ring, Peer: p, Log: s.cfg.Log.With("process", id), Devices: s.devices, View: view, Sharing: s.sharing,
		Owners: &s.machine.owners, Capsule: s.cfg.Self,
		OnFault:  func(err error) { s.seen.noteFault(id, err) },
		OnMissed: q.tellMissed,
	})
	q.Process = c
	q.deviceCalls, q.contextCalls, q.streamCalls = &deviceCalls{Process: c}, &contextCalls{Process: c}, &streamCalls{Process: c}
	q.moduleCalls = modules.New(c)
	q.launchCalls = &launchCalls{Calls: q.moduleCalls}
	q.graphs = graphs.New(c, q)
	q.graphCalls, q.nodeCalls, q.execCalls = graphs.NewCalls(q.graphs)
	q.memoryCalls = memory.New(c, q.graphs, s.processCores)
	q.poolCalls, q.copyCalls = memory.NewPoolAndCopyCalls(q.memoryCalls)
	q.ncclCalls = nccl.New(c, s.collectives, &s.cuts)
	q.nvmlCalls = nvml.New(c, s.processCores)
	c.OnContextEnd = []func(*driver.Context){q.moduleCalls.ContextEnded, q.graphs.ContextEnded, q.ncclCalls.ContextEnded, q.memoryCalls.ContextEnded}
	c.OnNewSpace = q.ShareWith
	return q
}

// callsOf are the processes' communicators.
func callsOf(all []*process) []*ncclCalls {
	out := make([]*ncclCalls, len(all))
	for i, p := range all {
		out[i] = p.ncclCalls
	}
	return out
}

// serveRing serves the ring, and cleans up when that is over.
func (p *process) serveRing() {
	err := p.Ring.Serve(p.handleMessage)
	var hostile *wire.HostileError
	switch {
	case errors.As(err, &hostile):
		p.endProcess(hostile.Error())
	case err != nil:
		p.endProcess(err.Error())
	case p.exits:
		p.endProcess("it has ended")
	default:
		p.endProcess("its ring was closed")
	}
	<-p.freed
	p.calls.Wait()
	p.End()
	killed := !p.exits
	members := p.EndMembers(killed)
	p.server.cuts.reportProcessEnd(p, killed && members > 0)
	p.Peer.Close()
	close(p.gone)
}

// exitPatience is how long a process that has ended of its own will is served for its posted messages.
const exitPatience = 10 * time.Second

// notePeerGone notes that the process is not there any more. Its end may be seen before its last messages are handled: if
// the process has said that it ends, the messages are handled first, because that is no kill.
func (p *process) notePeerGone(why string) {
	if !p.Ring.Exits() {
		p.endProcess(why)
		return
	}
	late := time.AfterFunc(exitPatience, func() { p.endProcess(why + ", and the work that it had posted does not come to an end") })
	context.AfterFunc(p.Lifetime, func() { late.Stop() })
}

// endProcess begins the end: calls fail, waits are over, memory is freed. The process's objects are gone when serveRing
// returns. endProcess may be called more than once; the first reason is logged.
func (p *process) endProcess(why string) {
	if !p.MarkEnded() {
		return
	}
	p.Log.Info("a process is gone", "why", why)
	p.server.machine.describeSharing() // keeps the rungs of its devices, which may be shared no more
	p.Cancel()
	if p.Ring != nil { // else the process has not come back
		p.Ring.Close()
	}
	for _, s := range p.Spaces() {
		s.End()
	}
	p.Sharing.ForgetProcess(p.Process)
	p.Shares.EndShares()
	close(p.freed)
}
