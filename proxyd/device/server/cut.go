// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// cutKeeper is a server's part of cuts that a leader finds for all of a job's servers. One lock guards a cutKeeper and
// its attempt.
type cutKeeper struct {
	mu         sync.Mutex
	last       uint64      // the highest attempt that was heard of
	now        *cutAttempt // nil: no attempt is under way
	departures []departure // members that were given up, while other members of their communicators may still be there
}

// maxDepartures is how many of the members that were given up are remembered.
const maxDepartures = 1 << 14

// cutAttempt is an attempt at a cut that was opened and not forgotten.
type cutAttempt struct {
	s      *Server
	number uint64
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines that end with ctx

	// Guarded by cutKeeper.mu.
	until   time.Time // the end of the time without a word of the leader
	expiry  *time.Timer
	heard   uint64 // how many events the leader has
	events  []cut.Event
	news    chan struct{} // closed, and replaced, when there is another event
	gates   map[uint64]*gatedProcess
	created map[barrier.Comm]chan struct{} // closed when arriving processes may go on
	holds   bool                           // the cut of the attempt holds
	sealed  chan struct{}                  // closed when the calls' gates are shut: see settleProcess
}

// Exchange is the server's side of cut.Member, the leader's poll: Exchange carries out the orders, and waits for events
// that the leader has not heard.
func (s *Server) Exchange(ctx context.Context, o *cut.Orders) (*cut.Events, error) {
	for i := range o.Do {
		if o.Do[i].Forget {
			s.cuts.forgetPast(o.Do[i].Past)
			return s.abandonAttempt(o.Attempt), nil
		}
		if o.Do[i].Open {
			if err := s.openAttempt(o); err != nil {
				return nil, err
			}
		}
		if err := s.applyCutOrder(o.Attempt, &o.Do[i]); err != nil {
			return nil, err
		}
	}
	timer := time.NewTimer(o.Wait)
	defer timer.Stop()
	for {
		e, news, err := s.unheardEvents(o)
		if err != nil || len(e.List) > 0 || o.Wait <= 0 {
			return e, err
		}
		select {
		case <-news:
		case <-timer.C:
			return e, nil
		case <-ctx.Done():
			return e, nil
		}
	}
}

// findAttempt finds the attempt by the leader's number. The caller holds cuts.mu.
func (s *Server) findAttempt(number uint64) (*cutAttempt, error) {
	if a := s.cuts.now; a != nil && a.number == number {
		return a, nil
	}
	return nil, fmt.Errorf("attempt %d: %w", number, cut.ErrForgotten)
}

// mostEvents is how many events go into an answer.
const mostEvents = 256

// unheardEvents are the events that the leader has not heard, and a channel that is closed when there are more.
// unheardEvents begins the LeaderTimeout anew.
func (s *Server) unheardEvents(o *cut.Orders) (*cut.Events, <-chan struct{}, error) {
	s.cuts.mu.Lock()
	defer s.cuts.mu.Unlock()
	a, err := s.findAttempt(o.Attempt)
	if err != nil {
		return nil, nil, err
	}
	a.until = time.Now().Add(o.LeaderTimeout)
	a.expiry.Reset(o.LeaderTimeout)
	if o.Heard < a.heard || o.Heard-a.heard > uint64(len(a.events)) {
		return nil, nil, fmt.Errorf("attempt %d: event %d is asked for, of %d from %d", a.number, o.Heard, len(a.events), a.heard)
	}
	a.events = a.events[o.Heard-a.heard:]
	a.heard = o.Heard
	list := a.events[:min(len(a.events), mostEvents):min(len(a.events), mostEvents)]
	return &cut.Events{Next: a.heard + uint64(len(list)), List: list}, a.news, nil
}

// addEvent adds an event, unless the attempt is over. The caller holds cuts.mu.
func (a *cutAttempt) addEvent(e cut.Event) {
	if a.s.cuts.now != a {
		return
	}
	a.events = append(a.events, e)
	close(a.news)
	a.news = make(chan struct{})
}

// openAttempt begins an attempt: no process is attached from here on, and processes that arrive to make a communicator
// are held.
func (s *Server) openAttempt(o *cut.Orders) error {
	s.cuts.mu.Lock()
	old := s.cuts.now
	late := o.Attempt <= s.cuts.last
	if !late {
		s.cuts.last = o.Attempt
	}
	s.cuts.mu.Unlock()
	if late {
		return fmt.Errorf("attempt %d: %w", o.Attempt, cut.ErrForgotten)
	}
	if old != nil {
		s.abandonAttempt(old.number)
	}
	if !s.state.mu.TryLock() {
		return cut.ErrBusy
	}
	defer s.state.mu.Unlock()
	if s.state.stopped || s.state.awaits || s.ctx.Err() != nil {
		return cut.ErrBusy
	}
	s.state.admission.Lock()
	all := s.allProcesses()
	s.cuts.mu.Lock()
	defer s.cuts.mu.Unlock()
	a := &cutAttempt{
		s: s, number: o.Attempt, until: time.Now().Add(o.LeaderTimeout), news: make(chan struct{}), gates: map[uint64]*gatedProcess{},
		created: map[barrier.Comm]chan struct{}{}, sealed: make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancel(s.ctx)
	a.expiry = time.AfterFunc(o.LeaderTimeout, a.expireAttempt)
	s.cuts.now = a
	e := cut.Event{Kind: cut.Opened}
	for _, p := range all {
		if p.endIsReported {
			continue // only its departures are left
		}
		e.Processes = append(e.Processes, cut.Process{ID: p.ID, PID: p.PID()})
		a.gates[p.ID] = &gatedProcess{p: p, news: make(chan struct{}, 1)}
		e.Places = append(e.Places, a.openPlaces(p.ncclCalls)...)
	}
	gone := map[uint64]bool{}
	for _, d := range s.cuts.departures {
		e.Places = append(e.Places, d.Place)
		if a.gates[d.Process] == nil && !gone[d.Process] {
			gone[d.Process] = true
			e.Processes = append(e.Processes, cut.Process{ID: d.Process, PID: d.pid, Ended: true})
		}
	}
	a.addEvent(e)
	a.work.Go(func() { a.reportUnsavable() })
	return nil
}

// expireAttempt forgets the attempt if its LeaderTimeout has passed: the leader is lost.
func (a *cutAttempt) expireAttempt() {
	a.s.cuts.mu.Lock()
	over := !time.Now().Before(a.until)
	a.s.cuts.mu.Unlock()
	if over {
		a.s.cfg.Log.Warn("the leader of an attempt at a cut is lost: the job goes on", "attempt", a.number)
		a.s.abandonAttempt(a.number)
	}
}

// abandonAttempt opens all gates and lets all held processes go on, if the attempt is still there; the attempt is not
// taken up again in any case. abandonAttempt returns the events that the leader may not have heard.
func (s *Server) abandonAttempt(number uint64) *cut.Events {
	s.cuts.mu.Lock()
	s.cuts.last = max(s.cuts.last, number)
	a, _ := s.findAttempt(number)
	if a != nil {
		a.cancel() // this also ends a save
	}
	s.cuts.mu.Unlock()
	if a == nil {
		return &cut.Events{}
	}
	a.work.Wait()
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if s.state.stopped && s.ctx.Err() == nil {
		regroupStopped(s)
	}
	return s.concludeAttempt(a, true)
}

// concludeAttempt is the end of an attempt after the end of its goroutines. open: its gates open, because the rings
// are still this server's. The caller holds state.mu.
func (s *Server) concludeAttempt(a *cutAttempt, open bool) *cut.Events {
	a.cancel()
	s.cuts.mu.Lock()
	defer s.cuts.mu.Unlock()
	if s.cuts.now != a {
		return &cut.Events{} // another goroutine was faster
	}
	s.cuts.now = nil
	a.expiry.Stop()
	if open {
		for _, g := range a.gates {
			g.openGate()
		}
	}
	for _, c := range a.created {
		closeOnce(c)
	}
	close(a.news)
	s.state.stopped = false
	if open {
		s.openGates(s.allProcesses())
	}
	s.state.admission.Unlock()
	return &cut.Events{Next: a.heard + uint64(len(a.events)), List: a.events}
}

// currentAttempt is the attempt at a cut that is under way, or nil.
func (s *Server) currentAttempt() *cutAttempt {
	s.cuts.mu.Lock()
	defer s.cuts.mu.Unlock()
	return s.cuts.now
}

// closeOnce closes a channel that may be closed.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
