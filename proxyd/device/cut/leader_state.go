// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"cmp"
	"maps"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
)

// processKey identifies a process: the number of its member, and the member's name for the process.
type processKey struct {
	member  int
	process uint64
}

// leaderState is the leader's state of an attempt. Events of members go in. Effects of the barrier come out, and
// become orders.
type leaderState struct {
	b      *barrier.Barrier // nil if there are no processes
	ranks  map[processKey]barrier.Rank
	who    []RankProcess // by rank
	comms  map[barrier.Comm]*comm
	late   map[barrier.Rank][]report // reports that wait until their communicator is known
	out    []barrier.Effects
	counts map[barrier.Key]uint64 // as last reported
	notes  map[barrier.Rank]string

	settled settlement
}

// comm is a communicator.
type comm struct {
	name     barrier.Comm
	size     int
	ranks    map[int32]barrier.Rank
	absent   map[int32]bool // have arrived, and have no communicator yet
	departed map[int32]bool
	arrived  bool // a process that has arrived is held
	entered  bool // the barrier knows the communicator
	meets    bool // the barrier knows of an unfinished creation
	broken   bool
	ignored  bool // all places were left before the attempt, so the barrier need not know it
}

// report is a report of a rank that waits until its communicator is known.
type report struct {
	on     *comm // which the report is about, or nil
	counts []barrier.Count
	event  func(counts []barrier.Count) barrier.Event
}

// newLeaderState begins an attempt with the members' Opened events, and starts the barrier.
func newLeaderState(opened []Event) *leaderState {
	k := &leaderState{
		ranks: map[processKey]barrier.Rank{}, comms: map[barrier.Comm]*comm{}, late: map[barrier.Rank][]report{},
		counts: map[barrier.Key]uint64{}, notes: map[barrier.Rank]string{}, settled: newSettlement(),
	}
	for m := range opened {
		all := slices.SortedFunc(slices.Values(opened[m].Processes), func(x, y Process) int { return cmp.Compare(x.ID, y.ID) })
		for _, p := range all {
			if _, twice := k.ranks[processKey{m, p.ID}]; twice {
				continue
			}
			k.ranks[processKey{m, p.ID}] = barrier.Rank(len(k.who))
			k.who = append(k.who, RankProcess{Member: m, Process: p.ID, PID: p.PID})
		}
	}
	if len(k.who) == 0 {
		k.out = append(k.out, barrier.Effects{ShutCalls: true, Cut: true})
		return k
	}
	k.b = barrier.New(len(k.who))
	for m := range opened {
		for i := range opened[m].Places {
			k.addPlace(m, &opened[m].Places[i])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.comms)) {
		c := k.comms[name]
		c.ignored = len(c.departed) == len(c.ranks)
		k.enterComm(c)
	}
	for m := range opened {
		k.enterDepartures(m, &opened[m])
	}
	k.stepBarrier(barrier.Start{})
	return k
}

// enterDepartures tells the barrier which processes ended, and which places were given up, before the attempt.
func (k *leaderState) enterDepartures(m int, opened *Event) {
	last := map[uint64][]barrier.Count{}
	for i := range opened.Places {
		if p := &opened.Places[i]; p.Left {
			last[p.Process] = append(last[p.Process], p.Counts...)
		}
	}
	for _, p := range opened.Processes {
		if p.Ended {
			who := k.ranks[processKey{m, p.ID}]
			k.settled.gone[who] = true
			k.reportWhenKnown(who, nil, last[p.ID], func(c []barrier.Count) barrier.Event { return barrier.Ended{Rank: who, Counts: c} })
			delete(last, p.ID)
		}
	}
	for i := range opened.Places {
		if p := &opened.Places[i]; p.Left && last[p.Process] != nil {
			k.enterDestroyed(k.ranks[processKey{m, p.Process}], p)
		}
	}
}

// addPlace adds a place to its communicator, and returns the communicator. It returns nil if the process is
// unknown, or the place is outside of the communicator.
func (k *leaderState) addPlace(m int, p *Place) *comm {
	who, known := k.ranks[processKey{m, p.Process}]
	if !known {
		return nil
	}
	c := k.comms[p.Comm]
	if c == nil {
		c = &comm{name: p.Comm, size: p.Size, ranks: map[int32]barrier.Rank{}, absent: map[int32]bool{}, departed: map[int32]bool{}}
		k.comms[p.Comm] = c
	}
	if p.Member < 0 || int(p.Member) >= c.size {
		return nil // the members state different sizes
	}
	c.ranks[p.Member] = who
	delete(c.absent, p.Member)
	switch {
	case p.Left:
		c.departed[p.Member] = true
	case !p.Made && !p.Broken:
		c.absent[p.Member] = true
	}
	c.broken = c.broken || p.Broken
	return c
}

// enterComm enters a communicator into the barrier when all its members are known.
func (k *leaderState) enterComm(c *comm) {
	if c.entered || c.ignored || len(c.ranks) < c.size {
		return
	}
	c.entered = true
	made := barrier.Communicator{Comm: c.name, Members: make([]barrier.Rank, c.size)}
	for i, who := range c.ranks {
		made.Members[i] = who
	}
	r := barrier.Rendezvous{ID: uint64(c.name), Makes: []barrier.Communicator{made}}
	if c.meets = len(c.absent) > 0 && !c.broken; c.meets {
		r.Ranks = slices.Compact(slices.Sorted(maps.Values(c.ranks)))
	}
	k.stepBarrier(barrier.Met{Rendezvous: r, Begun: c.meets && !c.arrived})
	if !c.meets {
		k.stepBarrier(barrier.Created{ID: r.ID})
	}
	if c.broken {
		k.stepBarrier(barrier.Aborted{Comm: c.name})
	}
	k.enterLateReports()
}

// failComm notes that a communicator is broken, or will never be made.
func (k *leaderState) failComm(c *comm) {
	c.broken = true
	if c.entered {
		k.stepBarrier(barrier.Aborted{Comm: c.name})
	}
	if c.meets && c.arrived {
		c.meets = false // the barrier must not wait for the communicator's creation, which cannot end
		k.stepBarrier(barrier.Created{ID: uint64(c.name)})
	}
	k.enterLateReports()
}

// enterEvent enters an event of a member.
func (k *leaderState) enterEvent(m int, e *Event) {
	switch e.Kind {
	case Arrived, Made, Broken, Left:
		if e.Place != nil {
			k.enterChange(m, e.Kind, e.Place)
		}
		return
	case Opened, Still:
		return
	}
	who, known := k.ranks[processKey{m, e.Process}]
	if !known {
		return
	}
	switch e.Kind {
	case Pending:
		k.settled.enterPending(who, e)
		return
	case Ended, Died:
		k.settled.gone[who] = true
		delete(k.settled.reports, who)
	case Obstacle:
		k.notes[who] = e.Reason
		return
	case Stuck: // reported at once, even if other reports of the process wait
		k.stepBarrier(barrier.Stuck{Rank: who, Reason: e.Reason})
		return
	}
	if event := reports[e.Kind]; event != nil {
		k.reportWhenKnown(who, nil, e.Counts, func(c []barrier.Count) barrier.Event { return event(who, c, e) })
	}
}

// reports are the events of ranks.
var reports = map[Kind]func(r barrier.Rank, c []barrier.Count, e *Event) barrier.Event{
	Shut: func(r barrier.Rank, c []barrier.Count, _ *Event) barrier.Event {
		return barrier.Shut{Rank: r, Counts: c}
	},
	Issued: func(r barrier.Rank, c []barrier.Count, e *Event) barrier.Event {
		return barrier.Issued{Rank: r, Counts: c, Nudge: e.Nudge}
	},
	Withdrawn: func(r barrier.Rank, c []barrier.Count, _ *Event) barrier.Event {
		return barrier.Withdrawn{Rank: r, Counts: c}
	},
	Reading: func(r barrier.Rank, c []barrier.Count, _ *Event) barrier.Event {
		return barrier.Reading{Rank: r, Counts: c}
	},
	Drained:   func(r barrier.Rank, _ []barrier.Count, _ *Event) barrier.Event { return barrier.Drained{Rank: r} },
	CallsShut: func(r barrier.Rank, _ []barrier.Count, _ *Event) barrier.Event { return barrier.CallsShut{Rank: r} },
	Ended: func(r barrier.Rank, c []barrier.Count, _ *Event) barrier.Event {
		return barrier.Ended{Rank: r, Counts: c}
	},
	Died: func(r barrier.Rank, _ []barrier.Count, _ *Event) barrier.Event { return barrier.Died{Rank: r} },
}

// enterChange enters a change of a place.
func (k *leaderState) enterChange(m int, kind Kind, p *Place) {
	c := k.addPlace(m, p)
	if c == nil {
		return
	}
	c.arrived = c.arrived || kind == Arrived
	switch {
	case kind == Left:
		k.enterDestroyed(k.ranks[processKey{m, p.Process}], p)
	case p.Broken:
		k.failComm(c)
	default:
		k.enterComm(c)
	}
	if c.meets && len(c.absent) == 0 {
		c.meets = false
		k.stepBarrier(barrier.Created{ID: uint64(c.name)})
	}
}

// enterDestroyed enters that a rank has given up its place.
func (k *leaderState) enterDestroyed(who barrier.Rank, p *Place) {
	on := k.comms[p.Comm]
	k.reportWhenKnown(who, on, p.Counts, func(counts []barrier.Count) barrier.Event {
		if !on.entered {
			return nil // and never will be known
		}
		return barrier.Destroyed{Rank: who, Comm: p.Comm, Member: p.Member, Counts: counts}
	})
}

// reportWhenKnown hands a report of a rank to the barrier, unless the report is about a communicator whose
// members are not all known: then the report waits, and all later reports of the rank wait behind it.
func (k *leaderState) reportWhenKnown(who barrier.Rank, on *comm, counts []barrier.Count, event func([]barrier.Count) barrier.Event) {
	k.late[who] = append(k.late[who], report{on, counts, event})
	k.enterLateReports()
}

// enterLateReports hands over the reports that need not wait any more.
func (k *leaderState) enterLateReports() {
	for who := range k.who {
		for who := barrier.Rank(who); len(k.late[who]) > 0; {
			r := k.late[who][0]
			counts, known := k.knownCounts(r.counts)
			if !known || !r.on.isSettled() {
				break
			}
			k.late[who] = k.late[who][1:]
			if e := r.event(counts); e != nil {
				for _, c := range counts {
					k.counts[c.Key] = c.N
				}
				k.stepBarrier(e)
			}
		}
	}
}

// isSettled tells whether the barrier knows the whole communicator, or never will. nil, for no communicator,
// is settled.
func (c *comm) isSettled() bool { return c == nil || c.entered || c.broken || c.ignored }

// knownCounts leaves out the counts of communicators that have ended, and tells whether all other communicators are
// known.
func (k *leaderState) knownCounts(counts []barrier.Count) ([]barrier.Count, bool) {
	var out []barrier.Count
	for _, n := range counts {
		switch c := k.comms[n.Comm]; {
		case c == nil || !c.isSettled():
			return nil, false
		case c.entered:
			out = append(out, n)
		}
	}
	return out, true
}

func (k *leaderState) stepBarrier(e barrier.Event) {
	if k.b != nil {
		k.out = append(k.out, k.b.Step(e))
	}
}

// pastComms returns the communicators in which there is no process any more.
func (k *leaderState) pastComms() []barrier.Comm {
	var all []barrier.Comm
	for name, c := range k.comms {
		if len(c.departed) >= len(c.ranks) {
			all = append(all, name)
		}
	}
	return all
}
