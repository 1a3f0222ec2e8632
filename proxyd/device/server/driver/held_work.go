// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// HeldWork remembers each call that has queued work, as its message, until the work is done, because a cut does not
// wait for all work that a program has queued. At a cut the spaces are paused, and the unfinished calls become a part
// of the saved state; a restored process carries the same messages out again, in the same order. That is right as long
// as the work would still find the same things as when queued. Other work, and work that is not remembered here, is
// done before the cut: see Blocked.
type HeldWork struct {
	mu     sync.Mutex
	calls  []*QueuedCall // in the order in which they were made
	bytes  int           // of their messages
	ended  []*Stream     // destroyed with work in them
	sweeps int           // number of calls, and of bytes, from which on finished calls are looked for
	sweepb int

	watched []watchedCall // not used yet
}

// QueuedCall is a call that has queued work on a stream.
type QueuedCall struct {
	Op      uint32
	Thread  uint32
	Context dispatch.Context
	In      []byte
	// Event is the event that the call names, if any, and Gone is set when that was destroyed: the event is of context
	// EventContext.
	Event        dispatch.Event
	EventContext dispatch.Context
	Gone         bool
	// Share is the name of the event among the processes that share it, and Order the place of the call among all calls
	// of the server's processes that name such an event; 0: the event was not shared.
	Share RandomID
	Order uint64
	Exec  dispatch.Graphexec    // the instantiated graph that the call launches, or 0
	Done  backend.PartialKernel // of a kernel: the part that was done before

	spans []workSpan
	skip  bool // the work that the call has queued is not to be done: the program makes the call again
	stale bool // a thing that the call names has changed
}

// workSpan is the work of a call on a stream: pieces of backend.Progress.
type workSpan struct {
	stream   *Stream
	from, to uint64
}

// end is the span up to the last work that its stream was given by now.
func (w workSpan) end() workSpan {
	w.to = w.stream.Backend.Given()
	return w
}

// QueuedWork collects the work that a call queues. A QueuedWork is in dispatch.Call.Queued.
type QueuedWork struct {
	Call    *QueuedCall
	Several bool // the call may work on several streams: on all of them, or on no stream
	spans   []workSpan
	effects bool // the call does more than queue work
}

// watchedCall is a QueuedWork with its call, and with room for their spans: most calls work on a single stream.
type watchedCall struct {
	work  QueuedWork
	call  QueuedCall
	spans [2]workSpan
}

// watchedAtOnce is for how many calls WatchCall makes room at once.
const watchedAtOnce = 8

// WatchCall makes the QueuedWork of a call.
func (h *HeldWork) WatchCall(call QueuedCall) *QueuedWork {
	h.mu.Lock()
	if len(h.watched) == 0 {
		h.watched = make([]watchedCall, watchedAtOnce)
	}
	w := &h.watched[0]
	h.watched = h.watched[1:]
	h.mu.Unlock()
	w.call = call
	w.work.Call, w.work.spans, w.call.spans = &w.call, w.spans[:0:1], w.spans[1:1]
	return &w.work
}

// Unrepeatable says that the call has an effect beside the work that it queues.
func (q *QueuedWork) Unrepeatable() {
	if q != nil {
		q.effects = true
	}
}

// QueuedBy returns the QueuedWork of a call, or nil.
func QueuedBy(c *dispatch.Call) *QueuedWork {
	q, _ := c.Queued.(*QueuedWork)
	return q
}

// addStream notes a stream that the call has asked for.
func (q *QueuedWork) addStream(st *Stream) {
	if q == nil || slices.ContainsFunc(q.spans, func(w workSpan) bool { return w.stream == st }) {
		return
	}
	q.spans = append(q.spans, workSpan{stream: st, from: st.Backend.Given()})
}

// Note remembers a call that was carried out, if the call has queued work.
func (h *HeldWork) Note(q *QueuedWork) {
	if len(q.spans) > 1 && !q.Several || q.effects {
		return
	}
	call := q.Call
	for _, w := range q.spans {
		if w = w.end(); w.from < w.to {
			call.spans = append(call.spans, w)
		}
	}
	if len(call.spans) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
	h.bytes += len(call.In)
	if len(h.calls) > max(h.sweeps, leastSweep) || h.bytes > max(h.sweepb, leastBytes) {
		h.forgetDoneCalls()
	}
}

// While the history has at most so many calls, and bytes of arguments, it is not searched for finished calls.
const (
	leastSweep = 1 << 10
	leastBytes = 1 << 26
)

// Skip notes that the work queued by a call is not to be done again, for the program makes the call again.
func (h *HeldWork) Skip(q *QueuedWork) {
	if q == nil || len(q.spans) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, &QueuedCall{spans: []workSpan{q.spans[0].end()}, skip: true})
}

// forgetDoneCalls forgets the calls that have no work left. The caller holds mu.
func (h *HeldWork) forgetDoneCalls() {
	done := map[*Stream]uint64{} // the progress of a stream is asked for once
	h.calls = slices.DeleteFunc(h.calls, func(c *QueuedCall) bool {
		return !slices.ContainsFunc(c.spans, func(w workSpan) bool {
			n, known := done[w.stream]
			if !known {
				n = w.stream.Backend.Progress().Done
				done[w.stream] = n
			}
			return n < w.to
		})
	})
	h.ended = slices.DeleteFunc(h.ended, func(st *Stream) bool { p := st.Backend.Progress(); return p.Done == p.Given })
	h.bytes = 0
	for _, c := range h.calls {
		h.bytes += len(c.In)
	}
	h.sweeps, h.sweepb = 2*len(h.calls), 2*h.bytes
}

// bytesLeft is how many bytes the messages of unfinished calls have. As long as these are few, finished calls count too.
func (h *HeldWork) bytesLeft() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bytes > leastBytes {
		h.forgetDoneCalls()
	}
	return h.bytes
}

func (c *QueuedCall) isDone() bool {
	return !slices.ContainsFunc(c.spans, func(w workSpan) bool { return w.stream.Backend.Progress().Done < w.to })
}

// isBegun tells whether a piece of the call's work is done.
func (c *QueuedCall) isBegun() bool {
	return slices.ContainsFunc(c.spans, func(w workSpan) bool { return w.stream.Backend.Progress().Done > w.from })
}

// isOn tells whether the call has work on a stream.
func (c *QueuedCall) isOn(st *Stream) bool {
	return slices.ContainsFunc(c.spans, func(w workSpan) bool { return w.stream == st })
}

// markCalls calls do for each unfinished call that matches.
func (h *HeldWork) markCalls(match func(*QueuedCall) bool, do func(*QueuedCall)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if match(c) {
			do(c)
		}
	}
}

// StreamEnds notes that a stream was destroyed: its remaining work is done before a cut.
func (h *HeldWork) StreamEnds(st *Stream) {
	if p := st.Backend.Progress(); p.Done == p.Given {
		return
	}
	h.markCalls(func(c *QueuedCall) bool { return c.isOn(st) }, func(c *QueuedCall) { c.stale = true })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = append(h.ended, st)
}

// EventEnds notes that an event was destroyed, as programs do right after a wait for the event is queued.
func (h *HeldWork) EventEnds(e dispatch.Event, x dispatch.Context, share RandomID) {
	h.markCalls(func(c *QueuedCall) bool { return c.Event == e && !c.Gone }, func(c *QueuedCall) {
		c.Gone, c.EventContext, c.Share = true, x, share
	})
}

// ExecChanges notes that an instantiated graph was changed, or destroyed: earlier launches run the earlier graph,
// before a cut.
func (h *HeldWork) ExecChanges(e dispatch.Graphexec) {
	h.markCalls(func(c *QueuedCall) bool { return c.Exec == e }, func(c *QueuedCall) { c.stale = true })
}

// AllChanges notes the change of an object that any work may use.
func (h *HeldWork) AllChanges() {
	h.markCalls(func(*QueuedCall) bool { return true }, func(c *QueuedCall) { c.stale = true })
}

// Blocked tells whether one of the streams has work that must be done before a cut. The spaces are unmapped.
func (h *HeldWork) Blocked(streams []*Stream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetDoneCalls()
	remembered := map[*Stream]uint64{}
	for _, c := range h.calls {
		if c.stale && !c.skip || c.isBegun() {
			return true
		}
		for _, w := range c.spans {
			remembered[w.stream] += w.to - w.from
		}
	}
	for _, st := range append(slices.Clone(streams), h.ended...) {
		if p := st.Backend.Progress(); p.Begun || p.Given-p.Done != remembered[st] {
			return true
		}
	}
	return false
}

// Left are the calls with unfinished work. The spaces are unmapped, and no call is blocked.
func (h *HeldWork) Left() []QueuedCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []QueuedCall
	for _, c := range h.calls {
		if c.skip || c.isDone() {
			continue
		}
		left := *c
		p := c.spans[0].stream.Backend.Progress()
		if p.Done == c.spans[0].from && p.Partial != (backend.PartialKernel{}) {
			left.Done = p.Partial
		}
		out = append(out, left)
	}
	return out
}

// allStreams are the streams that a process has now.
func (p *Process) allStreams() []*Stream {
	all := p.streams.Values()
	for _, x := range p.Contexts.Values() {
		x.mu.Lock()
		all = append(all, x.Legacy)
		for _, st := range x.perThread {
			all = append(all, st)
		}
		x.mu.Unlock()
	}
	return all
}

// PauseWork has the process's spaces rest: true when all of them are unmapped, and no work of theirs is under way.
func (p *Process) PauseWork() bool {
	allPaused := true
	for _, s := range p.Spaces() {
		allPaused = s.pauseWork() && allPaused
	}
	return allPaused && !slices.ContainsFunc(p.allStreams(), func(st *Stream) bool { return st.Backend.Progress().Begun })
}

// ResumeWork undoes PauseWork.
func (p *Process) ResumeWork() {
	for _, s := range p.Spaces() {
		s.resumeWork()
	}
}

// WorkIsHeld tells whether the unfinished work of the process can be saved in its present state. PauseWork has returned
// true.
func (p *Process) WorkIsHeld() bool {
	for _, s := range p.Spaces() {
		if s.Freeing() {
			return false
		}
	}
	return !p.Work.Blocked(p.allStreams())
}
