// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// Stream is a stream, or a default stream of a context.
type Stream struct {
	Backend backend.Stream
	Context *Context
	ID      uint64
	Flags   uint32
	used    int // of a thread's default stream: x.sweeps at its last use

	mu         sync.Mutex
	attributes map[int32]dispatch.Launchvalue
}

// The handles of the default streams, which no call makes.
const (
	DefaultStream   dispatch.Stream = 0
	LegacyStream    dispatch.Stream = 1
	PerThreadStream dispatch.Stream = 2
)

// maxThreads is the number of threads that can have default streams in a context at a time.
const maxThreads = 1 << 14

// SweepAt is the number of default streams from which on streams of ended threads are looked for: no message tells the
// end of a thread.
const SweepAt = 256

// streamSource finds the streams of a recorded call: dispatch.Call.Into.
type streamSource interface {
	StreamOf(c *dispatch.Call, h dispatch.Stream) (*Stream, dispatch.Result)
}

// Stream finds a stream: INVALID_HANDLE if there is none, INVALID_CONTEXT for a default stream without a context.
func (p *Process) Stream(c *dispatch.Call, h dispatch.Stream) (*Stream, dispatch.Result) {
	if rec, ok := c.Into.(streamSource); ok {
		return rec.StreamOf(c, h)
	}
	st, r := p.streamOf(c, h)
	if r == 0 {
		QueuedBy(c).addStream(st)
	}
	return st, r
}

func (p *Process) streamOf(c *dispatch.Call, h dispatch.Stream) (*Stream, dispatch.Result) {
	if h > PerThreadStream {
		st, ok := p.streams.Get(h)
		if !ok {
			return nil, dispatch.ResultInvalidHandle
		}
		return st, 0
	}
	x, r := p.Current(c)
	switch {
	case r != 0:
		return nil, r
	case h == LegacyStream || h == DefaultStream && !c.PerThread:
		return x.Legacy, 0
	}
	return p.threadStream(x, c.Thread)
}

// threadStream is the default stream of a thread.
func (p *Process) threadStream(x *Context, thread uint32) (*Stream, dispatch.Result) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if st := x.perThread[thread]; st != nil {
		st.used = x.sweeps
		return st, 0
	}
	if len(x.perThread) >= max(SweepAt, 2*x.swept) {
		x.sweepStreams()
	}
	if len(x.perThread) >= maxThreads {
		return nil, dispatch.ResultOutOfMemory
	}
	b, err := x.Backend.NewStream(backend.StreamConfig{})
	if err != nil {
		return nil, p.Result(err)
	}
	st := &Stream{Context: x, Backend: b, ID: p.nextID(), used: x.sweeps}
	x.perThread[thread] = st
	return st, 0
}

// sweepStreams ends the default streams that are idle and that no thread has asked for since the last sweep. A thread
// that asks again gets a new stream, which is the same to the thread. The caller holds mu.
func (x *Context) sweepStreams() {
	for thread, st := range x.perThread {
		if st.used < x.sweeps && st.Backend.Query() == nil {
			_ = st.Backend.Destroy() // the stream was there
			delete(x.perThread, thread)
		}
	}
	x.sweeps++
	x.swept = len(x.perThread)
}

// Fill sets memory on a stream.
func (p *Process) Fill(c *dispatch.Call, stream dispatch.Stream, f backend.Fill) dispatch.Result {
	if _, r := p.Current(c); r != 0 {
		return r
	}
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	return p.Result(st.Backend.Fill(f))
}
