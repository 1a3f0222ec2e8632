// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"maps"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// streamCalls implements what dispatch.StreamCalls has of streams and events.
type streamCalls struct{ *core }

// streamWaits are the calls of this file, and of event.go, that may wait.
var streamWaits = []string{"cuStreamSynchronize", "cuEventSynchronize"}

// StreamCreate implements dispatch.Backend, as all below.
func (p *streamCalls) StreamCreate(c *dispatch.Call, stream dispatch.Stream, flags uint32) dispatch.Result {
	return p.StreamCreateWithPriority(c, stream, flags, backend.LeastPriority)
}

func (p *streamCalls) StreamCreateWithPriority(c *dispatch.Call, stream dispatch.Stream, flags uint32, priority int32) dispatch.Result {
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

func (p *streamCalls) StreamDestroyV2(_ *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, ok := p.streams.drop(stream)
	if !ok {
		return dispatch.ResultInvalidHandle
	}
	return p.result(st.b.Destroy())
}

func (p *streamCalls) StreamGetPriority(c *dispatch.Call, stream dispatch.Stream) (int32, dispatch.Result) {
	st, r := p.stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return int32(st.b.Config().Priority), 0
}

func (p *streamCalls) StreamGetFlags(c *dispatch.Call, stream dispatch.Stream) (uint32, dispatch.Result) {
	st, r := p.stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return st.flags, 0
}

func (p *streamCalls) StreamGetDevice(c *dispatch.Call, stream dispatch.Stream) (int32, dispatch.Result) {
	st, r := p.stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return st.context.space.ordinal, 0
}

func (p *streamCalls) StreamGetId(c *dispatch.Call, stream dispatch.Stream) (uint64, dispatch.Result) {
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

func (p *streamCalls) StreamCopyAttributes(c *dispatch.Call, dst, src dispatch.Stream) dispatch.Result {
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

func (p *streamCalls) StreamGetAttribute(c *dispatch.Call, stream dispatch.Stream, id int32) (dispatch.Launchvalue, dispatch.Result) {
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
func (p *streamCalls) StreamSetAttribute(c *dispatch.Call, stream dispatch.Stream, id int32, value dispatch.Launchvalue) dispatch.Result {
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

func (p *streamCalls) StreamQuery(c *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	return p.result(st.b.Query())
}

func (p *streamCalls) StreamSynchronize(c *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, r := p.stream(c, stream)
	if r != 0 {
		return r
	}
	p.waits(c)
	err := st.b.Synchronize(p.ctx)
	p.output.flush(p.ctx)
	return p.synchronised(st.context, err)
}

func (p *streamCalls) StreamWaitEvent(c *dispatch.Call, stream dispatch.Stream, event dispatch.Event, flags uint32) dispatch.Result {
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

func (p *streamCalls) waitValue(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, size int, value uint64, flags uint32) dispatch.Result {
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

func (p *streamCalls) writeValue(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, size int, value uint64, flags uint32) dispatch.Result {
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

func (p *streamCalls) StreamWaitValue32V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value, flags uint32) dispatch.Result {
	return p.waitValue(c, stream, at, 4, uint64(value), flags)
}

func (p *streamCalls) StreamWaitValue64V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value uint64, flags uint32) dispatch.Result {
	return p.waitValue(c, stream, at, 8, value, flags)
}

func (p *streamCalls) StreamWriteValue32V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value, flags uint32) dispatch.Result {
	return p.writeValue(c, stream, at, 4, uint64(value), flags)
}

func (p *streamCalls) StreamWriteValue64V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value uint64, flags uint32) dispatch.Result {
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
func (p *streamCalls) StreamBatchMemOpV2(c *dispatch.Call, stream dispatch.Stream, count uint32, ops []dispatch.Memop, flags uint32) dispatch.Result {
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
