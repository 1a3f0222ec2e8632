// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"maps"
	"slices"
)

// cloneBarrier copies a Barrier so that a Step on the copy does not change the original.
func cloneBarrier(b *Barrier) *Barrier {
	n := *b
	n.ranks, n.sides, n.lines = slices.Clone(b.ranks), slices.Clone(b.sides), slices.Clone(b.lines)
	n.meetings, n.changed = slices.Clone(b.meetings), slices.Clone(b.changed)
	n.sideOf, n.comms = maps.Clone(b.sideOf), maps.Clone(b.comms)
	for i := range n.ranks {
		n.ranks[i].sides = slices.Clip(n.ranks[i].sides)
	}
	for c, m := range n.comms {
		n.comms[c] = &group{m.ranks, slices.Clone(m.departed), m.aborted}
	}
	return &n
}

// countsOf turns the numbers of a report into counts.
func countsOf(w *world, r int, m report) []Count {
	var counts []Count
	for i, k := range w.mine[r] {
		if m[i] > 0 {
			counts = append(counts, Count{w.keys[k], uint64(m[i])})
		}
	}
	return counts
}

// hearFrom lets the leader take the first report on its way; w.n is its own node.
func (s *state) hearFrom(w *world, r int) *state {
	n := s.clone()
	m := n.up[r][0]
	n.up[r] = n.up[r][1:]
	who, rest := Rank(r), m[1:len(m)-1]
	if m[0] <= rCallsShut && m[len(m)-1] != s.attempt {
		return n // an answer to an earlier attempt
	}
	switch m[0] {
	case rShut:
		n.stepBarrier(w, Shut{who, countsOf(w, r, rest)})
	case rIssued, rNudged:
		n.stepBarrier(w, Issued{who, countsOf(w, r, rest), m[0] == rNudged})
	case rWithdrawn:
		n.stepBarrier(w, Withdrawn{who, countsOf(w, r, rest)})
	case rReading:
		n.stepBarrier(w, Reading{who, countsOf(w, r, rest)})
	case rDrained:
		n.stepBarrier(w, Drained{who})
	case rCallsShut:
		n.stepBarrier(w, CallsShut{who})
	case rEnded:
		n.stepBarrier(w, Ended{who, countsOf(w, r, rest)})
	case rDied:
		n.stepBarrier(w, Died{who})
	case rCreated:
		n.stepBarrier(w, Created{w.meets[rest[0]].ID})
	case rTold:
		n.toldOf(w, who, stepKind(rest[0]), int(rest[1]), countsOf(w, r, rest[2:]))
	}
	n.calmDown(w)
	return n
}

// toldOf has the leader's node handle a message of host code: the node keeps the
// rendezvous, and begins a creation by itself only while there is no attempt.
func (s *state) toldOf(w *world, who Rank, what stepKind, i int, counts []Count) {
	switch what {
	case destroy:
		c := w.comms[i]
		m := slices.Index(c.Members, who)
		counts = slices.DeleteFunc(counts, func(k Count) bool { return k.Comm != c.Comm })
		s.stepBarrier(w, Destroyed{who, c.Comm, int32(m), counts})
	case abort:
		s.stepBarrier(w, Aborted{w.comms[i].Comm})
	case create:
		m := &s.met[i]
		m.told |= 1 << who
		if m.told != maskOf(w.meets[i].Ranks) {
			return
		}
		m.phase = held
		begun := !s.asked || s.end != underWay
		if begun {
			m.phase = running
		}
		s.stepBarrier(w, Met{w.meets[i], begun})
	}
}

// stepBarrier hands an event to the Barrier and carries out the Barrier's orders.
func (s *state) stepBarrier(w *world, e Event) {
	if s.end != underWay {
		return
	}
	s.b = cloneBarrier(s.b)
	out := s.b.Step(e)
	s.code = encodeBarrier(w, s.b)
	s.carryOut(w, out)
}

func (s *state) carryOut(w *world, out Effects) {
	all := func(o ...byte) {
		for r := range w.n {
			s.sendOrder(r, order(o))
		}
	}
	if out.Shut {
		all(oShut, s.attempt)
	}
	for _, r := range out.Withdraw {
		s.sendOrder(int(r), order(oWithdraw))
	}
	for _, r := range out.Raise {
		o := []byte{oRaise}
		for _, t := range r.Targets {
			o = append(o, byte(w.keyOf[t.Key]), byte(t.N))
		}
		if s.left.wrong == rounds {
			s.heldUp[r.Rank] = order(o)
			continue
		}
		s.sendOrder(int(r.Rank), order(o))
	}
	if s.left.wrong == rounds && s.allReached(w) {
		for r := range w.n {
			if s.heldUp[r] != "" {
				s.sendOrder(r, s.heldUp[r])
				s.sent[r], s.heldUp[r] = s.heldUp[r], ""
			}
		}
	}
	for _, r := range out.Nudge {
		s.sendOrder(int(r), order(oNudge))
	}
	for _, id := range out.Create {
		s.met[slices.IndexFunc(w.meets, func(m Rendezvous) bool { return m.ID == id })].phase = running
	}
	if out.Read {
		all(oRead)
	}
	if out.Drain {
		all(oDrain)
		if s.describeTorn(w) != "" {
			s.verdict = unsafe
		}
	}
	if out.ShutCalls {
		all(oShutCalls)
	}
	switch {
	case out.Cut:
		s.end = cutFound
		if s.describeTorn(w) != "" {
			s.verdict = unsafe
		}
	case out.Failed != nil:
		s.end, s.failure = attemptFailed, out.Failed
		all(oOpen)
		s.beginHeld()
	}
}

// allReached says whether, as far as the leader knows, no rank is below its last target.
func (s *state) allReached(w *world) bool {
	for _, o := range s.sent {
		for i := 1; i < len(o); i += 2 {
			if side, ok := s.b.sideOf[w.keys[o[i]]]; ok && s.b.sides[side].n < uint64(o[i+1]) {
				return false
			}
		}
	}
	return true
}

// newAttempt makes a Barrier and enters the events that the leader's node knows.
func (s *state) newAttempt(w *world) {
	s.attempt++
	s.asked, s.end, s.failure = false, underWay, nil
	known := slices.Clone(w.comms[:w.first])
	for i, m := range s.met {
		if m.phase == finished || i < len(w.meets) && s.left.wrong == arrivedOnly {
			known = append(known, w.meets[i].Makes...)
		}
	}
	s.b = New(w.n, known...)
	for r, gone := range s.gone {
		if gone && len(s.up[r]) == 0 { // else the leader hears of the end later
			s.stepBarrier(w, Ended{Rank(r), countsOf(w, r, s.reportOf(w, r))})
		}
	}
	for i, m := range s.met {
		if m.phase == running && s.left.wrong != arrivedOnly {
			s.stepBarrier(w, Met{w.meets[i], true})
		}
	}
	s.code = encodeBarrier(w, s.b)
}

// beginHeld begins the creations that were held at a rendezvous: the attempt is over.
func (s *state) beginHeld() {
	for i := range s.met {
		if s.met[i].phase == held {
			s.met[i].phase = running
		}
	}
}
