// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
)

// What a save has of contexts, streams and events. Calls that are made again make them; the rest stands here.

type contextState struct {
	Handle  dispatch.Context  `json:"handle"`
	Backend backend.ContextID `json:"backend"`
	ID      uint64            `json:"id"`
	Legacy  streamState       `json:"legacy"`
	Late    int32             `json:"late,omitempty"`
	Threads []threadState     `json:"threads,omitempty"`
}

type threadState struct {
	Thread uint32 `json:"thread"`
	streamState
}

// streamState is a stream. The default ones have no handle.
type streamState struct {
	Handle     dispatch.Stream                `json:"handle,omitempty"`
	ID         uint64                         `json:"id"`
	Attributes map[int32]dispatch.Launchvalue `json:"attributes,omitempty"`
}

func (st *cudaStream) describe(h dispatch.Stream) streamState {
	st.mu.Lock()
	defer st.mu.Unlock()
	return streamState{h, st.id, maps.Clone(st.attributes)}
}

// restore sets what no call has set.
func (st *cudaStream) restore(s *streamState) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.id, st.attributes = s.ID, s.Attributes
}

// eventState is an event that was recorded, with timing. All others are as if they never were: done.
type eventState struct {
	Handle dispatch.Event `json:"handle"`
	At     time.Duration  `json:"at"`
}

func (x *cudaContext) describe(p *core) contextState {
	st := contextState{Handle: x.handle, Backend: x.b.ID(), ID: x.id, Legacy: x.legacy.describe(0)}
	p.mu.Lock()
	st.Late = int32(x.late)
	p.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	for t, s := range x.perThread {
		st.Threads = append(st.Threads, threadState{t, s.describe(0)})
	}
	slices.SortFunc(st.Threads, func(a, b threadState) int { return cmp.Compare(a.Thread, b.Thread) })
	return st
}

// deviceUse is what the process has of a device: its space, nil if there is none, and of its primary context how often it is retained
// and its flags.
func (p *core) deviceUse(ordinal int32) (s *space, retained int, flags uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices[ordinal]
	return d.space, d.retained, d.flags
}

// reachedDevices are the devices whose memory kernels here may follow pointers into for good, in order.
func (s *space) reachedDevices() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []int32
	for o := range s.reached {
		out = append(out, o.ordinal)
	}
	slices.Sort(out)
	return out
}

// counters are how many contexts and streams were made, and what a posted call without a context has failed with.
func (p *core) counters() (lasts uint64, late int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lasts, int32(p.late)
}

// restoreCounters sets what counters has returned.
func (p *core) restoreCounters(lasts uint64, late int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lasts, p.late = lasts, dispatch.Result(late)
}

func (p *core) describeContexts() []contextState {
	return each(&p.contexts, func(_ dispatch.Context, x *cudaContext) contextState { return x.describe(p) })
}

func (p *core) describeStreams() []streamState {
	return each(&p.streams, func(h dispatch.Stream, s *cudaStream) streamState { return s.describe(h) })
}

// describeEvents writes events down. shift is what the clock of saves is ahead of the backend's.
func (p *core) describeEvents(shift time.Duration) []eventState {
	var out []eventState
	hs, es := sorted(&p.events)
	for i, e := range es {
		if at, err := e.b.Time(); err == nil {
			out = append(out, eventState{hs[i], at + shift})
		}
	}
	return out
}

// restoreSpace makes the space of a device, as it was.
func (p *core) restoreSpace(ordinal int32) error {
	s, err := p.newSpace(ordinal)
	if err != nil {
		return err
	}
	p.devices[ordinal].space = s
	return nil
}

// restoreFlags sets the flags of a device's primary context.
func (p *core) restoreFlags(ordinal int32, flags uint32) { p.devices[ordinal].flags = flags }

// restorePrimary sets what calls may have changed of a device's primary context.
func (p *core) restorePrimary(ordinal int32, retained int, flags uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices[ordinal]
	if d.primary != nil {
		d.retained = retained
	}
	d.flags = flags
}

// restoreContexts sets what no call has set of contexts, and makes their threads' streams. Those that are not there are left out.
func (p *core) restoreContexts(all []contextState) error {
	for _, st := range all {
		x, ok := p.contexts.get(st.Handle)
		if !ok {
			continue
		}
		x.id, x.late = st.ID, dispatch.Result(st.Late)
		x.legacy.restore(&st.Legacy)
		for _, t := range st.Threads {
			s, result := p.threadStream(x, t.Thread)
			if result != 0 {
				return fmt.Errorf("the stream of thread %d: %d: %w", t.Thread, result, ErrRestore)
			}
			s.restore(&t.streamState)
		}
	}
	return nil
}

// restoreStreams sets what no call has set of streams.
func (p *core) restoreStreams(all []streamState) {
	for _, st := range all {
		if s, ok := p.streams.get(st.Handle); ok {
			s.restore(&st)
		}
	}
}

func (p *core) tables() map[replay.Class]handles {
	return map[replay.Class]handles{"context": &p.contexts, "stream": &p.streams, "event": &p.events}
}
