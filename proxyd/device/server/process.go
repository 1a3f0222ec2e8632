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
)

// process is one of the job's processes: its ring, and the areas of calls that carry out what comes by it.
type process struct {
	uncovered
	*core
	*deviceCalls
	*contextCalls
	*streamCalls
	*memoryCalls
	*copyCalls
	*moduleCalls
	*launchCalls
	*graphCalls
	*nodeCalls
	*execCalls
	*ncclCalls
	*nvmlCalls

	server  *Server
	graphs  *graphState
	history history
	back    *processState  // what it must come back to, or nil
	freed   chan struct{}  // closed when its spaces are
	gone    chan struct{}  // closed when nothing of it is left
	calls   sync.WaitGroup // that are on goroutines of their own
	heard   atomic.Bool    // it has its ring, or had it
	exits   bool           // it has said so; of the ring's goroutine, as scratch
	scratch []byte         // of handle
}

var _ dispatch.Backend = (*process)(nil)

// uncovered is what no area implements: NOT_SUPPORTED. It is embedded deeper than any area, so that each area's methods come before
// its own.
type uncovered struct{ uncoveredCalls }

type uncoveredCalls struct{ unsupportedCalls }

type unsupportedCalls struct{ dispatch.Unsupported }

// newProcess makes a process that sees these of the server's devices.
func newProcess(s *Server, id uint64, ring *wire.Ring, p peer, view []int) *process {
	c := newCore(s.ctx, coreConfig{
		id: id, ring: ring, peer: p, log: s.cfg.Log.With("process", id), devices: s.devices, view: view,
		onFault: func(err error) { s.seen.fault(id, err) },
	})
	q := &process{core: c, server: s, freed: make(chan struct{}), gone: make(chan struct{})}
	q.deviceCalls, q.contextCalls, q.streamCalls = &deviceCalls{c}, &contextCalls{c}, &streamCalls{c}
	q.moduleCalls = newModuleCalls(c)
	q.launchCalls = &launchCalls{q.moduleCalls}
	q.graphs = newGraphState(c, q)
	q.graphCalls, q.nodeCalls, q.execCalls = &graphCalls{q.graphs}, &nodeCalls{q.graphs}, &execCalls{q.graphs}
	q.memoryCalls = newMemoryCalls(c, q.graphs)
	q.copyCalls = &copyCalls{c, &q.memoryCalls.shares}
	q.ncclCalls = newNCCLCalls(c, s.collectives, &s.cuts)
	q.nvmlCalls = &nvmlCalls{c, s.cores}
	c.onContextEnd = []func(*cudaContext){q.moduleCalls.contextEnded, q.graphs.contextEnded, q.ncclCalls.contextEnded}
	c.onNewSpace = q.shareWith
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
	p.moduleCalls.end()
	killed := !p.exits
	members := p.endMembers(killed)
	p.server.cuts.ended(p.id, killed && members > 0)
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
	if !p.markEnded() {
		return
	}
	p.log.Info("a process is gone", "why", why)
	p.cancel()
	if p.ring != nil { // else it has not come back
		p.ring.Close()
	}
	for _, s := range p.spaces() {
		s.close()
	}
	p.endShares()
	close(p.freed)
}
