// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// How long a space stays mapped while another one has work.
const (
	leastTurn = 500 * time.Microsecond // even if it does nothing: its streams must wake up
	turn      = 10 * time.Millisecond  // then its work and its process's ring are held
	longest   = 100 * time.Millisecond // then they go on for another turn: what is held may be what the work waits for
	lookAgain = 100 * time.Millisecond // for work that nobody told of
)

// TimeSlices says whose space of a device of the backend is mapped: those of all processes, and of all of the job's devices that are
// on it. While there is only one it stays mapped. Else who has work gets its turn,
// one after the other; a space whose work waits for others, in a collective, gives way at once.
type TimeSlices struct {
	mu      sync.Mutex
	spaces  []*Space // in the order of their turns
	holder  *Space   // that is mapped, or nil
	since   time.Time
	held    *Process // whose ring is held, or nil
	running bool
	news    chan struct{}
	counts  TurnCounts
}

// TurnCounts is what the turns on a device have cost so far.
type TurnCounts struct {
	Switches    uint64        // between spaces
	Took        time.Duration // for that, with the bytes that were moved
	Interrupted uint64        // of the switches, those away from a space that had more work to do
}

// Counts is what the turns have cost so far, and how many spaces take turns now.
func (t *TimeSlices) Counts() (TurnCounts, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts, len(t.spaces)
}

// join has a space take part.
func (t *TimeSlices) join(s *Space) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.news == nil {
		t.news = make(chan struct{}, 1)
	}
	t.spaces = append(t.spaces, s)
	if t.holder == nil {
		t.give(s)
	}
	if len(t.spaces) > 1 && !t.running {
		t.running = true
		go t.run()
	}
}

// leave ends that; end closes the space.
func (t *TimeSlices) leave(s *Space, end func()) {
	t.mu.Lock()
	for i, o := range t.spaces {
		if o == s {
			t.spaces = append(t.spaces[:i:i], t.spaces[i+1:]...)
			break
		}
	}
	t.mu.Unlock()
	end()
	t.mu.Lock()
	if t.holder == s {
		t.release()
		t.holder = nil
		if len(t.spaces) > 0 {
			t.give(t.spaces[0])
		}
	}
	t.mu.Unlock()
	t.tell()
}

// IsEmpty tells whether no space takes part.
func (t *TimeSlices) IsEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.spaces) == 0 && t.holder == nil
}

// tell has somebody look whose turn it is.
func (t *TimeSlices) tell() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// give maps a space, or has it go on, unless it is nil or paused. The caller holds mu.
func (t *TimeSlices) give(s *Space) {
	if s != nil && !s.paused && s.Map() == nil {
		t.holder, t.since = s, time.Now()
	}
}

// release lets the ring of the holder go on. The caller holds mu.
func (t *TimeSlices) release() {
	if t.held != nil {
		t.held.release()
		t.held = nil
	}
}

// run makes turns while there is more than one space.
func (t *TimeSlices) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-t.news:
		case <-timer.C:
		}
		t.mu.Lock()
		if len(t.spaces) < 2 && t.holder != nil {
			if t.held != nil {
				t.release()
				t.give(t.holder)
			}
			t.running = false
			t.mu.Unlock()
			return
		}
		timer.Reset(t.step(time.Now()))
		t.mu.Unlock()
	}
}

// step does what is due and returns when to look again. The caller holds mu.
func (t *TimeSlices) step(now time.Time) time.Duration {
	if t.holder == nil {
		for _, s := range t.spaces {
			if t.holder == nil {
				t.give(s)
			}
		}
		return leastTurn
	}
	next := t.next()
	if next == nil {
		if t.held != nil {
			t.release()
			t.give(t.holder)
		}
		return lookAgain
	}
	spent := now.Sub(t.since)
	if spent < leastTurn {
		return leastTurn - spent
	}
	began := time.Now()
	err := t.holder.Unmap()
	switch {
	case err == nil || errors.Is(err, backend.NotMapped):
		t.counts.Switches++
		if t.held != nil {
			t.counts.Interrupted++
		}
		t.release()
		t.holder = nil
		t.give(next)
		t.counts.Took += time.Since(began)
		return leastTurn
	case spent > turn+longest:
		t.release()
		t.give(t.holder)
	case spent > turn && t.held == nil:
		t.holder.Hold()
		t.held = t.holder.process
		t.held.hold()
	}
	return leastTurn
}

// Expired is done from the start.
var Expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// next is the first after the holder that has work. The caller holds mu.
func (t *TimeSlices) next() *Space {
	at := 0
	for i, s := range t.spaces {
		if s == t.holder {
			at = i + 1
		}
	}
	for i := range t.spaces {
		s := t.spaces[(at+i)%len(t.spaces)]
		if s != t.holder && !s.paused && s.Drain(Expired) != nil {
			return s
		}
	}
	return nil
}

// pause has a space give way and stay away until resume, as soon as its work can be interrupted: true when it is not mapped.
func (t *TimeSlices) pause(s *Space) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.paused = true
	if t.holder != s {
		return true
	}
	s.Pause()
	if s.Unmap() != nil {
		return false
	}
	t.release()
	t.holder = nil
	t.give(t.next())
	return true
}

// resume undoes pause.
func (t *TimeSlices) resume(s *Space) {
	t.mu.Lock()
	if s.paused {
		s.paused = false
		if t.holder == nil || t.holder == s {
			t.give(s)
		}
	}
	t.mu.Unlock()
	t.tell()
}

// tellFor is tell, if a space is not mapped.
func (t *TimeSlices) tellFor(s *Space) {
	t.mu.Lock()
	waiting := t.holder != s
	t.mu.Unlock()
	if waiting {
		t.tell()
	}
}
