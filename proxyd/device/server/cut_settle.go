// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// How many of the issued collectives are carried out before a cut: a rank that has given a collective to its
// communicator waits for all other ranks, so they have to give theirs, whatever work of theirs is before it. All other
// collectives are kept back. Each process tells the leader the number of collectives that it keeps back (cut.Pending),
// the leader tells each process how many of them it may keep back, the least number over all ranks (cut.Order.Limit),
// and when every process is quiet with that, the cut holds (cut.Order.Stay).
//
// Work that has begun may need the program: a stream waits until the program says that a function of the host has
// returned, which is a call. So the calls of a process that does not become quiet pass the gate again for a while.

// settlingProcess is a process that keeps its collectives back until the leader has found how far all go.
type settlingProcess struct {
	a            *cutAttempt
	g            *gatedProcess
	p            *process
	paused       bool          // its spaces are paused, and their unfinished work can be saved
	tries        int           // failed attempts to hold the spaces, one after the other
	worked       time.Duration // how long work goes on after the last of these
	since        time.Time
	shut         time.Time     // since when the process's calls have not passed
	patience     time.Duration // how long the calls do not pass while the process is not quiet
	lastReported *cut.Event    // the last event of which the leader was told
	news         chan struct{} // has an item when the parts that the process keeps back have changed
	changed      func()        // puts the item into news
}

const (
	shortPause = 20 * time.Millisecond // the first wait for work that has begun
	mostTries  = 3                     // failed attempts, until work seems to wait for a collective that is kept back
	passPart   = 8                     // calls pass for this part of the time for which they did not
)

// settleProcess brings a process with its gates shut to rest, and again whenever other ranks need more collectives of
// the process. settleProcess returns with the attempt.
func (a *cutAttempt) settleProcess(p *process) {
	g := a.findGate(p.ID)
	if g == nil {
		return
	}
	news := make(chan struct{}, 1)
	st := &settlingProcess{
		a: a, g: g, p: p, since: time.Now(), shut: time.Now(), patience: firstTry,
		news: news, changed: func() { wakeReader(news) },
	}
	p.KeepParts(st.changed)
	for look := firstLook; a.ctx.Err() == nil && !p.IsGone(); look = min(2*look, shortPause) {
		st.stepTowardsQuiet()
		var again <-chan time.Time
		if !st.paused {
			st.reportUnquiet()
			if time.Since(st.shut) > st.patience {
				st.letCallsPass()
				continue
			}
			again = time.After(max(look, st.worked))
		}
		select {
		case <-news:
		case <-again:
		case <-a.ctx.Done():
		}
	}
}

// letCallsPass opens the gate of the process's calls for a while, each time for longer, and returns when the gate is
// shut and no call is under way. If calls do not end, they may wait for collectives: then none is kept back meanwhile.
func (st *settlingProcess) letCallsPass() {
	p := st.p
	for rested := false; !rested && st.a.ctx.Err() == nil && !p.IsGone(); {
		p.Interrupt.End()
		p.Limit.SetShut(false)
		_ = p.Ring.Open(wire.Calls) // fails for a process that is gone, which does not matter
		st.reportWhile(st.patience/passPart, func(ctx context.Context) bool {
			<-ctx.Done()
			return false
		})
		p.Interrupt.Begin()
		p.Limit.SetShut(true)
		_ = p.Ring.Shut(wire.Calls)
		if rested = st.reportWhile(st.patience, func(ctx context.Context) bool { return p.restCalls(ctx) == nil }); !rested {
			p.ReleaseParts()
		}
		st.patience = min(2*st.patience, longTry)
	}
	p.KeepParts(st.changed)
	st.shut = time.Now()
	st.a.reportUnsavable()
}

// reportWhile calls step, again and again for most at the longest, until step returns true: the result. Each call of
// step has a short time. In between the leader is told what the process keeps back, for calls may wait for other ranks.
func (st *settlingProcess) reportWhile(most time.Duration, step func(ctx context.Context) bool) (done bool) {
	for end := time.Now().Add(most); !done && st.a.ctx.Err() == nil && time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(st.a.ctx, min(shortPause, time.Until(end)))
		done = step(ctx)
		cancel()
		st.a.reportWithheldCounts(st.g, st.p.PartsLeft().Counts, false, &st.lastReported)
		st.reportUnquiet()
	}
	return done
}

// stepTowardsQuiet takes the steps that are possible now to make the process quiet.
func (st *settlingProcess) stepTowardsQuiet() {
	left := st.p.PartsLeft()
	switch {
	case left.Needs:
		st.thawWork()
		st.p.GiveParts()
	case !left.Idle:
		st.thawWork()
	case !st.paused:
		st.holdWork()
	}
	st.a.reportWithheldCounts(st.g, left.Counts, st.paused, &st.lastReported)
}

// thawWork undoes holdWork.
func (st *settlingProcess) thawWork() {
	st.paused, st.tries, st.worked = false, 0, 0
	st.p.ThawParts()
	st.p.ResumeWork()
}

// pauseAfter is how long the spaces are paused after so many failed attempts to hold them. No block of a kernel begins
// in a pause: a pause has to be longer than the blocks that have begun.
func pauseAfter(tries int) time.Duration {
	const mostDoublings = 8 // which is beyond longTry
	return min(shortPause<<min(tries, mostDoublings), longTry)
}

// holdWork pauses the process's spaces if their unfinished work can be saved. If that fails again and again, then work
// has to be done that seems to wait for a collective.
func (st *settlingProcess) holdWork() {
	p := st.p
	if !p.FreezeParts() {
		return
	}
	began := time.Now()
	limit := began.Add(pauseAfter(st.tries))
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, firstLook) {
		p.PutBack()
		if p.PauseWork() {
			st.paused = p.WorkIsHeld() && p.Settled() == nil
			break
		}
		if time.Now().After(limit) || p.IsGone() || !st.waitInPause(pause) {
			break
		}
	}
	if st.paused {
		p.Output.Flush(st.a.ctx)
		return
	}
	tries, held := st.tries+1, time.Since(began)
	st.thawWork()
	st.tries, st.worked = tries, held
	if tries > mostTries {
		p.GiveParts()
	}
}

// waitInPause waits for a while during a pause; false if the pause has to end, because another rank needs a collective of
// the process, or the attempt is over.
func (st *settlingProcess) waitInPause(d time.Duration) bool {
	select {
	case <-st.news:
		wakeReader(st.news) // settleProcess has to know as well
		if st.p.PartsLeft().Needs {
			return false
		}
	default:
	}
	return pauseFor(st.a.ctx, d)
}

// reportUnquiet tells the leader now and then that the process is not quiet.
func (st *settlingProcess) reportUnquiet() {
	if time.Since(st.since) > obstacleAfter {
		st.since = time.Now()
		st.a.reportObstacle(st.g, "its devices have work that does not end and cannot be held")
	}
}

// reportParts tells the leader the parts that processes keep back while their calls still pass: no part is kept back on
// purpose.
func (a *cutAttempt) reportParts(all []*process) {
	for _, p := range all {
		if g := a.findGate(p.ID); g != nil {
			var none *cut.Event
			a.reportWithheldCounts(g, p.PartsLeft().Counts, false, &none)
		}
	}
}

// reportWithheldCounts tells the leader the counts that a process keeps back, unless the last report was the same.
func (a *cutAttempt) reportWithheldCounts(g *gatedProcess, counts []barrier.Count, quiet bool, last **cut.Event) {
	slices.SortFunc(counts, func(x, y barrier.Count) int {
		return cmp.Or(cmp.Compare(x.Comm, y.Comm), cmp.Compare(x.Member, y.Member), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Peer, y.Peer))
	})
	e := &cut.Event{Kind: cut.Pending, Counts: counts, Quiet: quiet}
	if was := *last; was != nil && was.Quiet == quiet && slices.Equal(was.Counts, counts) {
		return
	}
	*last = e
	a.reportProcessEvent(g, *e)
}
