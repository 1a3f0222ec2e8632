// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// How many of the issued collectives are carried out before a cut: a rank that has given a collective to its
// communicator waits for all other ranks, so they have to give theirs, whatever work of theirs is before it. All other
// collectives are kept back. Each process tells the leader the number of collectives that it keeps back (cut.Pending),
// the leader tells each process how many of them it may keep back, the least number over all ranks (cut.Order.Limit),
// and when every process is quiet with that, the cut holds (cut.Order.Stay).

// settlingProcess is a process that keeps its collectives back until the leader has found how far all go.
type settlingProcess struct {
	a            *cutAttempt
	g            *gatedProcess
	p            *process
	paused       bool // its spaces are paused, and their unfinished work can be saved
	tries        int  // failed attempts to hold the spaces, one after the other
	since        time.Time
	lastReported *cut.Event // the last event of which the leader was told
}

const (
	shortPause = 20 * time.Millisecond  // the first wait for work that has begun
	longPause  = 200 * time.Millisecond // the longest wait
	mostTries  = 3                      // failed attempts, until work seems to wait for a collective that is kept back
)

// settleProcess brings a process with its gates shut to rest, and again whenever other ranks need more collectives of
// the process. settleProcess returns with the attempt.
func (a *cutAttempt) settleProcess(p *process) {
	a.s.cuts.mu.Lock()
	g := a.gates[p.ID]
	a.s.cuts.mu.Unlock()
	if g == nil {
		return
	}
	st := &settlingProcess{a: a, g: g, p: p, since: time.Now()}
	news := make(chan struct{}, 1)
	p.KeepParts(func() { wakeReader(news) })
	for look := firstLook; a.ctx.Err() == nil && !p.IsGone(); look = min(2*look, shortPause) {
		st.stepTowardsQuiet()
		var again <-chan time.Time
		if !st.paused {
			again = time.After(look)
			st.reportUnquiet()
		}
		select {
		case <-news:
		case <-again:
		case <-a.ctx.Done():
		}
	}
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
	st.paused, st.tries = false, 0
	st.p.ThawParts()
	st.p.ResumeWork()
}

// holdWork pauses the process's spaces if their unfinished work can be saved. If that fails again and again, then work
// has to be done that seems to wait for a collective.
func (st *settlingProcess) holdWork() {
	p := st.p
	if !p.FreezeParts() {
		return
	}
	limit := time.Now().Add(min(shortPause<<st.tries, longPause))
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, firstLook) {
		p.PutBack()
		if p.PauseWork() {
			st.paused = p.WorkIsHeld() && p.Settled() == nil
			break
		}
		if time.Now().After(limit) || !pauseFor(st.a.ctx, pause) {
			break
		}
	}
	if st.paused {
		p.Output.Flush(st.a.ctx)
		return
	}
	tries := st.tries + 1
	st.thawWork()
	if st.tries = tries; tries > mostTries {
		p.GiveParts()
	}
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
		a.s.cuts.mu.Lock()
		g := a.gates[p.ID]
		a.s.cuts.mu.Unlock()
		if g != nil {
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
