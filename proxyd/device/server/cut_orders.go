// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// applyCutOrder carries out an order, in the sequence of its fields.
func (s *Server) applyCutOrder(number uint64, o *cut.Order) error {
	s.cuts.mu.Lock()
	defer s.cuts.mu.Unlock()
	a, err := s.findAttempt(number)
	if err == nil && a.ctx.Err() != nil {
		err = cut.ErrForgotten
	}
	if err != nil {
		return err
	}
	if o.Shut {
		a.shutGates()
	}
	for _, id := range o.Withdraw {
		a.withLiveProcess(id, a.withdrawPermissions)
	}
	for _, r := range o.Raise {
		a.withLiveProcess(r.Process, func(g *gatedProcess) {
			g.gate.Raise(r.Targets)
			a.reportNewCounts(g)
		})
	}
	for _, id := range o.Nudge {
		a.withLiveProcess(id, func(g *gatedProcess) {
			g.gate.Nudge()
			a.reportNewCounts(g)
		})
	}
	for _, c := range o.Create {
		closeOnce(a.creationChannel(c))
	}
	if o.Read {
		a.readCounts()
	}
	if o.Drain {
		for _, g := range a.gates {
			a.work.Go(func() { a.drainProcess(g) })
		}
	}
	for _, l := range o.Limit {
		a.withLiveProcess(l.Process, func(g *gatedProcess) { g.p.LimitParts(l.Targets) })
	}
	if o.ShutCalls {
		a.work.Go(func() { a.stillProcesses(o.Keep) })
	}
	if o.Stay {
		a.work.Go(a.reportCutHeld)
	}
	return nil
}

// withLiveProcess calls do for a process that has not ended.
func (a *cutAttempt) withLiveProcess(id uint64, do func(g *gatedProcess)) {
	if g := a.gates[id]; g != nil && !g.over {
		do(g)
	}
}

// obstacleAfter is how long a process may take to become quiet before the leader is told why it does not.
const obstacleAfter = time.Second

// drainProcess waits until no counted message of a process is in flight. For the work that the messages have queued see
// settleProcess.
func (a *cutAttempt) drainProcess(g *gatedProcess) {
	g.p.Limit.BeginCut() // the messages may be behind calls for which the streams have no room
	pause, said := 50*time.Microsecond, time.Now()
	for {
		t, err := g.p.Ring.Tally()
		if err != nil {
			return // its end is reported
		}
		handled := g.p.Handled.Load()
		if handled == t.Messages {
			break
		}
		if time.Since(said) > obstacleAfter {
			said = time.Now()
			a.reportObstacle(g, fmt.Sprintf("%d collectives or messages are not begun", t.Messages-handled))
		}
		select {
		case <-time.After(pause):
		case <-a.ctx.Done():
			return
		}
		pause = min(2*pause, 2*time.Millisecond)
	}
	a.reportProcessEvent(g, cut.Event{Kind: cut.Drained})
}

// reportObstacle tells the leader the reason why a process does not become quiet.
func (a *cutAttempt) reportObstacle(g *gatedProcess, why string) {
	if full := g.p.Limit.Reason(); full != "" && full != why {
		why += "; " + full
	}
	a.reportProcessEvent(g, cut.Event{Kind: cut.Obstacle, Reason: why})
}

// reportFullStreams tells the leader of an attempt, if there is one, that a process has queued more than it may.
func (k *cutKeeper) reportFullStreams(p *process) {
	k.mu.Lock()
	a := k.now
	k.mu.Unlock()
	if a == nil {
		return
	}
	g, why := a.findGate(p.ID), p.Limit.Reason()
	if g != nil && why != "" {
		a.reportObstacle(g, why)
	}
}

// reportProcessEvent tells the leader an event of a process, unless the process has ended.
func (a *cutAttempt) reportProcessEvent(g *gatedProcess, e cut.Event) {
	a.s.cuts.mu.Lock()
	defer a.s.cuts.mu.Unlock()
	if !g.over && a.ctx.Err() == nil {
		e.Process = g.p.ID
		a.addEvent(e)
	}
}

// stillProcesses shuts the gate of all calls, again and again until no call is under way. keep: the leader says how
// many of the issued collectives are carried out before the cut, else all of them are.
func (a *cutAttempt) stillProcesses(keep bool) {
	s := a.s
	rest := (*process).waitUntilQuiet
	if keep {
		rest = (*process).restCalls
	}
	for try := firstTry; ; try = min(2*try, longTry) {
		all := s.allProcesses()
		err := s.tryCut(a.ctx, all, try, rest)
		hopeless := (err == nil || try >= obstacleAfter) && a.reportUnsavable()
		if err == nil && !hopeless {
			break
		}
		s.openGates(all)
		if hopeless {
			return
		}
		if try >= obstacleAfter {
			a.explainFailure(err)
		}
		if keep {
			a.reportParts(all)
		}
		select {
		case <-time.After(pauseBetweenTries):
		case <-a.ctx.Done():
			return
		}
	}
	close(a.sealed)
	if keep {
		for _, p := range s.allProcesses() {
			a.work.Go(func() { a.settleProcess(p) })
		}
		return
	}
	a.reportCutHeld()
}

// reportCutHeld tells the leader that the cut holds at this server.
func (a *cutAttempt) reportCutHeld() {
	s := a.s
	select {
	case <-a.sealed:
	case <-a.ctx.Done():
		return
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.cuts.mu.Lock()
	defer s.cuts.mu.Unlock()
	if a.ctx.Err() != nil {
		return // concludeAttempt opens the gates
	}
	s.state.stopped, a.holds = true, true
	for _, g := range a.gates {
		if !g.over {
			a.addEvent(cut.Event{Kind: cut.CallsShut, Process: g.p.ID})
		}
	}
	a.addEvent(cut.Event{Kind: cut.Still})
}

// reportUnsavable tells the leader of each process that cannot be saved. found: there is such a process, and the leader
// looks no further for a cut.
func (a *cutAttempt) reportUnsavable() (found bool) {
	for _, p := range a.s.allProcesses() {
		if why := p.whyNotSavable(); why != "" {
			found = true
			if g := a.findGate(p.ID); g != nil {
				a.reportProcessEvent(g, cut.Event{Kind: cut.Stuck, Reason: why})
			}
		}
	}
	return found
}

// explainFailure tells why an attempt to stop all processes has failed.
func (a *cutAttempt) explainFailure(err error) {
	all, is := err.(interface{ Unwrap() []error }) //nolint:errorlint // what tryCut joins, process by process
	if !is {
		return
	}
	for _, err := range all.Unwrap() {
		if r, is := err.(*unquietError); is { //nolint:errorlint // likewise
			if g := a.findGate(r.process); g != nil {
				a.reportObstacle(g, r.what)
			}
		}
	}
}

// unquietError is the reason why a process that was to be quiet still has calls or work under way.
type unquietError struct {
	process uint64
	pid     int
	what    string
	err     error
}

func (r *unquietError) Error() string { return fmt.Sprintf("process %d: %s: %v", r.pid, r.what, r.err) }
func (r *unquietError) Unwrap() error { return r.err }

// contextOfSave returns the context of a save at the cut of an attempt. The context ends with the attempt, and with
// ctx. If that cut does not hold, or if number is 0 and an attempt is under way, the result is an error. The caller
// holds state.mu, and calls the returned function after the save.
func (s *Server) contextOfSave(ctx context.Context, number uint64) (context.Context, func(), error) {
	s.cuts.mu.Lock()
	defer s.cuts.mu.Unlock()
	if number == 0 {
		if s.cuts.now != nil {
			return nil, nil, fmt.Errorf("an attempt at a cut is under way: %w", cut.ErrBusy)
		}
		return ctx, func() {}, nil
	}
	a, err := s.findAttempt(number)
	if err == nil && !a.holds {
		err = fmt.Errorf("attempt %d has not found its cut", number)
	}
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.ctx, func() { cancel(fmt.Errorf("attempt %d: %w", number, cut.ErrForgotten)) })
	return ctx, func() { stop(); cancel(nil) }, nil
}
