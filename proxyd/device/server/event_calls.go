// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// EventCreate implements dispatch.Backend, as all below.
func (p *streamCalls) EventCreate(c *dispatch.Call, event dispatch.Event, flags uint32) dispatch.Result {
	const blocking, noTiming, interprocess = 1, 2, 4
	x, r := p.current(c)
	switch {
	case r != 0:
		return r
	case flags&^(blocking|noTiming|interprocess) != 0, flags&interprocess != 0 && flags&noTiming == 0:
		return dispatch.ResultInvalidValue
	}
	var at *time.Duration
	if p.rebuild != nil {
		at = p.rebuild.RecordedAt(event)
	}
	b, err := x.b.NewEvent(backend.EventConfig{NoTiming: flags&noTiming != 0, At: at})
	if err != nil {
		return p.result(err)
	}
	if r := p.events.put(event, &cudaEvent{b, x}); r != 0 {
		_ = b.Destroy() // nobody has used it
		return r
	}
	return 0
}

func (p *streamCalls) EventDestroyV2(_ *dispatch.Call, event dispatch.Event) dispatch.Result {
	e, ok := p.events.drop(event)
	if !ok {
		return dispatch.ResultInvalidHandle
	}
	return p.result(e.b.Destroy())
}

func (p *streamCalls) EventRecord(c *dispatch.Call, event dispatch.Event, stream dispatch.Stream) dispatch.Result {
	return p.EventRecordWithFlags(c, event, stream, 0)
}

func (p *streamCalls) EventRecordWithFlags(c *dispatch.Call, event dispatch.Event, stream dispatch.Stream, flags uint32) dispatch.Result {
	e, r := p.event(event)
	if r != 0 {
		return r
	}
	st, r := p.stream(c, stream)
	switch {
	case r != 0:
		return r
	case flags != 0: // of a capture, which the shim knows
		return dispatch.ResultInvalidValue
	}
	return p.result(st.b.Record(e.b))
}

func (p *streamCalls) EventQuery(_ *dispatch.Call, event dispatch.Event) dispatch.Result {
	e, r := p.event(event)
	if r != 0 {
		return r
	}
	return p.result(e.b.Query())
}

func (p *streamCalls) EventSynchronize(c *dispatch.Call, event dispatch.Event) dispatch.Result {
	e, r := p.event(event)
	if r != 0 {
		return r
	}
	p.waits(c)
	err := e.b.Synchronize(p.ctx)
	p.output.flush(p.ctx)
	return p.synchronised(e.context, err)
}

func (p *streamCalls) EventElapsedTime(_ *dispatch.Call, start, end dispatch.Event) (float32, dispatch.Result) {
	from, r := p.event(start)
	if r != 0 {
		return 0, r
	}
	to, r := p.event(end)
	switch {
	case r != 0:
		return 0, r
	case from.context.space != to.context.space:
		return 0, dispatch.ResultInvalidHandle
	}
	a, err := from.b.Time()
	if err != nil {
		return 0, p.result(err)
	}
	b, err := to.b.Time()
	if err != nil {
		return 0, p.result(err)
	}
	return float32(float64(b-a) / float64(time.Millisecond)), 0
}

func (p *streamCalls) EventElapsedTimeV2(c *dispatch.Call, start, end dispatch.Event) (float32, dispatch.Result) {
	return p.EventElapsedTime(c, start, end)
}
