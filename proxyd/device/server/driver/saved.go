// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// The state of contexts, streams and events in a save. Restored calls make the objects; the state that no call sets
// stands here.

// ErrRestore is why a saved state cannot be built here.
var ErrRestore = errors.New("the devices cannot be restored")

// ContextState is a context.
type ContextState struct {
	Handle  dispatch.Context  `json:"handle"`
	Backend backend.ContextID `json:"backend"`
	ID      uint64            `json:"id"`
	Legacy  StreamState       `json:"legacy"`
	Late    int32             `json:"late,omitempty"`
	Threads []threadState     `json:"threads,omitempty"`
}

type threadState struct {
	Thread uint32 `json:"thread"`
	StreamState
}

// StreamState is a stream. The default streams have no handle.
type StreamState struct {
	Handle     dispatch.Stream                `json:"handle,omitempty"`
	ID         uint64                         `json:"id"`
	Attributes map[int32]dispatch.Launchvalue `json:"attributes,omitempty"`
}

func (st *Stream) describeStream(h dispatch.Stream) StreamState {
	st.mu.Lock()
	defer st.mu.Unlock()
	return StreamState{h, st.ID, maps.Clone(st.attributes)}
}

// restoreStream sets the state of a stream that no call has set.
func (st *Stream) restoreStream(s *StreamState) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ID, st.attributes = s.ID, s.Attributes
}

// EventState is an event that was recorded, with timing. All other events are as if never recorded: done.
type EventState struct {
	Handle dispatch.Event `json:"handle"`
	At     time.Duration  `json:"at"`
}

func (x *Context) describeContext(p *Process) ContextState {
	st := ContextState{Handle: x.Handle, Backend: x.Backend.ID(), ID: x.ID, Legacy: x.Legacy.describeStream(0)}
	p.mu.Lock()
	st.Late = int32(x.late)
	p.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	for t, s := range x.perThread {
		st.Threads = append(st.Threads, threadState{t, s.describeStream(0)})
	}
	slices.SortFunc(st.Threads, func(a, b threadState) int { return cmp.Compare(a.Thread, b.Thread) })
	return st
}

// DeviceUse is what the process has of a device: its space, nil if there is none, and the number of retains of its
// primary context and its flags.
func (p *Process) DeviceUse(ordinal int32) (s *Space, retained int, flags uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices[ordinal]
	return d.space, d.retained, d.flags
}

// ReachedDevices are the devices of the spaces that were passed to Reach, in order.
func (s *Space) ReachedDevices() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []int32
	for o := range s.reached {
		out = append(out, o.Ordinal)
	}
	slices.Sort(out)
	return out
}

// Counters are the number of contexts and streams made so far, and the error of a posted call without a context.
func (p *Process) Counters() (lasts uint64, late int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lasts, int32(p.late)
}

// RestoreCounters sets the values that Counters has returned.
func (p *Process) RestoreCounters(lasts uint64, late int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lasts, p.late = lasts, dispatch.Result(late)
}

// DescribeContexts writes the contexts down.
func (p *Process) DescribeContexts() []ContextState {
	return handles.Each(&p.Contexts, func(_ dispatch.Context, x *Context) ContextState { return x.describeContext(p) })
}

// DescribeStreams writes down the streams that have handles.
func (p *Process) DescribeStreams() []StreamState {
	return handles.Each(&p.streams, func(h dispatch.Stream, s *Stream) StreamState { return s.describeStream(h) })
}

// DescribeEvents writes events down. shift is the lead of the clock of saves over the backend's.
func (p *Process) DescribeEvents(shift time.Duration) []EventState {
	var out []EventState
	hs, es := handles.Sorted(&p.events)
	for i, e := range es {
		if at, err := e.Backend.Time(); err == nil {
			out = append(out, EventState{hs[i], at + shift})
		}
	}
	return out
}

// RestoreSpace makes the space of a device, as before.
func (p *Process) RestoreSpace(ordinal int32) error {
	s, err := p.newSpace(ordinal)
	if err != nil {
		return err
	}
	p.devices[ordinal].space = s
	return nil
}

// RestoreFlags sets the flags of a device's primary context.
func (p *Process) RestoreFlags(ordinal int32, flags uint32) { p.devices[ordinal].flags = flags }

// RestorePrimary sets the state of a device's primary context that calls may have changed.
func (p *Process) RestorePrimary(ordinal int32, retained int, flags uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices[ordinal]
	if d.primary != nil {
		d.retained = retained
	}
	d.flags = flags
}

// RestoreContexts sets the state of contexts that no call has set, and makes their threads' streams. Missing contexts
// are left out.
func (p *Process) RestoreContexts(all []ContextState) error {
	for _, st := range all {
		x, ok := p.Contexts.Get(st.Handle)
		if !ok {
			continue
		}
		x.ID, x.late = st.ID, dispatch.Result(st.Late)
		x.Legacy.restoreStream(&st.Legacy)
		for _, t := range st.Threads {
			s, result := p.threadStream(x, t.Thread)
			if result != 0 {
				return fmt.Errorf("the stream of thread %d: %d: %w", t.Thread, result, ErrRestore)
			}
			s.restoreStream(&t.StreamState)
		}
	}
	return nil
}

// RestoreStreams sets the state of streams that no call has set.
func (p *Process) RestoreStreams(all []StreamState) {
	for _, st := range all {
		if s, ok := p.streams.Get(st.Handle); ok {
			s.restoreStream(&st)
		}
	}
}

// Tables are the tables of handles, by the names that their classes have in the table of calls.
func (p *Process) Tables() map[replay.Class]handles.AnyTable {
	return map[replay.Class]handles.AnyTable{"context": &p.Contexts, "stream": &p.streams, "event": &p.events}
}
