// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "slices"

// phase is how far an attempt is. The order is that of an attempt without trouble.
type phase int

const (
	idle     phase = iota // Start has not come
	closing               // gates are being shut
	chasing               // those behind catch up; nudges
	reading               // all counts are equal: are they still?
	draining              // what is in flight ends
	sealing               // the second gate, that of all calls, shuts
	found                 // the cut
	failed
)

// String is what the ranks are asked for in that phase.
func (p phase) String() string {
	return [...]string{
		"nothing", "the order to shut the gate", "the call to catch up", "the second reading",
		"the order to drain", "the order to shut all calls", "nothing", "nothing",
	}[p]
}

// rank is what is known of a Rank.
type rank struct {
	sides       []int // its numbers, indices of Barrier.sides
	behind      int   // how many of them are below the maximum of their line
	dirty       bool  // its targets changed since its last Raise
	shut        bool  // its gate is
	ended       bool
	holds       bool // it may hold a permission that equal counts do not use up
	withdrawing int  // unanswered Withdraws
	owes        bool // an answer to what the phase asks of all
}

// meeting is a rendezvous that is complete: held, or begun and not yet finished.
type meeting struct {
	Rendezvous
	begun bool
}

// Barrier looks for one cut of one job: one attempt. It is kept by the leader. It is
// not safe for concurrent use. The zero value is not usable; see New.
type Barrier struct {
	phase    phase
	ranks    []rank
	unshut   int // ranks whose gate is not known to be shut
	unrevoke int // unanswered Withdraws of all
	owing    int // ranks that owe an answer to what the phase asks
	meetings []meeting
	book
}

// New returns a Barrier over the ranks 0 … n-1, n ≥ 1, and the communicators that there
// are, whose members are among these ranks. Whoever ended, whatever was destroyed or broken and which creations are on the
// way, it is told by Steps before that of Start.
func New(n int, comms ...Communicator) *Barrier {
	b := &Barrier{ranks: make([]rank, n), unshut: n, book: newBook()}
	for _, c := range comms {
		b.enter(c)
	}
	return b
}

// Step takes one event and returns what to do next. After Cut or Failed it returns
// nothing any more; another attempt is another Barrier.
func (b *Barrier) Step(e Event) Effects {
	var out Effects
	if b.phase >= found {
		return out
	}
	if f := b.take(e, &out); f != nil {
		b.phase = failed
		return Effects{Failed: f}
	}
	b.decide(&out)
	return out
}

// take enters what happened. Only what follows from this one event alone is decided here.
func (b *Barrier) take(e Event, out *Effects) *Failure {
	switch e := e.(type) {
	case Start:
		if b.phase == idle {
			b.phase, out.Shut = closing, true
		}
	case Met:
		for _, c := range e.Rendezvous.Makes {
			b.enter(c)
		}
		b.meetings = append(b.meetings, meeting{e.Rendezvous, e.Begun})
	case Created:
		b.meetings = slices.DeleteFunc(b.meetings, func(m meeting) bool { return m.ID == e.ID })
	case Aborted:
		b.abort(e.Comm, out)
	case Tick:
		b.nudge(out)
	case Deadline:
		return b.overdue()
	default:
		return b.hear(e)
	}
	return nil
}

// hear enters what a rank reports.
func (b *Barrier) hear(e Event) *Failure {
	var who Rank
	var counts []Count
	switch e := e.(type) {
	case Shut:
		who, counts = e.Rank, e.Counts
	case Issued:
		who, counts = e.Rank, e.Counts
	case Withdrawn:
		who, counts = e.Rank, e.Counts
	case Reading:
		who, counts = e.Rank, e.Counts
	case Ended:
		who, counts = e.Rank, e.Counts
	case Destroyed:
		who, counts = e.Rank, e.Counts
	case Drained:
		who = e.Rank
	case CallsShut:
		who = e.Rank
	case Stuck:
		who = e.Rank
	case Died:
		who = e.Rank
	}
	if who < 0 || int(who) >= len(b.ranks) {
		return broken(who, "does not exist")
	}
	r := &b.ranks[who]
	if r.ended {
		return nil
	}
	if f := b.count(who, counts); f != nil {
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
		b.answered(r, reading)
	case Drained:
		b.answered(r, draining)
	case CallsShut:
		b.answered(r, sealing)
	case Stuck:
		return &Failure{Why: RankStuck, Text: list("rank", []Rank{who}) + " cannot be captured: " + e.Reason, Ranks: []Rank{who}}
	case Died:
		return &Failure{Why: RankDied, Text: list("rank", []Rank{who}) + " died", Ranks: []Rank{who}}
	case Destroyed:
		return b.leave(who, e.Comm, e.Member)
	case Ended:
		return b.end(who)
	}
	return nil
}

// gateShut notes that the gate of a rank is shut.
func (b *Barrier) gateShut(r *rank) {
	if !r.shut {
		r.shut = true
		b.unshut--
	}
}

// answered notes the answer of a rank to what phase p asks of all.
func (b *Barrier) answered(r *rank, p phase) {
	if b.phase == p && r.owes {
		r.owes = false
		b.owing--
	}
}

// end notes that a rank issues nothing any more. It owes nothing and holds nothing.
func (b *Barrier) end(who Rank) *Failure {
	r := &b.ranks[who]
	b.gateShut(r)
	b.answered(r, b.phase)
	b.unrevoke -= r.withdrawing
	r.withdrawing, r.holds, r.ended = 0, false, true
	return b.finish(r.sides)
}

// abort forgets the counts of a broken communicator: nobody has to catch up there.
// Those who were told to must not use it as a reason to go on for ever.
func (b *Barrier) abort(c Comm, out *Effects) {
	for _, who := range b.drop(c) {
		if b.phase == chasing && !b.ranks[who].ended {
			b.withdraw(who, out)
			b.touch(who) // what it still has to catch up elsewhere it is told anew
		}
	}
}

// withdraw takes every permission from a rank.
func (b *Barrier) withdraw(who Rank, out *Effects) {
	b.ranks[who].holds = true
	b.ranks[who].withdrawing++
	b.unrevoke++
	out.Withdraw = append(out.Withdraw, who)
}

// decide says what follows from all that is known.
func (b *Barrier) decide(out *Effects) {
	if b.phase == closing && b.unshut == 0 {
		b.phase = chasing
	}
	if b.phase == chasing {
		b.raise(out)
		b.begin(out, func(m meeting) bool {
			return slices.ContainsFunc(m.Ranks, func(r Rank) bool { return b.ranks[r].behind > 0 })
		})
		if b.level(out) {
			b.phase = reading
			b.ask(out)
		}
	}
	for b.phase >= reading && b.phase < found && b.owing == 0 {
		b.phase++
		b.ask(out)
	}
}

// raise tells those whose targets changed.
func (b *Barrier) raise(out *Effects) {
	slices.Sort(b.changed)
	for _, who := range b.changed {
		r := &b.ranks[who]
		r.dirty = false
		if targets := b.targets(r); len(targets) > 0 {
			out.Raise = append(out.Raise, Raise{who, targets})
		}
	}
	b.changed = b.changed[:0]
}

// begin begins those of the held creations that are to.
func (b *Barrier) begin(out *Effects, which func(meeting) bool) {
	for i, m := range b.meetings {
		if !m.begun && which(m) {
			b.meetings[i].begun = true
			out.Create = append(out.Create, m.ID)
		}
	}
}

// nudge lets everyone go one step further than the counts ask for: the host code of a
// rank that is behind waits for one that is not. Nothing is nudged that may go anyway,
// or while an answer is due.
func (b *Barrier) nudge(out *Effects) {
	if b.phase != chasing || b.lag == 0 || b.unrevoke > 0 || slices.ContainsFunc(b.meetings, func(m meeting) bool { return m.begun }) {
		return
	}
	for i := range b.ranks {
		if r := &b.ranks[i]; !r.ended && !r.holds {
			r.holds = true
			out.Nudge = append(out.Nudge, Rank(i))
		}
	}
	b.begin(out, func(meeting) bool { return true })
}

// level says whether all counts are equal and must stay so: no creation is on the way, and
// nobody holds a permission that it could still use. It withdraws those that are held.
func (b *Barrier) level(out *Effects) bool {
	if b.lag > 0 || slices.ContainsFunc(b.meetings, func(m meeting) bool { return m.begun }) {
		return false
	}
	for i := range b.ranks {
		if r := &b.ranks[i]; r.holds && r.withdrawing == 0 {
			b.withdraw(Rank(i), out)
		}
	}
	return b.unrevoke == 0
}

// ask asks all ranks for what belongs to the phase that has just begun.
func (b *Barrier) ask(out *Effects) {
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
