// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// label names a move, for a trace.
type label struct {
	what  string
	which int
	text  string
}

func (l label) String() string { return fmt.Sprintf("%s %d %q", l.what, l.which, l.text) }

// move is a single step that the model can take next.
type move struct {
	label
	to *state
}

// nextMoves returns all moves that are possible in a state.
func (s *state) nextMoves(w *world) []move {
	if s.end == cutFound {
		return nil
	}
	var out []move
	add := func(to *state, what string, which int, text string) {
		if to != nil {
			out = append(out, move{label{what, which, text}, to})
		}
	}
	for t, th := range w.threads {
		switch at := s.stepAt(w, t); {
		case at == nil:
		case at.kind == issue:
			add(s.issueAt(w, t), "issue", int(th.rank), "")
		case at.kind == create && s.left.wrong == arrivedOnly:
			add(s.arriveWrongly(w, int(th.rank), at.comm), "arrive", int(th.rank), "")
		}
	}
	for r := range w.n {
		if len(s.down[r]) > 0 {
			add(s.obeyOrder(w, r), "obey", r, string(s.down[r][0]))
		}
		if slices.Contains(w.exits, Rank(r)) && !s.gone[r] && !s.dead[r] && s.hasEnded(w, r) {
			add(s.exitRank(w, r), "exit", r, "")
		}
	}
	for r := range w.n + 1 {
		if len(s.up[r]) > 0 {
			add(s.hearFrom(w, r), "hear", r, string(s.up[r][0]))
		}
	}
	for i := range w.meets {
		if s.met[i].phase == running {
			add(s.endCreation(w, i), "created", i, "")
		}
	}
	if !s.asked {
		n := s.clone()
		n.asked = true
		n.stepBarrier(w, Start{})
		add(n, "request", 0, "")
		return out
	}
	if s.end != underWay {
		if s.left.again {
			n := s.clone()
			n.left.again = false
			n.newAttempt(w)
			add(n, "again", 0, "")
		}
		return out
	}
	if quiet := len(out) == 0; !s.left.noTicks && (quiet || s.left.spurious > 0) {
		n := s.clone()
		n.stepBarrier(w, Tick{})
		if !quiet {
			n.left.spurious--
		}
		if n.code != s.code {
			add(n, "tick", 0, "")
		}
	}
	return append(out, s.disturbances(w)...)
}

// disturbances returns the disturbances that are possible at any moment.
func (s *state) disturbances(w *world) []move {
	var out []move
	if s.left.deadline {
		n := s.clone()
		n.left.deadline = false
		n.stepBarrier(w, Deadline{})
		n.calmDown(w)
		out = append(out, move{label{what: "deadline"}, n})
	}
	for r := 0; s.left.dies && r < w.n; r++ {
		if s.gone[r] {
			continue
		}
		n := s.clone()
		n.left.dies, n.dead[r], n.down[r] = false, true, nil
		n.tellLeader(r, report(rDied))
		out = append(out, move{label{"dies", r, ""}, n})
	}
	if s.left.lost {
		n := s.clone()
		n.left.lost, n.end = false, leaderLost
		for r := range w.n {
			n.sendOrder(r, order(oOpen)) // a member opens its gates by itself
		}
		n.beginHeld()
		n.calmDown(w)
		out = append(out, move{label{what: "leader lost"}, n})
	}
	return out
}

// hasEnded says whether all threads of a rank have ended.
func (s *state) hasEnded(w *world, r int) bool {
	for t, th := range w.threads {
		if int(th.rank) == r && s.stepAt(w, t) != nil {
			return false
		}
	}
	return true
}

func (s *state) exitRank(w *world, r int) *state {
	n := s.clone()
	n.gone[r], n.down[r], n.gates[r], n.late[r] = true, nil, Gate{}, false
	n.tellLeader(r, report(rEnded)+n.reportOf(w, r))
	return n
}

// endCreation ends a creation: its members go on, the leader will hear of the end.
func (s *state) endCreation(w *world, i int) *state {
	n := s.clone()
	n.met[i].phase = finished
	n.tellLeader(w.n, report([]byte{rCreated, byte(i)}))
	n.calmDown(w)
	return n
}

// arriveWrongly enters a creation in the wrong way: it lets the creation begin with the ranks that
// are there, as for any operation.
func (s *state) arriveWrongly(w *world, r, i int) *state {
	if s.met[i].arrived&(1<<r) != 0 || s.sealed[r] {
		return nil
	}
	n := s.clone()
	if ok, _ := n.mayPass(w, r, nil); !ok {
		return nil
	}
	m := &n.met[i]
	m.arrived |= 1 << r
	m.phase = running
	if m.arrived == maskOf(w.meets[i].Ranks) {
		m.phase = finished
	}
	n.calmDown(w)
	return n
}

// lastVerdict returns the verdict on a state in which no move is possible.
func (s *state) lastVerdict(w *world, r rules) verdict {
	switch {
	case s.end == cutFound:
		return ok
	case s.end == underWay:
		return stuck
	case s.end == attemptFailed && !s.isExcused(r):
		return refused
	}
	// The attempt was abandoned: the job must have run on.
	for i, g := range s.gates[:w.n] {
		if (g.shut || s.sealed[i]) && !s.dead[i] && !s.gone[i] {
			return stuck
		}
	}
	if !slices.Contains(s.dead[:], true) && (!s.isOver(w) || s.describeTorn(w) != "") {
		return stuck
	}
	return ok
}

// isExcused says whether the failure of an attempt is honest: a disturbance did happen, and the
// failure names it.
func (s *state) isExcused(r rules) bool {
	switch s.failure.Why {
	case DeadlinePassed:
		return r.deadline && !s.left.deadline
	case RankDied:
		return len(s.failure.Ranks) == 1 && s.dead[s.failure.Ranks[0]]
	case RankEnded:
		// Honest only where a rank that other ranks count on cannot come any more.
		return slices.Contains(s.dead[:], true)
	}
	return false
}

// result is the outcome of exploring a program.
type result struct {
	verdict
	states int
	trace  []label
}

// exploreAll looks at every state that a program can reach under the rules. The result is ok
// only if no state is wrong, no state can be entered twice on a single path, and each state
// without a further move is a cut, or an honest failure after which the job ran on. So every
// path, however things interleave, comes to one of these.
func exploreAll(w *world, r rules, limit int) result {
	e := explorer{world: w, rules: r, limit: limit, seen: make(map[[2]uint64]bool), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	v := e.visitState(newState(w, r))
	slices.Reverse(e.trace)
	return result{v, len(e.seen), e.trace}
}

type explorer struct {
	*world
	rules
	limit int
	seen  map[[2]uint64]bool // true once all states that follow were seen
	seeds [2]maphash.Seed
	trace []label
	buf   []byte
}

func (e *explorer) visitState(s *state) verdict {
	if s.verdict != "" {
		return s.verdict
	}
	e.buf = s.encodeState(e.world, e.buf[:0])
	key := [2]uint64{maphash.Bytes(e.seeds[0], e.buf), maphash.Bytes(e.seeds[1], e.buf)}
	if over, known := e.seen[key]; known {
		if !over {
			return endless
		}
		return ok
	}
	if len(e.seen) >= e.limit {
		return tooBig
	}
	e.seen[key] = false
	moves := s.nextMoves(e.world)
	if len(moves) == 0 {
		if v := s.lastVerdict(e.world, e.rules); v != ok {
			return v
		}
	}
	for _, m := range moves {
		if v := e.visitState(m.to); v != ok {
			e.trace = append(e.trace, m.label)
			return v
		}
	}
	e.seen[key] = true
	return ok
}

// encodeState returns all that distinguishes a state from other states.
func (s *state) encodeState(w *world, to []byte) []byte {
	flag := func(bs ...bool) {
		for _, b := range bs {
			to = append(to, bitOf(b))
		}
	}
	to = append(to, s.pcs[:len(w.threads)]...)
	to = append(to, s.counts[:len(w.keys)]...)
	to = append(to, s.done[:len(w.keys)]...)
	to = append(to, s.mail[:]...)
	flag(s.dead[:]...)
	flag(s.gone[:]...)
	flag(s.broken[:]...)
	flag(s.sealed[:]...)
	flag(s.late[:]...)
	for _, it := range s.flight {
		to = append(to, it.thread, it.pc, it.done)
		to = append(to, it.seq[:]...)
	}
	to = append(to, 0xff)
	for _, m := range s.met[:len(w.meets)] {
		to = append(to, m.arrived, m.told, m.phase)
	}
	for i, g := range s.gates[:w.n] {
		flag(g.shut, g.nudge)
		for _, t := range g.targets {
			to = append(to, byte(w.keyOf[t.Key]), byte(t.N))
		}
		to = append(to, 0xff)
		for _, o := range s.down[i] {
			to = append(append(to, o...), 0xff)
		}
		to = append(append(append(append(to, 0xfe), s.heldUp[i]...), 0xfe), s.sent[i]...)
	}
	for _, q := range s.up[:w.n+1] {
		for _, m := range q {
			to = append(append(to, m...), 0xff)
		}
		to = append(to, 0xfe)
	}
	flag(s.asked, s.left.deadline, s.left.dies, s.left.lost)
	flag(s.left.again)
	to = append(to, byte(s.end), byte(s.left.spurious), s.attempt)
	to = append(to, s.member[:]...)
	return append(to, s.code...)
}

func bitOf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// encodeBarrier returns all that a Barrier knows. In which order the Barrier came to know its lines
// makes no difference to its behaviour.
func encodeBarrier(w *world, b *Barrier) string {
	to := []byte{byte(b.phase), byte(b.unshut), byte(b.owing), byte(b.unrevoke), byte(b.lag)}
	for _, r := range b.ranks {
		to = append(to, byte(r.behind), bitOf(r.dirty)|bitOf(r.shut)<<1|bitOf(r.ended)<<2|bitOf(r.holds)<<3|bitOf(r.owes)<<4, byte(r.withdrawing))
	}
	for _, k := range w.keys {
		s, known := b.sideOf[k]
		if !known {
			to = append(to, 0xff)
			continue
		}
		to = append(to, byte(b.sides[s].n), bitOf(b.sides[s].final))
	}
	for _, c := range w.comms {
		if m := b.comms[c.Comm]; m != nil {
			for _, l := range m.departed {
				to = append(to, bitOf(l))
			}
			to = append(to, bitOf(m.aborted))
		}
		to = append(to, 0xfe)
	}
	for _, m := range b.meetings {
		to = append(to, byte(m.ID), bitOf(m.begun))
	}
	return string(to)
}
