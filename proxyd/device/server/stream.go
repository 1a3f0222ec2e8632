// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"maps"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// streamWaits are the calls of this file, and of event.go, that may wait.
var streamWaits = []string{"cuStreamSynchronize", "cuEventSynchronize"}

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

// stream finds a stream: INVALID_HANDLE if there is none, INVALID_CONTEXT for a default stream without a context.
func (p *process) stream(c *dispatch.Call, h dispatch.Stream) (*cudaStream, dispatch.Result) {
	if rec, ok := c.Into.(*recorder); ok {
		return rec.stream(c, h)
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
func (p *process) threadStream(x *cudaContext, thread uint32) (*cudaStream, dispatch.Result) {
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

// StreamCreate implements dispatch.Backend, as all below.
func (p *process) StreamCreate(c *dispatch.Call, stream dispatch.Stream, flags uint32) dispatch.Result {
	return p.StreamCreateWithPriority(c, stream, flags, backend.LeastPriority)
}

func (p *process) StreamCreateWithPriority(c *dispatch.Call, stream dispatch.Stream, flags uint32, priority int32) dispatch.Result {
	const nonBlocking = 1
	x, r := p.current(c)
	switch {
	case r != 0:
		return r
	case flags&^nonBlocking != 0:
		return dispatch.ResultInvalidValue
	}
	b, err := x.b.NewStream(backend.StreamConfig{NonBlocking: flags&nonBlocking != 0, Priority: int(priority)})
	if err != nil {
		return p.result(err)
	}
	if r := p.streams.put(stream, &cudaStream{context: x, b: b, id: p.nextID(), flags: flags}); r != 0 {
		_ = b.Destroy() // nobody has used it
		return r
	}
	return 0
}

func (p *process) StreamDestroyV2(_ *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, ok := p.streams.drop(stream)
	if !ok {
		return dispatch.ResultInvalidHandle
	}
	return p.result(st.b.Destroy())
}

func (p *process) StreamGetPriority(c *dispatch.Call, stream dispatch.Stream) (int32, dispatch.Result) {
	st, r := p.stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return int32(st.b.Config().Priority), 0
}

func (p *process) StreamGetFlags(c *dispatch.Call, stream dispatch.Stream) (uint32, dispatch.Result) {
	st, r := p.stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return st.flags, 0
}

func (p *process) StreamGetDevice(c *dispatch.Call, stream dispatch.Stream) (int32, dispatch.Result) {
	st, r := p.stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return st.context.space.ordinal, 0
}

func (p *process) StreamGetId(c *dispatch.Call, stream dispatch.Stream) (uint64, dispatch.Result) {
	st, r := p.stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return st.id, 0
}

// The attributes that streams have.
const (
	attributeWindow    = 1
	attributePolicy    = 3
	attributePriority  = 8
	attributeDomainMap = 9
	attributeDomain    = 10
)

// defaultAttributes are what they are before they are set: the policy is automatic, the remote domain is 1.
var defaultAttributes = map[int32]dispatch.Launchvalue{
	attributeWindow: {}, attributePolicy: {Word: [8]uint64{1}}, attributeDomainMap: {Word: [8]uint64{1 << 8}}, attributeDomain: {},
}

func (p *process) StreamCopyAttributes(c *dispatch.Call, dst, src dispatch.Stream) dispatch.Result {
	to, r := p.stream(c, dst)
	if r != 0 {
		return r
	}
	from, r := p.stream(c, src)
	if r != 0 {
		return r
	}
	from.mu.Lock()
	all := maps.Clone(from.attributes)
	from.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	to.attributes = all
	return 0
}

func (p *process) StreamGetAttribute(c *dispatch.Call, stream dispatch.Stream, id int32) (dispatch.Launchvalue, dispatch.Result) {
	st, r := p.stream(c, stream)
	if r != 0 {
		return dispatch.Launchvalue{}, r
	}
	if id == attributePriority {
		return dispatch.Launchvalue{Word: [8]uint64{uint64(uint32(st.b.Config().Priority))}}, 0
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if v, ok := st.attributes[id]; ok {
		return v, 0
	}
	v, ok := defaultAttributes[id]
	if !ok {
		return v, dispatch.ResultInvalidValue
	}
	return v, 0
}

// StreamSetAttribute remembers what is set; it changes nothing.
func (p *process) StreamSetAttribute(c *dispatch.Call, stream dispatch.Stream, id int32, value dispatch.Launchvalue) dispatch.Result {
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	if _, ok := defaultAttributes[id]; !ok {
		return dispatch.ResultInvalidValue
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.attributes == nil {
		st.attributes = map[int32]dispatch.Launchvalue{}
	}
	st.attributes[id] = value
	return 0
}

func (p *process) StreamQuery(c *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	return p.result(st.b.Query())
}

func (p *process) StreamSynchronize(c *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	p.waits(c)
	err := st.b.Synchronize(p.ctx)
	p.output.flush(p.ctx)
	return p.synchronised(st.context, err)
}

func (p *process) StreamWaitEvent(c *dispatch.Call, stream dispatch.Stream, event dispatch.Event, flags uint32) dispatch.Result {
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	e, r := p.event(event)
	switch {
	case r != 0:
		return r
	case flags != 0: // of a capture, which the shim knows
		return dispatch.ResultInvalidValue
	}
	return p.result(st.b.Wait(e.b))
}

// condition takes the flags of a wait for a value apart.
func condition(flags uint32) (backend.Condition, dispatch.Result) {
	const flush = 1 << 30
	switch {
	case flags&flush != 0:
		return 0, dispatch.ResultNotSupported // no device says that it can: CAN_FLUSH_REMOTE_WRITES
	case flags > uint32(backend.Nor):
		return 0, dispatch.ResultInvalidValue
	}
	return backend.Condition(flags), 0
}

func (p *process) waitValue(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, size int, value uint64, flags uint32) dispatch.Result {
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	cond, r := condition(flags)
	if r != 0 {
		return r
	}
	return p.result(st.b.WaitValue(backend.Addr(at), size, value, cond))
}

func (p *process) writeValue(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, size int, value uint64, flags uint32) dispatch.Result {
	const noBarrier = 1
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	if flags&^noBarrier != 0 {
		return dispatch.ResultInvalidValue
	}
	return p.result(st.b.Write(backend.Addr(at), size, value))
}

func (p *process) StreamWaitValue32V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value, flags uint32) dispatch.Result {
	return p.waitValue(c, stream, at, 4, uint64(value), flags)
}

func (p *process) StreamWaitValue64V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value uint64, flags uint32) dispatch.Result {
	return p.waitValue(c, stream, at, 8, value, flags)
}

func (p *process) StreamWriteValue32V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value, flags uint32) dispatch.Result {
	return p.writeValue(c, stream, at, 4, uint64(value), flags)
}

func (p *process) StreamWriteValue64V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value uint64, flags uint32) dispatch.Result {
	return p.writeValue(c, stream, at, 8, value, flags)
}

// The operations of a batch, as CUstreamBatchMemOpType numbers them.
const (
	memopWait32  = 1
	memopWrite32 = 2
	memopFlush   = 3
	memopWait64  = 4
	memopWrite64 = 5
	memopBarrier = 6
)

// StreamBatchMemOpV2 carries operations out in their order. What is wrong with any of them is found before the first, but for
// addresses.
func (p *process) StreamBatchMemOpV2(c *dispatch.Call, stream dispatch.Stream, count uint32, ops []dispatch.Memop, flags uint32) dispatch.Result {
	const most = 256
	if _, r := p.stream(c, stream); r != 0 {
		return r
	}
	if count > most || flags != 0 {
		return dispatch.ResultInvalidValue
	}
	for _, o := range ops {
		switch uint32(o.Word[0]) {
		case memopWait32, memopWait64:
			if _, r := condition(uint32(o.Word[3])); r != 0 {
				return r
			}
		case memopWrite32, memopWrite64, memopBarrier:
		case memopFlush:
			return dispatch.ResultNotSupported
		default:
			return dispatch.ResultInvalidValue
		}
	}
	for _, o := range ops {
		var r dispatch.Result
		at, value, flags := dispatch.Devptr(o.Word[1]), o.Word[2], uint32(o.Word[3])
		switch uint32(o.Word[0]) {
		case memopWait32:
			r = p.waitValue(c, stream, at, 4, uint64(uint32(value)), flags)
		case memopWait64:
			r = p.waitValue(c, stream, at, 8, value, flags)
		case memopWrite32:
			r = p.writeValue(c, stream, at, 4, uint64(uint32(value)), flags)
		case memopWrite64:
			r = p.writeValue(c, stream, at, 8, value, flags)
		}
		if r != 0 {
			return r
		}
	}
	return 0
}
