// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// WorkLimit decides how much work the streams of a process take. A full stream makes its program wait, as a device does.
// There are two times at which streams take more than that:
//
//   - The gate of all calls is shut. Then the calls in the ring are all that come, and streams take all of them.
//   - A cut is sought. The collectives that other ranks wait for may be behind calls for which the streams have no room.
//     But a thread without collectives may queue without end meanwhile. So there is a limit to what the process queues
//     beyond the work that it had at its first call since the cut was first sought. Beyond the limit its streams are as
//     full as at any other time, and the cut waits for them until its deadline.
//
// The limit keeps no cut from being found that would be found without a limit and with devices that are quick enough:
// full streams get room again as they do in a program of which no cut is sought, because the gate of the counted
// operations passes all that other ranks wait for.
type WorkLimit struct {
	MostPieces uint64 // 0: mostPieces
	MostBytes  int    // 0: mostBytes

	process  *Process
	sought   atomic.Bool // a cut is sought
	measured atomic.Bool // had is known, since the cut was first sought
	calls    atomic.Uint64

	mu        sync.Mutex // guards all below, and the order of the calls of Unlimit
	shut      bool       // the gate of all calls is shut
	full      bool       // the limit was reached since the cut was first sought
	had       queuedAmount
	queuedNow queuedAmount // when the limit was reached
}

// queuedAmount is how much work is queued.
type queuedAmount struct {
	pieces uint64
	bytes  int // of the messages of calls
}

// How much work a process may queue while a cut is sought: some hundreds of megabytes of the server's memory. The amount is
// looked at after so many calls.
const (
	mostPieces = 1 << 18
	mostBytes  = 1 << 28
	lookCalls  = 1 << 9
)

// BeginCut notes that a cut is sought, if no cut was sought before. It waits for no call of the process: its caller has the
// lock of all cuts.
func (l *WorkLimit) BeginCut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sought.Load() {
		return
	}
	l.full = false
	l.measured.Store(false)
	l.sought.Store(true)
	l.applyLimit()
}

// EndCut undoes BeginCut.
func (l *WorkLimit) EndCut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = false
	l.sought.Store(false)
	l.applyLimit()
}

// SetShut notes that the gate of all calls is shut, or is open.
func (l *WorkLimit) SetShut(shut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = shut
	l.applyLimit()
}

// applyLimit sets the limit of all streams. The caller holds mu.
func (l *WorkLimit) applyLimit() {
	for _, s := range l.process.Spaces() {
		s.Unlimit(l.shut || l.sought.Load() && !l.full)
	}
}

// CountCall counts a call that was carried out. full: by this call the limit was reached.
func (l *WorkLimit) CountCall() (full bool) {
	if !l.sought.Load() || l.calls.Add(1)%lookCalls != 0 && l.measured.Load() {
		return false
	}
	now := l.process.measureQueued() // before mu is locked: this may wait for other calls of the process
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full || !l.sought.Load() {
		return false
	}
	if !l.measured.Load() {
		l.had = now
		l.measured.Store(true)
		return false
	}
	pieces, bytes := l.MostPieces, l.MostBytes
	if pieces == 0 {
		pieces = mostPieces
	}
	if bytes == 0 {
		bytes = mostBytes
	}
	if now.pieces <= l.had.pieces+pieces && now.bytes <= l.had.bytes+bytes {
		return false
	}
	l.full, l.queuedNow = true, now
	l.applyLimit()
	return true
}

// Reason says that the process has queued more than it may, or is "".
func (l *WorkLimit) Reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.full {
		return ""
	}
	return fmt.Sprintf("it has queued %d pieces of work, %d of them since the checkpoint was asked for: its streams take no more until work is done",
		l.queuedNow.pieces, l.queuedNow.pieces-min(l.queuedNow.pieces, l.had.pieces))
}

// measureQueued is how much unfinished work the process has.
func (p *Process) measureQueued() (a queuedAmount) {
	for _, st := range p.allStreams() {
		now := st.Backend.Progress()
		a.pieces += now.Given - now.Done
	}
	a.bytes = p.Work.bytesLeft()
	return a
}
