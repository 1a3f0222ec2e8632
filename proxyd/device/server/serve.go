// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/graphs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/modules"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// statusGone is the status of a call that failed through no fault of its own: SING_GONE.
const statusGone = -1

// maxScratch is how much of an answer's room is kept for the next answer.
const maxScratch = 1 << 16

// patience is how long the ring waits for a call that may wait and has not called BeginWait.
const patience = time.Millisecond

// mayWait has the names of the calls that may wait.
var mayWait = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range slices.Concat(driver.ContextWaits, memory.Waits, memory.VMMWaits, memory.CopyWaits, driver.StreamWaits, modules.Waits, graphs.Waits, nccl.Waits) {
		all[name] = true
	}
	return all
}()

// handleMessage carries out a message of the ring. Messages that no shim writes end the process.
func (p *process) handleMessage(m *wire.Message) {
	p.Yield()
	if !p.heard.Load() {
		p.heard.Store(true)
	}
	l, _, err := wire.Open(m, p.Peer.Memory(), nil)
	if err != nil {
		p.endProcess(err.Error())
		return
	}
	switch l.Op {
	case wire.OpMissed, wire.OpExit:
		if l.Op == wire.OpExit {
			p.exits = true
			p.Ring.Finish()
		} else {
			p.noteMissed(string(l.Args))
		}
		if !l.Posted {
			p.answerCall(l, 0, nil, nil)
		}
		return
	}
	f := findFacts(l.Op)
	if f == nil {
		p.endProcess(fmt.Sprintf("it sent a message with the number %#x, which no call has", l.Op))
		return
	}
	in := l.Args
	if m.BulkSize() == 0 && m.Op != wire.OpLong {
		in = p.copyArgs(in, f) // values decoded from in may be kept
	}
	c := p.newCall()
	*c = dispatch.Call{
		Process: p.ID, Thread: l.Thread, Context: dispatch.Context(l.Context), PerThread: l.Op&dispatch.PerThread != 0,
	}
	switch {
	case l.Posted:
		_, r, err := p.carryOutCall(c, f, l.Op, in, nil)
		p.handlePostedResult(c, f.Symbol, r, err)
	case f.mayWait:
		if r, over := p.answerWithoutWait(c, f.Symbol, in); over {
			p.answerCall(l, r, nil, nil)
			break
		}
		p.serveConcurrently(l, c, f, in)
	default:
		out, r, err := p.carryOutCall(c, f, l.Op, in, p.scratch[:0])
		p.answerCall(l, r, out, err)
		if cap(out) > cap(p.scratch) && cap(out) <= maxScratch {
			p.scratch = out
		}
	}
	if m.Counted {
		p.CountHandled()
	}
	p.CheckFault(c.Context)
}

// maxMissedOfProcess is how many features of a process are logged: a process cannot fill the log.
const maxMissedOfProcess = 256

// tellMissed says on the program's standard error, once, that the program wanted a feature that is not covered, in the
// form of the shim's lines.
func (p *process) tellMissed(what string) {
	what = plainText(what)
	p.server.seen.noteMissed(what)
	if p.LogOnce("missed "+what, maxMissedOfProcess) {
		p.Output.PrintText(unix.Stderr, []byte("singularity: "+what+"\n"))
	}
}

// How many calls newCall makes room for at once, and how many bytes copyArgs.
const (
	callsAtOnce = 16
	bytesAtOnce = 1 << 10
)

// newCall returns room for a call, for the ring's goroutine.
func (p *process) newCall() *dispatch.Call {
	if len(p.newCalls) == 0 {
		p.newCalls = make([]dispatch.Call, callsAtOnce)
	}
	c := &p.newCalls[0]
	p.newCalls = p.newCalls[1:]
	return c
}

// copyArgs copies the arguments of a call, for the ring's goroutine. The copies of calls that queue work lie side by side:
// none of them is kept for much longer than the others.
func (p *process) copyArgs(in []byte, f *callFacts) []byte {
	if n := len(in); f.work.isQueued() && n <= bytesAtOnce/4 {
		if cap(p.argsRoom)-len(p.argsRoom) < n {
			p.argsRoom = make([]byte, 0, bytesAtOnce)
		}
		at := len(p.argsRoom)
		p.argsRoom = append(p.argsRoom, in...)
		return p.argsRoom[at : at+n : at+n]
	}
	return bytes.Clone(in)
}

// noteMissed logs once that the program wanted a feature that is not covered.
func (p *process) noteMissed(what string) {
	const longest = 512
	what = strings.ToValidUTF8(what[:min(len(what), longest)], "?")
	if p.LogOnce("missed "+what, maxMissedOfProcess) {
		p.Log.Info("the program makes a call that is not covered", "call", what) // its shim has said so, too
		p.server.seen.noteMissed(plainText(what))
	}
}

// answerWithoutWait returns the result of a call that waits for a context, a stream or an event, and true, if the wait
// would be over at once: then the call needs no goroutine.
func (p *process) answerWithoutWait(c *dispatch.Call, symbol string, in []byte) (dispatch.Result, bool) {
	if !p.Output.IsIdle() {
		return 0, false
	}
	var h uint64
	if len(in) == 8 {
		h = binary.LittleEndian.Uint64(in)
	}
	switch {
	case symbol == "cuCtxSynchronize" && len(in) == 0:
		x, r := p.Current(c)
		if r != 0 {
			return r, true
		}
		return p.queryContext(x)
	case symbol == "cuStreamSynchronize" && len(in) == 8:
		st, r := p.Stream(c, dispatch.Stream(h))
		switch {
		case r != 0:
			return r, true
		case st == st.Context.Legacy: // the call also waits for work of other streams
			return p.queryContext(st.Context)
		}
		return p.queryInsteadOfWait(st.Context, st.Backend.Query())
	case symbol == "cuEventSynchronize" && len(in) == 8:
		e, r := p.Event(dispatch.Event(h))
		if r != 0 {
			return r, true
		}
		return p.queryInsteadOfWait(e.Context, e.Backend.Query())
	}
	return 0, false
}

// queryInsteadOfWait is the result of a wait that would be over at once, as a query tells.
func (p *process) queryInsteadOfWait(x *driver.Context, err error) (dispatch.Result, bool) {
	if backend.ResultOf(err) == backend.NotReady {
		return 0, false
	}
	return p.FinishWait(x, err), true
}

// queryContext is queryInsteadOfWait for a whole context.
func (p *process) queryContext(x *driver.Context) (dispatch.Result, bool) {
	if x.Space.Drain(driver.Expired) != nil {
		return 0, false
	}
	return p.FinishWait(x, x.Backend.Err()), true
}

// serveConcurrently carries a call out on a goroutine of its own. serveConcurrently returns when the call is
// answered, or waits.
func (p *process) serveConcurrently(l *wire.Letter, c *dispatch.Call, f *callFacts, in []byte) {
	moved := make(chan struct{})
	var once sync.Once
	c.Waits = func() { once.Do(func() { close(moved) }) }
	p.calls.Go(func() {
		out, r, err := p.carryOutCall(c, f, l.Op, in, nil)
		if r != 0 && r != driver.Again {
			p.Output.Flush(p.Lifetime) // the program may end by the error, and what it was told about the error would be lost
		}
		p.answerCall(l, r, out, err)
		c.Waits()
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-moved:
	case <-timer.C:
	}
}

// answerCall answers a call with its result. If err is set, or if the result does not fit into the room that the
// process left for the answer, the status is statusGone. An error of that second answer is ignored: the process has ended.
func (p *process) answerCall(l *wire.Letter, r dispatch.Result, out []byte, err error) {
	if err != nil {
		p.refuseMessage(err)
		_ = l.Answer(statusGone, nil)
		return
	}
	if err := l.Answer(int32(r), out); err != nil {
		_ = l.Answer(statusGone, nil) // more than the process left room for, or the process has ended
	}
}

// handlePostedResult takes the result of a posted message.
func (p *process) handlePostedResult(c *dispatch.Call, symbol string, r dispatch.Result, err error) {
	switch {
	case err != nil:
		p.refuseMessage(err)
	case r == 0:
	case strings.HasPrefix(symbol, "nccl"):
		p.logFailedPost(symbol, r) // the communicator keeps r; the numbers are NCCL's
	default:
		x, _ := p.Contexts.Get(c.Context)
		p.FailLater(x, symbol, r)
	}
}

// logFailedPost logs once that a posted call failed.
func (p *process) logFailedPost(symbol string, r dispatch.Result) {
	if p.LogOnce(symbol, 0) {
		p.Log.Warn("a posted call failed", "call", symbol, "result", int32(r))
	}
}

// refuseMessage ends a process that sends a message that its shim cannot have written. Too long an answer is our own
// mistake.
func (p *process) refuseMessage(err error) {
	if errors.Is(err, dispatch.ErrAnswer) {
		p.Log.Error("an answer does not fit", "error", err)
		return
	}
	p.endProcess(err.Error())
}
