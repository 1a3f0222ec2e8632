// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// scriptedSpace is a space with the work that the test says.
type scriptedSpace struct {
	backend.Space
	state backend.WorkState
	busy  bool // the space cannot be unmapped now
	held  bool
}

func (s *scriptedSpace) Map() error              { s.held = false; return nil }
func (s *scriptedSpace) Hold()                   { s.held = true }
func (s *scriptedSpace) Work() backend.WorkState { return s.state }

func (s *scriptedSpace) Unmap() error {
	if s.busy {
		return backend.NotReady
	}
	return nil
}

// turnRig is the turns of a device, with spaces, and a clock that the test moves.
type turnRig struct {
	*testing.T
	turns  *TimeSlices
	spaces []*Space
	script []*scriptedSpace
	now    time.Time
}

func newTurnRig(t *testing.T, spaces int) *turnRig {
	r := &turnRig{T: t, turns: NewTimeSlices()}
	r.turns.running = true // the test steps
	for range spaces {
		script := &scriptedSpace{}
		s := &Space{Space: script, process: New(context.Background(), Config{}), Device: &Device{at: Place{TimeSlices: r.turns}}}
		s.turns.Store(r.turns)
		s.joinTurns()
		r.spaces, r.script = append(r.spaces, s), append(r.script, script)
	}
	r.now = r.turns.since
	return r
}

// moveClock moves the clock and checks which space has the device then.
func (r *turnRig) moveClock(later time.Duration, want int) time.Duration {
	r.Helper()
	r.now = r.now.Add(later)
	wait := r.turns.stepTurns(r.now)
	if r.turns.holder != r.spaces[want] {
		r.Fatalf("space %d does not have the device", want)
	}
	r.turns.since = earlierOf(r.turns.since, r.now) // give looks at the clock
	return wait
}

func earlierOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (r *turnRig) setStates(states ...backend.WorkState) {
	for i, s := range states {
		r.script[i].state = s
	}
}

// TestTurnEnds: a space keeps the device while there is work, and a moment longer; the turns do not look while no event
// can change anything.
func TestTurnEnds(t *testing.T) {
	r := newTurnRig(t, 3)
	r.setStates(backend.Idle, backend.Idle, backend.Waiting)
	if wait := r.moveClock(0, 0); wait != never {
		t.Errorf("no space has work, and the turns look again after %v", wait)
	}
	r.setStates(backend.Runnable, backend.Idle, backend.Runnable)
	r.spaces[0].EnterMeeting("all")
	r.spaces[2].EnterMeeting("all")
	if wait := r.moveClock(5*turn, 0); wait != meetingTurn-5*turn {
		t.Errorf("a rank that works is looked at again after %v", wait)
	}
	r.setStates(backend.Waiting)
	if wait := r.moveClock(0, 0); wait != meetingGap {
		t.Errorf("while the holder's work waits in a collective, the turns look again in %v, want meetingGap", wait)
	}
	r.setStates(backend.Runnable) // the collective was over just then
	r.moveClock(meetingGap, 0)
	r.setStates(backend.Waiting)
	r.moveClock(0, 0)
	r.moveClock(meetingGap, 2)
	r.setStates(backend.Runnable, backend.Idle, backend.Idle)
	if wait := r.moveClock(0, 2); wait != leastGap {
		t.Errorf("a space without work is looked at again after %v", wait)
	}
	r.moveClock(leastGap, 0)
	if n, _ := r.turns.Counts(); n.Switches != 2 || n.Interrupted != 0 {
		t.Errorf("after leastGap, the counts of the turns are %+v, want 2 switches and no interrupted turn", n)
	}
}

// TestTurnIsTaken: independent programs interrupt each other, also a program that had the device for a long time
// before; the program that waits first is not passed over by programs that meet the holder.
func TestTurnIsTaken(t *testing.T) {
	r := newTurnRig(t, 3)
	r.spaces[0].EnterMeeting("pair")
	r.spaces[1].EnterMeeting("pair")
	r.setStates(backend.Runnable, backend.Runnable, backend.Runnable)
	r.script[0].busy = true
	if wait := r.moveClock(time.Minute, 0); wait != longest || !r.script[0].held {
		t.Fatalf("held %t, looks again after %v", r.script[0].held, wait)
	}
	r.moveClock(longest/2, 0)
	r.moveClock(longest/2, 0) // the space's work may wait for work that is held
	if r.script[0].held {
		t.Error("a space is held for ever")
	}
	r.turns.since = r.now
	r.moveClock(turn/2, 0)
	if r.script[0].held {
		t.Error("a space is held before its turn is over")
	}
	r.moveClock(turn, 0)
	r.script[0].busy = false
	r.moveClock(0, 2)
	if n, _ := r.turns.Counts(); n.Switches != 1 || n.Interrupted != 1 {
		t.Errorf("counts of the turns are %+v, want 1 switch and 1 interrupted turn", n)
	}
	r.spaces[0].LeaveMeeting("pair")
	r.spaces[0].LeaveMeeting("pair")
	if r.turns.meetsInCommunicator(r.spaces[1], r.spaces[0]) {
		t.Error("two spaces are said to meet in a communicator that one has left")
	}
}
