// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "slices"

// rules say which disturbances a run of the checker allows, and in which way the barrier is wrong
// on purpose. The zero value is the correct barrier, without disturbances, and with ticks when no
// other move is possible.
type rules struct {
	noTicks  bool // no rank is nudged
	spurious int  // so many ticks come although other moves are possible
	deadline bool // the deadline may pass at any moment
	dies     bool // a rank may die at any moment
	lost     bool // the leader may be lost at any moment
	again    bool // an attempt that failed may be followed by another
	wrong    wrong
}

// wrong is a deliberate mistake. The real Barrier has none of them: the model changes its events
// and effects.
type wrong int

const (
	right       wrong = iota
	exactly           // a rank may issue only where the rank itself is behind
	standing          // a rank's counts are taken only once its threads stand at the gate
	rounds            // targets are raised only when everyone has reached the last targets
	completed         // completed operations are counted instead of issued ones
	noPairs           // sends and receives are not counted
	arrivedOnly       // a creation begins with the ranks that are there
	keepGrants        // nudges are not taken back
)

// order is a message of the leader to a rank: a byte for its kind, and the targets of a Raise as
// pairs of key and number.
type order string

// report is a message of a rank or of the leader's node to the leader: a byte for its kind, as
// many numbers as the rank has keys, in that order, and the number of the attempt.
type report string

const (
	oShut byte = iota
	oWithdraw
	oRaise
	oNudge
	oRead
	oDrain
	oShutCalls
	oOpen

	rShut
	rIssued
	rNudged // issued, by a nudge
	rWithdrawn
	rReading
	rDrained
	rCallsShut
	rEnded
	rDied
	rTold // create, destroy, abort; which
	rCreated
)

// end is the outcome of an attempt.
type end uint8

const (
	underWay end = iota // the attempt did not end
	cutFound
	attemptFailed
	leaderLost
)

// state is a single state of everything: the program, the gates, the messages on the way, and
// the real Barrier.
type state struct {
	job
	gates   [maxRanks]Gate
	sealed  [maxRanks]bool // its call gate is shut
	member  [maxRanks]byte // the attempt of the last order to shut its gate
	late    [maxRanks]bool // standing: the answer to Shut is still due
	down    [maxRanks][]order
	up      [maxRanks + 1][]report // the last is the leader's own node
	b       *Barrier               // never changed, but replaced
	code    string                 // the state of b, as bytes
	attempt byte
	asked   bool
	end     end
	failure *Failure
	left    rules           // the disturbances that may still come
	heldUp  [maxRanks]order // rounds: the Raise not sent yet
	sent    [maxRanks]order // rounds: the last round sent
	verdict verdict         // set if something is wrong in this state
}

// verdict is the checker's judgement of a program.
type verdict string

const (
	ok      verdict = "ok"
	unsafe  verdict = "unsafe"  // a cut with something half-issued, in flight or half-made
	stuck   verdict = "stuck"   // no move is possible, and there is neither cut nor failure
	endless verdict = "endless" // the program can go round for ever
	excess  verdict = "excess"  // a rank issued an operation that consistency did not need
	refused verdict = "refused" // the attempt failed without a reason
	tooBig  verdict = "too big"
)

func newState(w *world, r rules) *state {
	s := &state{left: r}
	s.newAttempt(w)
	s.calmDown(w)
	s.code = encodeBarrier(w, s.b)
	return s
}

func (s *state) clone() *state {
	n := *s
	n.job = s.job.clone()
	return &n
}

func (s *state) sendOrder(r int, o order) {
	if !s.gone[r] && !s.dead[r] {
		s.down[r] = append(slices.Clip(s.down[r]), o)
	}
}

func (s *state) tellLeader(r int, m report) {
	attempt := s.attempt
	if r < maxRanks {
		attempt = s.member[r]
	}
	m += report([]byte{attempt})
	s.up[r] = append(slices.Clip(s.up[r]), m)
}

// reportOf are the counts that a rank reports, in the order of world.mine.
func (s *state) reportOf(w *world, r int) report {
	n := make([]byte, len(w.mine[r]))
	for i, k := range w.mine[r] {
		n[i] = s.countUnder(w, k)
	}
	return report(n)
}

// countUnder returns the number that a rank's shim has counted under a key.
func (s *state) countUnder(w *world, k int) uint8 {
	switch {
	case s.left.wrong == completed:
		return s.done[k]
	case s.left.wrong == noPairs && w.keys[k].Kind != Collective:
		return 0
	}
	return s.counts[k]
}

func (s *state) issued(w *world) func(Key) uint64 {
	return func(k Key) uint64 { return uint64(s.countUnder(w, w.keyOf[k])) }
}

// calmDown carries out all steps that do not concern the barrier, and sends the leader the
// reports that follow from them.
func (s *state) calmDown(w *world) {
	before := s.done
	for _, t := range s.settleJob(w) {
		if t.what == create && s.left.wrong == arrivedOnly {
			s.met[t.comm].arrived &^= 1 << t.rank // the thread has to pass the gate; see nextMoves
			continue
		}
		s.tellLeader(int(t.rank), report([]byte{rTold, byte(t.what), byte(t.comm)})+s.reportOf(w, int(t.rank)))
	}
	for r := range w.n {
		if s.left.wrong == completed && s.gates[r].shut && before != s.done {
			s.tellLeader(r, report(rIssued)+s.reportOf(w, r))
		}
		if s.late[r] && s.standsAtGate(w, r) {
			s.late[r] = false
			s.tellLeader(r, report(rShut)+s.reportOf(w, r))
		}
	}
}

// standsAtGate says whether every thread of a rank is at the gate, or has ended.
func (s *state) standsAtGate(w *world, r int) bool {
	for t, th := range w.threads {
		if at := s.stepAt(w, t); int(th.rank) == r && at != nil && at.kind != issue && at.kind != create {
			return false
		}
	}
	return true
}

// mayPass says whether a thread's next operation gets through the gate of its rank, and
// whether that took a nudge.
func (s *state) mayPass(w *world, r int, keys []int) (ok, nudged bool) {
	g := &s.gates[r]
	if s.left.wrong == exactly && g.shut && !g.nudge {
		for _, k := range keys {
			if !slices.ContainsFunc(g.targets, func(t Count) bool {
				return t.Key == w.keys[k] && uint64(s.counts[k]) < t.N
			}) {
				return false, false
			}
		}
		return true, false
	}
	return g.Pass(s.issued(w))
}

// issueAt lets a thread issue. It returns nil if the gate does not let the thread through.
func (s *state) issueAt(w *world, t int) *state {
	at, r := s.stepAt(w, t), int(w.threads[t].rank)
	if s.sealed[r] || s.gone[r] {
		return nil
	}
	n := s.clone()
	ok, nudged := n.mayPass(w, r, at.keys)
	if !ok {
		return nil
	}
	if n.gates[r].shut && !nudged && !slices.ContainsFunc(w.mine[r], func(k int) bool { return s.counts[k] < s.topOf(w, k) }) {
		n.verdict = excess
	}
	n.issueStep(w, t)
	if n.gates[r].shut {
		what := report(rIssued)
		if nudged {
			what = report(rNudged)
		}
		n.tellLeader(r, what+n.reportOf(w, r))
	}
	n.calmDown(w)
	return n
}

// obeyOrder lets a rank carry out the first order on its way. It returns nil if the rank cannot do
// so yet.
func (s *state) obeyOrder(w *world, r int) *state {
	n := s.clone()
	o := n.down[r][0]
	n.down[r] = n.down[r][1:]
	g := &n.gates[r]
	switch o[0] {
	case oShut:
		n.member[r] = o[1]
		g.Shut()
		if s.left.wrong == standing {
			n.late[r] = true
		} else {
			n.tellLeader(r, report(rShut)+n.reportOf(w, r))
		}
	case oWithdraw:
		if s.left.wrong != keepGrants {
			g.Withdraw()
		}
		n.tellLeader(r, report(rWithdrawn)+n.reportOf(w, r))
	case oRaise:
		g.Raise(targetsOf(w, o))
	case oNudge:
		g.Nudge()
	case oRead:
		n.tellLeader(r, report(rReading)+n.reportOf(w, r))
	case oDrain:
		if s.isFlying(w, Rank(r), -1) && len(n.down[r]) == 0 {
			return nil
		}
		n.tellLeader(r, report(rDrained))
	case oShutCalls:
		n.sealed[r] = true
		n.tellLeader(r, report(rCallsShut))
	case oOpen:
		g.Open()
		n.sealed[r] = false
	}
	n.calmDown(w)
	return n
}

func targetsOf(w *world, o order) []Count {
	var targets []Count
	for i := 1; i < len(o); i += 2 {
		targets = append(targets, Count{w.keys[o[i]], uint64(o[i+1])})
	}
	return targets
}
