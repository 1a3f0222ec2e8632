// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// How long a space stays mapped while another space has work.
const (
	// All of a space's work waits for other ranks, in a collective. In a moment the work may go on: the collective is
	// over just now.
	meetingGap = 200 * time.Microsecond
	// A space has no work, and its program may be about to queue some. To wait for as long as a switch takes, or would on a real device,
	// is never twice as bad as the best choice.
	leastGap, mostGap = 2 * time.Millisecond, 20 * time.Millisecond
	// The turn of a program among independent programs; longer where a switch takes its time.
	turn = 10 * time.Millisecond
	// Ranks that meet in collectives wait for the last of them in any case. A turn ends where they meet; this time ends
	// a turn if a rank works for long in between, so that programs which are more than their collectives go on.
	meetingTurn = time.Second
	// A turn takes at least so many times as long as a switch does, and at most meetingTurn.
	turnPerSwitch = 20
	// When a turn is over, no new work begins. Work under way may wait for work that is held, so after this time all
	// work goes on for another turn.
	longest = 100 * time.Millisecond
	// The obstacle to a switch is looked at again after this time, where no event tells of the change.
	retry = time.Millisecond
)

// never is when to look again if each change comes with an event.
const never time.Duration = -1

// TimeSlices decides which space of a device of the backend is mapped, of the spaces of all processes and of all of the
// job's devices on that device. While there is only one space it stays mapped. Else a space keeps its turn until it is
// idle: its program has queued no work, or all of its queued work waits for other spaces, in a collective as a rule.
// Then the next space that has work has its turn.
type TimeSlices struct {
	news chan struct{} // has an item when a step may be due

	mu        sync.Mutex
	spaces    []*Space // in the order of their turns
	holder    *Space   // that is mapped, or nil
	since     time.Time
	idleSince time.Time // when the holder was first seen without work; zero while the holder has some
	held      *Process  // the process with the held ring, or nil
	heldSince time.Time
	running   bool
	meetings  map[*Space]map[string]int // the communicators that have a rank in a space, by name
	counts    TurnCounts
}

// NewTimeSlices makes the turns of a device.
func NewTimeSlices() *TimeSlices {
	return &TimeSlices{news: make(chan struct{}, 1), meetings: map[*Space]map[string]int{}}
}

// TurnCounts counts the switches on a device so far, and their time.
type TurnCounts struct {
	Switches    uint64        // between spaces
	Took        time.Duration // for that, with the bytes that were moved
	Interrupted uint64        // the switches away from a space that had more work to do
}

// Counts returns the counts so far, and how many spaces take turns now.
func (t *TimeSlices) Counts() (TurnCounts, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts, len(t.spaces)
}

// addSpace has a space take part. The caller holds mu.
func (t *TimeSlices) addSpace(s *Space) {
	t.spaces = append(t.spaces, s)
	if t.holder == nil {
		t.giveTurn(s)
	}
	if len(t.spaces) > 1 && !t.running {
		t.running = true
		go t.runTurns()
	}
}

// removeSpace takes a space off the list, if it is there. The caller holds mu.
func (t *TimeSlices) removeSpace(s *Space) {
	if at := slices.Index(t.spaces, s); at >= 0 {
		t.spaces = append(t.spaces[:at:at], t.spaces[at+1:]...)
	}
}

// meetsInCommunicator tells whether two spaces have ranks of the same communicator. The caller holds mu.
func (t *TimeSlices) meetsInCommunicator(a, b *Space) bool {
	for name := range t.meetings[a] {
		if t.meetings[b][name] > 0 {
			return true
		}
	}
	return false
}

// IsEmpty tells whether no space takes part.
func (t *TimeSlices) IsEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.spaces) == 0 && t.holder == nil
}

// wakeRunner makes runTurns look for the next turn. The caller may hold any lock.
func (t *TimeSlices) wakeRunner() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// giveTurn maps a space, or lets a space go on, unless s is nil or must stay unmapped. The caller holds mu.
func (t *TimeSlices) giveTurn(s *Space) {
	if s != nil && !s.mustStayUnmapped() && s.Map() == nil {
		t.holder, t.since, t.idleSince = s, time.Now(), time.Time{}
	}
}

// releaseHolder lets the ring of the holder go on. The caller holds mu.
func (t *TimeSlices) releaseHolder() {
	if t.held != nil {
		t.held.releaseRing()
		t.held = nil
	}
}

// resumeHolder lets the holder go on, if it was held. The caller holds mu.
func (t *TimeSlices) resumeHolder() {
	if t.held != nil {
		t.releaseHolder()
		t.giveTurn(t.holder)
	}
}

// runTurns makes turns while there is more than one space.
func (t *TimeSlices) runTurns() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-t.news:
		case <-timer.C:
		}
		t.mu.Lock()
		if len(t.spaces) < 2 && t.holder != nil {
			t.resumeHolder()
			t.running = false
			t.mu.Unlock()
			return
		}
		timer.Stop()
		if wait := t.stepTurns(time.Now()); wait != never {
			timer.Reset(wait)
		}
		t.mu.Unlock()
	}
}

// stepTurns takes the steps that are due and returns when to look again. The caller holds mu.
func (t *TimeSlices) stepTurns(now time.Time) time.Duration {
	if t.holder == nil {
		return t.beginTurn()
	}
	state := t.holder.Work()
	works := state == backend.Runnable
	switch {
	case works:
		t.idleSince = time.Time{}
	case t.idleSince.IsZero():
		t.idleSince = now
	}
	next := t.nextSpace()
	if next == nil {
		t.resumeHolder()
		return never
	}
	if !works {
		gap := meetingGap
		if state == backend.Idle {
			gap = min(max(leastGap, t.switchTime()), mostGap)
		}
		if idle := now.Sub(t.idleSince); idle < gap {
			return gap - idle
		}
		if t.changeHolder(next, false) {
			return 0
		}
		return retry
	}
	spent, most := now.Sub(t.since), t.turnOf(next)
	switch {
	case spent < most:
		return most - spent
	case t.held == nil:
		t.holder.Hold()
		t.held, t.heldSince = t.holder.process, now
		t.held.holdRing()
	case now.Sub(t.heldSince) >= longest:
		t.resumeHolder()
		return 0
	}
	if t.changeHolder(next, true) {
		return 0
	}
	return longest - now.Sub(t.heldSince) // or when the work under way has come to its end
}

// beginTurn gives the device to a space that may have it, while no space has it. beginTurn returns when to look again.
// The caller holds mu.
func (t *TimeSlices) beginTurn() time.Duration {
	wait := never // an event tells when the space may be mapped again
	for _, s := range t.spaces {
		if t.holder == nil && !s.mustStayUnmapped() {
			wait = retry
			t.giveTurn(s)
		}
	}
	if t.holder != nil {
		return 0
	}
	return wait
}

// turnOf is how long the holder's turn is while another space has work. The caller holds mu.
func (t *TimeSlices) turnOf(next *Space) time.Duration {
	if t.meetsInCommunicator(t.holder, next) {
		return meetingTurn
	}
	return min(max(turn, turnPerSwitch*t.switchTime()), meetingTurn)
}

// switchTime is how long a switch takes on the whole. The caller holds mu.
func (t *TimeSlices) switchTime() time.Duration {
	if t.counts.Switches == 0 {
		return 0
	}
	return t.counts.Took / time.Duration(t.counts.Switches)
}

// changeHolder maps another space instead of the holder; false if the holder has work under way. works: the holder has more
// to do. The caller holds mu.
func (t *TimeSlices) changeHolder(next *Space, works bool) bool {
	began := time.Now()
	if err := t.holder.Unmap(); err != nil && !errors.Is(err, backend.NotMapped) {
		return false
	}
	t.counts.Switches++
	if works {
		t.counts.Interrupted++
	}
	t.releaseHolder()
	t.holder = nil
	t.giveTurn(next)
	t.counts.Took += time.Since(began)
	return true
}

// Expired is a context that is done from the start.
var Expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// nextSpace is the first space after the holder that has work: of the spaces that meet the holder in no communicator,
// because they have waited for a turn, else of all. The caller holds mu.
func (t *TimeSlices) nextSpace() *Space {
	at := 0
	for i, s := range t.spaces {
		if s == t.holder {
			at = i + 1
		}
	}
	var first *Space
	for i := range t.spaces {
		s := t.spaces[(at+i)%len(t.spaces)]
		if s == t.holder || s.mustStayUnmapped() || s.Work() != backend.Runnable {
			continue
		}
		if !t.meetsInCommunicator(t.holder, s) {
			return s
		}
		if first == nil {
			first = s
		}
	}
	return first
}

// unmapIdleSpace unmaps a space that must stay unmapped, as soon as its work can be interrupted, and gives the device to
// the next space: true when the space is not mapped. The caller holds mu.
func (t *TimeSlices) unmapIdleSpace(s *Space) bool {
	if t.holder != s {
		return true
	}
	s.Pause()
	if s.Unmap() != nil {
		return false
	}
	t.releaseHolder()
	t.holder = nil
	t.giveTurn(t.nextSpace())
	t.wakeRunner()
	return true
}

// returnTurn gives a space that rested its turn, unless another space has the turn. The caller holds mu.
func (t *TimeSlices) returnTurn(s *Space) {
	if t.holder == nil || t.holder == s {
		t.giveTurn(s)
	}
}
