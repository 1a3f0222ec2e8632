// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "slices"

// phase is the progress of an attempt. The order is that of an attempt without trouble.
type phase int

const (
	idle     phase = iota // Start has not come
	closing               // gates are being shut
	chasing               // ranks that are behind catch up; nudges
	reading               // all counts are equal: are they still equal when read again?
	draining              // operations in flight end
	sealing               // the second gate, that of all calls, shuts
	found                 // the cut
	failed
)

// String names the action that the ranks are asked for in the phase.
func (p phase) String() string {
	return [...]string{
		"nothing", "the order to shut the gate", "the call to catch up", "the second reading",
		"the order to drain", "the order to shut all calls", "nothing", "nothing",
	}[p]
}

// rank has the facts that the Barrier knows of a Rank.
type rank struct {
	sides       []int // its numbers, indices of Barrier.sides
	behind      int   // how many of them are below the maximum of their line
	dirty       bool  // its targets changed since its last Raise
	shut        bool  // its gate is shut
	ended       bool
	holds       bool // may hold a permission that equal counts do not use up
	withdrawing int  // unanswered Withdraws
	owes        bool // owes an answer to the phase's request to all ranks
}

// meeting is a rendezvous that is complete: held, or begun and not yet finished.
type meeting struct {
	Rendezvous
	begun bool
}

// Barrier is a single attempt to find a cut of a job. The leader of the attempt has it. A Barrier
// is not safe for concurrent use. The zero value is not usable; see New.
type Barrier struct {
	phase    phase
	ranks    []rank
	unshut   int // ranks with a gate that is not known to be shut
	unrevoke int // unanswered Withdraws of all ranks
	owing    int // ranks that owe an answer to the phase's request
	meetings []meeting
	issueCounts
}

// New returns a Barrier over the ranks 0 … n-1, n ≥ 1, and the existing communicators; their
// members are among these ranks. Ranks that ended, communicators that were destroyed or broken
// and creations on the way are entered by Steps before that of Start.
func New(n int, comms ...Communicator) *Barrier {
	b := &Barrier{ranks: make([]rank, n), unshut: n, issueCounts: newIssueCounts()}
	for _, c := range comms {
		b.enterComm(c)
	}
	return b
}

// Step takes an event and returns what to do next. After Cut or Failed it returns no effects;
// another attempt needs another Barrier.
func (b *Barrier) Step(e Event) Effects {
	var out Effects
	if b.phase >= found {
		return out
	}
	if f := b.takeEvent(e, &out); f != nil {
		b.phase = failed
		return Effects{Failed: f}
	}
	b.decideNext(&out)
	return out
}

// takeEvent enters an event. It decides only the effects that follow from this event alone.
func (b *Barrier) takeEvent(e Event, out *Effects) *Failure {
	switch e := e.(type) {
	case Start:
		if b.phase == idle {
			b.phase, out.Shut = closing, true
		}
	case Met:
		for _, c := range e.Rendezvous.Makes {
			b.enterComm(c)
		}
		b.meetings = append(b.meetings, meeting{e.Rendezvous, e.Begun})
	case Created:
		b.meetings = slices.DeleteFunc(b.meetings, func(m meeting) bool { return m.ID == e.ID })
	case Aborted:
		b.abortComm(e.Comm, out)
	case Tick:
		b.allowStep(out)
	case Deadline:
		return b.overdueFailure()
	default:
		return b.takeReport(e)
	}
	return nil
}

// takeReport enters the counts that a rank reports.
func (b *Barrier) takeReport(e Event) *Failure {
	who, counts := splitReport(e)
	if who < 0 || int(who) >= len(b.ranks) {
		return brokenReport(who, "does not exist")
	}
	r := &b.ranks[who]
	if r.ended {
		return nil
	}
	if f := b.enterCounts(who, counts); f != nil {
		return f
	}
	switch e := e.(type) {
	case Shut:
		b.gateShut(r)
	case Issued:
		if e.Nudge {
			r.holds = false
		}
	case Withdrawn:
		if r.withdrawing > 0 {
			r.withdrawing--
			b.unrevoke--
			r.holds = r.withdrawing > 0
		}
	case Reading:
		b.noteAnswer(r, reading)
	case Drained:
		b.noteAnswer(r, draining)
	case CallsShut:
		b.noteAnswer(r, sealing)
	case Stuck:
		return &Failure{Why: RankStuck, Text: listOf("rank", []Rank{who}) + " cannot be captured: " + e.Reason, Ranks: []Rank{who}}
	case Died:
		return &Failure{Why: RankDied, Text: listOf("rank", []Rank{who}) + " died", Ranks: []Rank{who}}
	case Destroyed:
		return b.leaveComm(who, e.Comm, e.Member)
	case Ended:
		return b.endRank(who)
	}
	return nil
}

// splitReport returns the rank that reports an event, and the counts in the report, or nil if the
// report has no counts.
func splitReport(e Event) (Rank, []Count) {
	switch e := e.(type) {
	case Shut:
		return e.Rank, e.Counts
	case Issued:
		return e.Rank, e.Counts
	case Withdrawn:
		return e.Rank, e.Counts
	case Reading:
		return e.Rank, e.Counts
	case Ended:
		return e.Rank, e.Counts
	case Destroyed:
		return e.Rank, e.Counts
	case Drained:
		return e.Rank, nil
	case CallsShut:
		return e.Rank, nil
	case Stuck:
		return e.Rank, nil
	case Died:
		return e.Rank, nil
	}
	return 0, nil // no report
}

// gateShut notes that the gate of a rank is shut.
func (b *Barrier) gateShut(r *rank) {
	if !r.shut {
		r.shut = true
		b.unshut--
	}
}

// noteAnswer notes the answer of a rank to the request of phase p to all ranks.
func (b *Barrier) noteAnswer(r *rank, p phase) {
	if b.phase == p && r.owes {
		r.owes = false
		b.owing--
	}
}

// endRank notes that a rank issues no more operations. The rank owes no answer and holds no permission.
func (b *Barrier) endRank(who Rank) *Failure {
	r := &b.ranks[who]
	b.gateShut(r)
	b.noteAnswer(r, b.phase)
	b.unrevoke -= r.withdrawing
	r.withdrawing, r.holds, r.ended = 0, false, true
	return b.finishSides(r.sides)
}

// abortComm forgets the counts of a broken communicator: no rank has to catch up there.
// Permissions to catch up there are withdrawn; otherwise the ranks could go on for ever.
func (b *Barrier) abortComm(c Comm, out *Effects) {
	for _, who := range b.dropComm(c) {
		if b.phase == chasing && !b.ranks[who].ended {
			b.withdrawPermissions(who, out)
			b.noteChange(who) // the rank gets new targets for its other communicators
		}
	}
}

// withdrawPermissions takes every permission from a rank.
func (b *Barrier) withdrawPermissions(who Rank, out *Effects) {
	b.ranks[who].holds = true
	b.ranks[who].withdrawing++
	b.unrevoke++
	out.Withdraw = append(out.Withdraw, who)
}

// decideNext decides the effects that follow from all events so far.
func (b *Barrier) decideNext(out *Effects) {
	if b.phase == closing && b.unshut == 0 {
		b.phase = chasing
	}
	if b.phase == chasing {
		b.raiseTargets(out)
		b.beginCreations(out, func(m meeting) bool {
			return slices.ContainsFunc(m.Ranks, func(r Rank) bool { return b.ranks[r].behind > 0 })
		})
		if b.isLevel(out) {
			b.phase = reading
			b.askRanks(out)
		}
	}
	for b.phase >= reading && b.phase < found && b.owing == 0 {
		b.phase++
		b.askRanks(out)
	}
}

// raiseTargets tells the ranks their targets if these changed.
func (b *Barrier) raiseTargets(out *Effects) {
	slices.Sort(b.changed)
	for _, who := range b.changed {
		r := &b.ranks[who]
		r.dirty = false
		if targets := b.targetsOf(r); len(targets) > 0 {
			out.Raise = append(out.Raise, Raise{who, targets})
		}
	}
	b.changed = b.changed[:0]
}

// beginCreations begins each held creation m for which which(m) is true.
func (b *Barrier) beginCreations(out *Effects, which func(meeting) bool) {
	for i, m := range b.meetings {
		if !m.begun && which(m) {
			b.meetings[i].begun = true
			out.Create = append(out.Create, m.ID)
		}
	}
}

// allowStep lets every rank go a step further than the counts ask for, because the host code of a
// rank that is behind waits for a rank that is not behind. A rank that may go anyway gets no
// nudge, and no rank gets one while an answer is due.
func (b *Barrier) allowStep(out *Effects) {
	if b.phase != chasing || b.lag == 0 || b.unrevoke > 0 || slices.ContainsFunc(b.meetings, func(m meeting) bool { return m.begun }) {
		return
	}
	for i := range b.ranks {
		if r := &b.ranks[i]; !r.ended && !r.holds {
			r.holds = true
			out.Nudge = append(out.Nudge, Rank(i))
		}
	}
	b.beginCreations(out, func(meeting) bool { return true })
}

// isLevel says whether all counts are equal and must stay so: no creation is on the way, and no
// rank holds a permission that the rank could still use. isLevel withdraws such permissions.
func (b *Barrier) isLevel(out *Effects) bool {
	if b.lag > 0 || slices.ContainsFunc(b.meetings, func(m meeting) bool { return m.begun }) {
		return false
	}
	for i := range b.ranks {
		if r := &b.ranks[i]; r.holds && r.withdrawing == 0 {
			b.withdrawPermissions(Rank(i), out)
		}
	}
	return b.unrevoke == 0
}

// askRanks sends all ranks the request of the phase that has just begun.
func (b *Barrier) askRanks(out *Effects) {
	switch b.phase {
	case reading:
		out.Read = true
	case draining:
		out.Drain = true
	case sealing:
		out.ShutCalls = true
	case found:
		out.Cut = true
		return
	}
	for i := range b.ranks {
		if r := &b.ranks[i]; !r.ended {
			r.owes = true
			b.owing++
		}
	}
}
