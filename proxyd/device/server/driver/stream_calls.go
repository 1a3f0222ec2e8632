// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"maps"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// StreamCalls implements the calls about streams and events of dispatch.StreamCalls.
type StreamCalls struct{ *Process }

// StreamWaits are the calls of this file, and of event.go, that may wait.
var StreamWaits = []string{"cuStreamSynchronize", "cuEventSynchronize"}

// StreamCreate implements dispatch.Backend, as all below.
func (p *StreamCalls) StreamCreate(c *dispatch.Call, stream dispatch.Stream, flags uint32) dispatch.Result {
	return p.StreamCreateWithPriority(c, stream, flags, backend.LeastPriority)
}

func (p *StreamCalls) StreamCreateWithPriority(c *dispatch.Call, stream dispatch.Stream, flags uint32, priority int32) dispatch.Result {
	const nonBlocking = 1
	x, r := p.Current(c)
	switch {
	case r != 0:
		return r
	case flags&^nonBlocking != 0:
		return dispatch.ResultInvalidValue
	}
	b, err := x.Backend.NewStream(backend.StreamConfig{NonBlocking: flags&nonBlocking != 0, Priority: int(priority)})
	if err != nil {
		return p.Result(err)
	}
	if r := p.streams.Put(stream, &Stream{Context: x, Backend: b, ID: p.nextID(), Flags: flags}); r != 0 {
		_ = b.Destroy() // b is unused
		return r
	}
	return 0
}

func (p *StreamCalls) StreamDestroyV2(_ *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, ok := p.streams.Drop(stream)
	if !ok {
		return dispatch.ResultInvalidHandle
	}
	p.Work.StreamEnds(st)
	return p.Result(st.Backend.Destroy())
}

func (p *StreamCalls) StreamGetPriority(c *dispatch.Call, stream dispatch.Stream) (int32, dispatch.Result) {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return int32(st.Backend.Config().Priority), 0
}

func (p *StreamCalls) StreamGetFlags(c *dispatch.Call, stream dispatch.Stream) (uint32, dispatch.Result) {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return st.Flags, 0
}

func (p *StreamCalls) StreamGetDevice(c *dispatch.Call, stream dispatch.Stream) (int32, dispatch.Result) {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return st.Context.Space.Ordinal, 0
}

func (p *StreamCalls) StreamGetId(c *dispatch.Call, stream dispatch.Stream) (uint64, dispatch.Result) {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return 0, r
	}
	return st.ID, 0
}

// The attributes that streams have.
const (
	AttributeWindow    = 1
	attributePolicy    = 3
	AttributePriority  = 8
	AttributeDomainMap = 9
	AttributeDomain    = 10
)

// defaultAttributes has the value of each attribute until the program sets the attribute. The policy is automatic, the
// remote domain is 1.
var defaultAttributes = map[int32]dispatch.Launchvalue{
	AttributeWindow: {}, attributePolicy: {Word: [8]uint64{1}}, AttributeDomainMap: {Word: [8]uint64{1 << 8}}, AttributeDomain: {},
}

func (p *StreamCalls) StreamCopyAttributes(c *dispatch.Call, dst, src dispatch.Stream) dispatch.Result {
	to, r := p.Stream(c, dst)
	if r != 0 {
		return r
	}
	from, r := p.Stream(c, src)
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

func (p *StreamCalls) StreamGetAttribute(c *dispatch.Call, stream dispatch.Stream, id int32) (dispatch.Launchvalue, dispatch.Result) {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return dispatch.Launchvalue{}, r
	}
	if id == AttributePriority {
		return dispatch.Launchvalue{Word: [8]uint64{uint64(uint32(st.Backend.Config().Priority))}}, 0
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

// StreamSetAttribute remembers the value, which has no effect.
func (p *StreamCalls) StreamSetAttribute(c *dispatch.Call, stream dispatch.Stream, id int32, value dispatch.Launchvalue) dispatch.Result {
	st, r := p.Stream(c, stream)
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

func (p *StreamCalls) StreamQuery(c *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	return p.Result(st.Backend.Query())
}

func (p *StreamCalls) StreamSynchronize(c *dispatch.Call, stream dispatch.Stream) dispatch.Result {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	return p.Wait(c, st.Context, st.Backend.Synchronize)
}

func (p *StreamCalls) StreamWaitEvent(c *dispatch.Call, stream dispatch.Stream, event dispatch.Event, flags uint32) dispatch.Result {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	e, r := p.Event(event)
	switch {
	case r != 0:
		return r
	case flags != 0: // of a capture, which the shim knows
		return dispatch.ResultInvalidValue
	}
	return p.Result(st.Backend.Wait(e.Backend))
}

// splitCondition checks the flags of a wait for a value, and returns the condition.
func splitCondition(flags uint32) (backend.Condition, dispatch.Result) {
	const flush = 1 << 30
	switch {
	case flags&flush != 0:
		return 0, dispatch.ResultNotSupported // no device has the attribute: CAN_FLUSH_REMOTE_WRITES
	case flags > uint32(backend.Nor):
		return 0, dispatch.ResultInvalidValue
	}
	return backend.Condition(flags), 0
}

func (p *StreamCalls) waitValue(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, size int, value uint64, flags uint32) dispatch.Result {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	cond, r := splitCondition(flags)
	if r != 0 {
		return r
	}
	return p.Result(st.Backend.WaitValue(backend.Addr(at), size, value, cond))
}

func (p *StreamCalls) writeValue(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, size int, value uint64, flags uint32) dispatch.Result {
	const noBarrier = 1
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	if flags&^noBarrier != 0 {
		return dispatch.ResultInvalidValue
	}
	return p.Result(st.Backend.Write(backend.Addr(at), size, value))
}

func (p *StreamCalls) StreamWaitValue32V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value, flags uint32) dispatch.Result {
	return p.waitValue(c, stream, at, 4, uint64(value), flags)
}

func (p *StreamCalls) StreamWaitValue64V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value uint64, flags uint32) dispatch.Result {
	return p.waitValue(c, stream, at, 8, value, flags)
}

func (p *StreamCalls) StreamWriteValue32V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value, flags uint32) dispatch.Result {
	return p.writeValue(c, stream, at, 4, uint64(value), flags)
}

func (p *StreamCalls) StreamWriteValue64V2(c *dispatch.Call, stream dispatch.Stream, at dispatch.Devptr, value uint64, flags uint32) dispatch.Result {
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

// StreamBatchMemOpV2 carries operations out in their order. Wrong operations are refused before the first is carried out;
// only wrong addresses are found later.
func (p *StreamCalls) StreamBatchMemOpV2(c *dispatch.Call, stream dispatch.Stream, count uint32, ops []dispatch.Memop, flags uint32) dispatch.Result {
	const most = 256
	if _, r := p.Stream(c, stream); r != 0 {
		return r
	}
	if count > most || flags != 0 {
		return dispatch.ResultInvalidValue
	}
	for _, o := range ops {
		switch uint32(o.Word[0]) {
		case memopWait32, memopWait64:
			if _, r := splitCondition(uint32(o.Word[3])); r != 0 {
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
