// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// EventCreate implements dispatch.Backend, as all below.
func (p *StreamCalls) EventCreate(c *dispatch.Call, event dispatch.Event, flags uint32) dispatch.Result {
	const blocking, noTiming, interprocess = 1, 2, 4
	x, r := p.Current(c)
	switch {
	case r != 0:
		return r
	case flags&^(blocking|noTiming|interprocess) != 0, flags&interprocess != 0 && flags&noTiming == 0:
		return dispatch.ResultInvalidValue
	}
	var at *time.Duration
	if p.Restoring != nil {
		at = p.Restoring.RecordedAt(event)
	}
	e, err := p.newEvent(x, event, RandomID{}, backend.EventConfig{NoTiming: flags&noTiming != 0, At: at})
	if err != nil {
		return p.Result(err)
	}
	e.interprocess = flags&interprocess != 0
	if p.Sharing.ShareOf(e) != (RandomID{}) {
		p.Sharing.nameEvent(e) // of a restore: other processes may open the event from now on
	}
	return p.putEvent(event, e)
}

func (p *StreamCalls) EventDestroyV2(_ *dispatch.Call, event dispatch.Event) dispatch.Result {
	e, ok := p.events.Drop(event)
	if !ok {
		return dispatch.ResultInvalidHandle
	}
	p.Work.EventEnds(event, e.Context.Handle, p.Sharing.forgetEvent(e))
	return p.Result(e.Backend.Destroy())
}

func (p *StreamCalls) EventRecord(c *dispatch.Call, event dispatch.Event, stream dispatch.Stream) dispatch.Result {
	return p.EventRecordWithFlags(c, event, stream, 0)
}

func (p *StreamCalls) EventRecordWithFlags(c *dispatch.Call, event dispatch.Event, stream dispatch.Stream, flags uint32) dispatch.Result {
	e, r := p.Event(event)
	if r != 0 {
		return r
	}
	st, r := p.Stream(c, stream)
	switch {
	case r != 0:
		return r
	case flags != 0: // of a capture, which the shim knows
		return dispatch.ResultInvalidValue
	}
	return p.Result(st.Backend.Record(e.Backend))
}

func (p *StreamCalls) EventQuery(_ *dispatch.Call, event dispatch.Event) dispatch.Result {
	e, r := p.Event(event)
	if r != 0 {
		return r
	}
	return p.Result(e.Backend.Query())
}

func (p *StreamCalls) EventSynchronize(c *dispatch.Call, event dispatch.Event) dispatch.Result {
	e, r := p.Event(event)
	if r != 0 {
		return r
	}
	return p.Wait(c, e.Context, e.Backend.Synchronize)
}

func (p *StreamCalls) EventElapsedTime(_ *dispatch.Call, start, end dispatch.Event) (float32, dispatch.Result) {
	from, r := p.Event(start)
	if r != 0 {
		return 0, r
	}
	to, r := p.Event(end)
	switch {
	case r != 0:
		return 0, r
	case from.Context.Space != to.Context.Space:
		return 0, dispatch.ResultInvalidHandle
	}
	a, err := from.Backend.Time()
	if err != nil {
		return 0, p.Result(err)
	}
	b, err := to.Backend.Time()
	if err != nil {
		return 0, p.Result(err)
	}
	return float32(float64(b-a) / float64(time.Millisecond)), 0
}

func (p *StreamCalls) EventElapsedTimeV2(c *dispatch.Call, start, end dispatch.Event) (float32, dispatch.Result) {
	return p.EventElapsedTime(c, start, end)
}
