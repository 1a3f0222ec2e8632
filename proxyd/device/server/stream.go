// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// cudaStream is a stream, or one of a context's default streams.
type cudaStream struct {
	b       backend.Stream
	context *cudaContext
	id      uint64
	flags   uint32
	used    int // of a thread's default stream: x.sweeps when it was asked for last

	mu         sync.Mutex
	attributes map[int32]dispatch.Launchvalue
}

// The handles of streams that nobody makes.
const (
	defaultStream   dispatch.Stream = 0
	legacyStream    dispatch.Stream = 1
	perThreadStream dispatch.Stream = 2
)

// maxThreads is for how many threads at a time a context has default streams.
const maxThreads = 1 << 14

// sweepAt is the number of default streams from which on those of threads that do not call any more are looked for: nobody
// says that a thread has ended.
const sweepAt = 256

// streamSource is what a recorded call finds its streams in: dispatch.Call.Into.
type streamSource interface {
	StreamOf(c *dispatch.Call, h dispatch.Stream) (*cudaStream, dispatch.Result)
}

// stream finds a stream: INVALID_HANDLE if there is none, INVALID_CONTEXT for a default stream without a context.
func (p *core) stream(c *dispatch.Call, h dispatch.Stream) (*cudaStream, dispatch.Result) {
	if rec, ok := c.Into.(streamSource); ok {
		return rec.StreamOf(c, h)
	}
	if h > perThreadStream {
		st, ok := p.streams.get(h)
		if !ok {
			return nil, dispatch.ResultInvalidHandle
		}
		return st, 0
	}
	x, r := p.current(c)
	switch {
	case r != 0:
		return nil, r
	case h == legacyStream || h == defaultStream && !c.PerThread:
		return x.legacy, 0
	}
	return p.threadStream(x, c.Thread)
}

// threadStream is the default stream of one thread.
func (p *core) threadStream(x *cudaContext, thread uint32) (*cudaStream, dispatch.Result) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if st := x.perThread[thread]; st != nil {
		st.used = x.sweeps
		return st, 0
	}
	if len(x.perThread) >= max(sweepAt, 2*x.swept) {
		x.sweep()
	}
	if len(x.perThread) >= maxThreads {
		return nil, dispatch.ResultOutOfMemory
	}
	b, err := x.b.NewStream(backend.StreamConfig{})
	if err != nil {
		return nil, p.result(err)
	}
	st := &cudaStream{context: x, b: b, id: p.nextID(), used: x.sweeps}
	x.perThread[thread] = st
	return st, 0
}

// sweep ends the default streams that have nothing to do, and that nobody has asked for since the last time. Whoever asks
// again gets a new one, which is the same to him. The caller holds mu.
func (x *cudaContext) sweep() {
	for thread, st := range x.perThread {
		if st.used < x.sweeps && st.b.Query() == nil {
			_ = st.b.Destroy() // it was there
			delete(x.perThread, thread)
		}
	}
	x.sweeps++
	x.swept = len(x.perThread)
}

// fill sets memory on a stream.
func (p *core) fill(c *dispatch.Call, stream dispatch.Stream, f backend.Fill) dispatch.Result {
	if _, r := p.current(c); r != 0 {
		return r
	}
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	return p.result(st.b.Fill(f))
}
