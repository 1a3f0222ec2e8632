// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// A part of a group that a rank has issued is given to its communicator when its turn has come on each of its streams.
// While the leader of an attempt at a cut has all processes of the job keep their collectives back, a part that is not
// given stays in its streams, and is saved as the message that issued it. A part that a rank has given is carried out:
// so all ranks of the communicator have to give theirs. The leader tells each process how many operations of each kind
// it may keep back (LimitParts), and a process gives one part after the other until it keeps back no more than that.

// pace decides when a process's parts are given to their communicators. The zero value gives them at once.
type pace struct {
	mu      sync.Mutex
	open    map[*part]bool // issued, and not over
	kept    bool           // a part is given only if the process needs it
	frozen  bool           // no part is given: the process's spaces are being paused
	grants  int            // groups that may be given although parts are kept
	most    map[barrier.Key]uint64
	changed func() // called when a part is given or over, or limits have changed
}

// PartsLeft are the operations that a process has issued and not given to its communicators.
type PartsLeft struct {
	Counts []barrier.Count // operations that were not given
	Needs  bool            // parts have to be given before the process can be saved
	Idle   bool            // no part is given and not over
}

// isGiven tells whether a part was given. The caller holds mu.
func (q *part) isGiven() bool { return q.given }

// admitPart decides whether a part is given now, and notes it. The caller holds the member's lock.
func (p *pace) admitPart(q *part) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case q.given:
		return true
	case !p.kept, q.fixed:
	case p.frozen:
		return false
	case slices.ContainsFunc(q.group, (*part).isGiven):
	case p.grants > 0:
		p.grants--
	default:
		return false
	}
	q.given = true
	p.callChanged()
	return true
}

// callChanged calls changed, unless it is nil. The caller holds mu.
func (p *pace) callChanged() {
	if p.changed != nil {
		p.changed()
	}
}

// fixPart has a part be given as soon as its turn has come.
func (p *pace) fixPart(q *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.fixed = true
}

// isFrozen tells whether no part is given, so that all open parts are kept back.
func (p *pace) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen
}

// addPart notes a part.
func (p *pace) addPart(q *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[*part]bool{}
	}
	p.open[q] = true
	p.callChanged()
}

// removePart notes that a part is over.
func (p *pace) removePart(q *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, q)
	p.callChanged()
}

// openParts are the parts that are not over: those that are given, and those that are not.
func (p *pace) openParts() (given, kept []*part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for q := range p.open {
		if q.given {
			given = append(given, q)
		} else {
			kept = append(kept, q)
		}
	}
	return given, kept
}

// KeepParts has the process give parts to communicators only by GiveParts. changed is called when PartsLeft may have
// changed, with locks held: changed must not call the process.
func (s *Calls) KeepParts(changed func()) {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	s.pace.kept, s.pace.frozen, s.pace.grants, s.pace.changed = true, false, 0, changed
}

// ReleaseParts undoes KeepParts.
func (s *Calls) ReleaseParts() {
	s.pace.mu.Lock()
	s.pace.kept, s.pace.frozen, s.pace.changed = false, false, nil
	s.pace.mu.Unlock()
	s.issueKeptParts()
}

// ForgetLimits undoes LimitParts.
func (s *Calls) ForgetLimits() {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	s.pace.most = nil
}

// LimitParts sets how many operations may be kept back, of the kinds in the list.
func (s *Calls) LimitParts(most []barrier.Count) {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	if s.pace.most == nil {
		s.pace.most = map[barrier.Key]uint64{}
	}
	for _, c := range most {
		s.pace.most[c.Key] = c.N
	}
	s.pace.callChanged()
}

// GiveParts lets one more group be given, the first that has its turn. PartsLeft withdraws this permission.
func (s *Calls) GiveParts() {
	s.pace.mu.Lock()
	s.pace.grants, s.pace.frozen = 1, false
	s.pace.mu.Unlock()
	s.issueKeptParts()
}

// FreezeParts lets no part be given until GiveParts or ThawParts; false if a part is given and not over, or a group is
// given in part.
func (s *Calls) FreezeParts() bool {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	for q := range s.pace.open {
		if q.given || slices.ContainsFunc(q.group, (*part).isGiven) {
			return false
		}
	}
	s.pace.frozen = true
	return true
}

// ThawParts undoes FreezeParts.
func (s *Calls) ThawParts() {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	s.pace.frozen = false
}

// issueKeptParts has all members look for parts that can be given.
func (s *Calls) issueKeptParts() {
	_, kept := s.pace.openParts()
	for _, q := range kept {
		q.m.issueReady()
	}
}

// PutBack has streams begin again with the parts that are not given, when the streams' spaces go on. FreezeParts has
// returned true.
func (s *Calls) PutBack() {
	_, kept := s.pace.openParts()
	for _, q := range kept {
		for _, v := range q.visits {
			v.giveUpTurn(&s.pace)
		}
	}
}

// giveUpTurn gives up the stream's turn, unless the visit's parts are given.
func (v *visit) giveUpTurn(p *pace) {
	v.turn.Lock()
	defer v.turn.Unlock()
	if !v.begun.Load() || v.done == nil {
		return
	}
	p.mu.Lock()
	given := slices.ContainsFunc(v.parts, func(q *part) bool { return q.given || q.fixed })
	p.mu.Unlock()
	if given {
		return
	}
	for _, q := range v.parts {
		q.m.mu.Lock()
		q.missing++
		q.m.mu.Unlock()
	}
	done := v.done
	v.done = nil
	v.begun.Store(false)
	done(backend.ErrPutBack)
}

// PartsLeft returns the parts that are kept back, and withdraws the permission that GiveParts has given.
func (s *Calls) PartsLeft() PartsLeft {
	s.pace.mu.Lock()
	s.pace.grants = 0
	s.pace.mu.Unlock()
	given, kept := s.pace.openParts()
	left := PartsLeft{Idle: len(given) == 0}
	counts := map[barrier.Key]uint64{}
	for _, q := range kept {
		left.Needs = left.Needs || q.cannotReissue() || q.isBegun(&s.pace)
		q.addOperations(counts)
	}
	for _, q := range given {
		left.Needs = left.Needs || q.split == nil && q.hasKeptSibling(&s.pace)
	}
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	for k, n := range counts {
		left.Counts = append(left.Counts, barrier.Count{Key: k, N: n})
		if most, limited := s.pace.most[k]; limited && n > most {
			left.Needs = true
		}
	}
	return left
}

// cannotReissue tells whether a part cannot be issued again: a split makes a communicator, or the communicator was
// destroyed.
func (q *part) cannotReissue() bool {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	return q.split != nil || q.m.leaving || q.m.err != nil || q.m.released
}

// isBegun tells whether another part of the same group is given.
func (q *part) isBegun(p *pace) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(q.group, (*part).isGiven)
}

// hasKeptSibling tells whether another part of the same group is not given.
func (q *part) hasKeptSibling(p *pace) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(q.group, func(o *part) bool { return !o.given })
}

// addOperations adds the part's operations to the counts.
func (q *part) addOperations(to map[barrier.Key]uint64) {
	place := q.m.Place()
	if place == nil {
		return
	}
	for i := range q.ops {
		c := wire.Count{}
		switch op := &q.ops[i]; op.Kind {
		case collective.Send:
			c.Kind, c.Peer = wire.CountSend, op.Peer
		case collective.Recv:
			c.Kind, c.Peer = wire.CountRecv, op.Peer
		default:
			c.Kind = wire.CountCollective
		}
		to[KeyAt(place, c)]++
	}
}
