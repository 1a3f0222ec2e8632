// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// A cut does not wait for the work that a program has queued on its devices: driver.HeldWork has the unfinished part of
// that work, this file saves the work and carries it out again.

// holdable are the calls that queue work which can be queued again. The work of other calls is done before a cut.
var holdable = func() map[uint32]bool {
	all := map[uint32]bool{}
	for _, symbol := range []string{
		"launch", "launch_ex", "graph_launch", "host_func", "nccl_group",
		"copy_in", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyAsync", "cuMemcpyDtoD_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpyPeerAsync",
		"copy_out", "cuMemcpy", "cuMemcpy2D_v2", "cuMemcpy2DAsync_v2", "cuMemcpy3D_v2", "cuMemcpy3DAsync_v2", "cuMemcpy3DPeerAsync",
		"cuMemsetD8_v2", "cuMemsetD8Async", "cuMemsetD16_v2", "cuMemsetD16Async", "cuMemsetD32_v2", "cuMemsetD32Async",
		"cuMemsetD2D8_v2", "cuMemsetD2D8Async", "cuMemsetD2D16_v2", "cuMemsetD2D16Async", "cuMemsetD2D32_v2", "cuMemsetD2D32Async",
		"cuEventRecord", "cuEventRecordWithFlags", "cuStreamWaitEvent", "cuStreamBatchMemOp_v2",
		"cuStreamWaitValue32_v2", "cuStreamWaitValue64_v2", "cuStreamWriteValue32_v2", "cuStreamWriteValue64_v2",
	} {
		all[opOf(symbol)] = true
	}
	return all
}()

var (
	opRecord, opRecordWithFlags = opOf("cuEventRecord"), opOf("cuEventRecordWithFlags")
	opWaitEvent                 = opOf("cuStreamWaitEvent")
	opGraphLaunch               = opOf("graph_launch")
	opGroup                     = opOf("nccl_group")

	// changesAll are calls after which any queued work may find other objects than when it was queued.
	changesAll = map[uint32]bool{
		opOf("cuModuleUnload"): true, opOf("cuLibraryUnload"): true, opOf("cuCtxDisablePeerAccess"): true, opOf("cuCtxSetLimit"): true,
	}
	// changesExec are calls that change or destroy their first argument, an instantiated graph.
	changesExec = func() map[uint32]bool {
		all := map[uint32]bool{}
		for _, op := range replay.Ops() {
			rule, _ := replay.Look(op)
			if len(rule.Args) > 0 && rule.Args[0].Class == "graphexec" && (rule.Args[0].Verb == replay.Change || rule.Args[0].Verb == replay.Break) {
				all[op] = true
			}
		}
		return all
	}()
)

// workKind says what a call does to the work that is queued.
type workKind uint8

const (
	otherWork     workKind = iota // the call queues no work, or work that is done before a cut
	queuesWork                    // the call is holdable; the next ones, too
	recordsEvent                  // its message begins with the event
	waitsForEvent                 // its message has the event behind the stream
	launchesGraph                 // its message begins with the instantiated graph
	queuesGroup
	changesWork      // see changesAll
	changesGraphWork // see changesExec
)

// isQueued tells whether the call is holdable.
func (k workKind) isQueued() bool { return k >= queuesWork && k <= queuesGroup }

// workOf tells the workKind of an operation.
func workOf(op uint32) workKind {
	switch {
	case op == opRecord || op == opRecordWithFlags:
		return recordsEvent
	case op == opWaitEvent:
		return waitsForEvent
	case op == opGraphLaunch:
		return launchesGraph
	case op == opGroup:
		return queuesGroup
	case holdable[op]:
		return queuesWork
	case changesAll[op]:
		return changesWork
	case changesExec[op]:
		return changesGraphWork
	}
	return otherWork
}

// watchWork begins to find out the work that a call queues, or notes the changes that the call makes for queued work:
// before the call is carried out.
func (p *process) watchWork(c *dispatch.Call, kind workKind, op uint32, in []byte) *driver.QueuedWork {
	switch kind {
	case otherWork:
		return nil
	case changesWork:
		p.Work.AllChanges()
		return nil
	case changesGraphWork:
		if len(in) >= 8 {
			p.Work.ExecChanges(dispatch.Graphexec(binary.LittleEndian.Uint64(in)))
		}
		return nil
	}
	q := p.Work.WatchCall(driver.QueuedCall{Op: op, Thread: c.Thread, Context: c.Context, In: in})
	switch {
	case kind == recordsEvent && len(in) >= 8:
		q.Call.Event = dispatch.Event(binary.LittleEndian.Uint64(in))
	case kind == waitsForEvent && len(in) >= 16:
		q.Call.Event = dispatch.Event(binary.LittleEndian.Uint64(in[8:]))
	case kind == launchesGraph && len(in) >= 8:
		q.Call.Exec = dispatch.Graphexec(binary.LittleEndian.Uint64(in))
	}
	p.orderShared(q.Call)
	q.Several = kind == queuesGroup
	c.Queued = q
	return q
}

// orderShared gives a call its place among the calls of all processes, if the call names an event that processes share: a
// recording has its place before another process can find the recording.
func (p *process) orderShared(c *driver.QueuedCall) {
	if c.Event == 0 {
		return
	}
	if e, r := p.Event(c.Event); r == 0 && e.Interprocess() && p.Sharing.ShareOf(e) != (driver.RandomID{}) {
		c.Order = p.Sharing.NextInOrder()
	}
}

// carryOutCall carries out a call and notes the objects and work that the call leaves behind. in is not
// changed afterwards, because these notes may keep it.
func (p *process) carryOutCall(c *dispatch.Call, f *callFacts, op uint32, in, room []byte) ([]byte, dispatch.Result, error) {
	q := p.watchWork(c, f.work, op, in)
	out, r, err := f.Serve(p, c, op, in, room)
	if q != nil && r == 0 && err == nil {
		if q.Call.Order != 0 && f.work == waitsForEvent {
			q.Call.Order = p.Sharing.NextInOrder() // behind the event that the wait has found
		}
		p.Work.Note(q)
	}
	if p.Limit.CountCall() {
		p.server.cuts.reportFullStreams(p)
	}
	p.noteCall(c, op, in, out, r, err)
	return out, r, err
}

// How long work goes on that has to be done before a cut, until the next look.
const (
	firstLook = time.Millisecond
	longLook  = 200 * time.Millisecond
)

// waitForCommunicators waits until no communicator has work under way: members that are paused would keep other ranks waiting.
func (p *process) waitForCommunicators(ctx context.Context) error {
	for {
		err := p.Settled()
		if err == nil || !pauseFor(ctx, firstLook) {
			return err
		}
	}
}

// holdWork pauses the process's spaces, with as much work in their streams as can be saved.
func (p *process) holdWork(ctx context.Context) error {
	for look := firstLook; ; look = min(2*look, longLook) {
		for pause := 20 * time.Microsecond; !p.PauseWork(); pause = min(2*pause, firstLook) {
			if !pauseFor(ctx, pause) {
				return ctx.Err()
			}
		}
		if p.WorkIsHeld() {
			return nil
		}
		p.ResumeWork()
		if !pauseFor(ctx, look) {
			return ctx.Err()
		}
	}
}

// pauseFor waits for a while; false if ctx is done first.
func pauseFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// workState is a call that has queued work which is not done. Its message follows the messages of calls in the
// process's file.
type workState struct {
	Op      uint32                `json:"op"`
	Symbol  string                `json:"symbol"` // for people
	Thread  uint32                `json:"thread,omitempty"`
	Context uint64                `json:"context,omitempty"`
	In      int                   `json:"in"`
	Done    backend.PartialKernel `json:"done"`
	// Event was destroyed after the call, in this context.
	Event        uint64 `json:"event,omitempty"`
	EventContext uint64 `json:"event_context,omitempty"`
	// As in driver.QueuedCall.
	Share driver.RandomID `json:"share,omitzero"`
	Order uint64          `json:"order,omitempty"`
}

// describeWork writes down the unfinished work of the process.
func (p *process) describeWork() ([]workState, []driver.QueuedCall) {
	left := p.heldWork
	if left == nil {
		left = p.Work.Left()
	}
	var out []workState
	for _, c := range left {
		rule, _ := replay.Look(c.Op)
		w := workState{Op: c.Op, Symbol: rule.Symbol, Thread: c.Thread, Context: uint64(c.Context), In: len(c.In), Done: c.Done, Order: c.Order}
		if c.Gone {
			w.Event, w.EventContext, w.Share = uint64(c.Event), uint64(c.EventContext), c.Share
		}
		out = append(out, w)
	}
	return out, left
}

// queuedCall is the call that was written down, with its message.
func (w *workState) queuedCall(in []byte) driver.QueuedCall {
	return driver.QueuedCall{
		Op: w.Op, Thread: w.Thread, Context: dispatch.Context(w.Context), In: in, Done: w.Done,
		Gone: w.Event != 0, Event: dispatch.Event(w.Event), EventContext: dispatch.Context(w.EventContext),
		Share: w.Share, Order: w.Order,
	}
}

// queueHeldWork queues the work again that restored processes had queued. The calls of a process stay in their order, and so
// do calls with events that processes share, over all processes.
func queueHeldWork(all []*process) {
	for {
		var first *process
		for _, p := range all {
			p.queueEarlierWork(func(h *driver.QueuedCall) bool { return h.Order == 0 })
			if len(p.heldWork) > 0 && (first == nil || p.heldWork[0].Order < first.heldWork[0].Order) {
				first = p
			}
		}
		if first == nil {
			break
		}
		order := first.heldWork[0].Order
		first.queueEarlierWork(func(h *driver.QueuedCall) bool { return h.Order == order })
	}
	for _, p := range all {
		for e := range p.heldWorkEvents {
			p.EventDestroyV2(nil, e)
		}
		p.heldWork, p.heldWorkEvents = nil, nil
	}
}

// queueEarlierWork queues the work of calls from before a restore, up to a call that is not to be made yet.
func (p *process) queueEarlierWork(now func(*driver.QueuedCall) bool) {
	for len(p.heldWork) > 0 && now(&p.heldWork[0]) {
		h := p.heldWork[0]
		p.heldWork = p.heldWork[1:]
		if h.Gone && !p.heldWorkEvents[h.Event] && p.MakeGoneEvent(h.EventContext, h.Event, h.Share) == 0 {
			if p.heldWorkEvents == nil {
				p.heldWorkEvents = map[dispatch.Event]bool{}
			}
			p.heldWorkEvents[h.Event] = true
		}
		c := dispatch.Call{Process: p.ID, Thread: h.Thread, Context: h.Context, First: dispatch.PartialKernel(h.Done), Again: true}
		f := findFacts(h.Op)
		_, r, err := p.carryOutCall(&c, f, h.Op, h.In, nil)
		p.handlePostedResult(&c, f.Symbol, r, err)
	}
}
