// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import "slices"

// rank has the operations that a rank has asked for and that have not been carried out.
type rank struct {
	queue  []Op
	parked bool // the first operation waits for the other ranks
	gone   bool
}

// Group has the ranks that share a device. It is not safe for concurrent use.
type Group struct {
	ranks  []rank
	blocks blocks
	twist  twist
}

// twist is a deliberate mistake. Tests make these mistakes to see that the model check finds them.
type twist uint8

const (
	right       twist = iota
	noOperands        // an operation runs once although its operands are not common
	partFills         // a partial write is taken for a whole write
	anyPlace          // an operation agrees with an operation that is not the next of its rank
	earlyReads        // a read runs before earlier operations of its rank
	endlessWait       // a rank waits for other ranks for ever
	oldStamps         // a block becomes common although it has changed since the comparison
	lateCopies        // a rank gets memory of its own after the common memory was written
	lastTwist
)

// New makes a group of so many ranks, which have no memory yet.
func New(ranks int) *Group {
	return &Group{ranks: make([]rank, ranks), blocks: blocks{}}
}

// isAlone tells whether fewer than two ranks are left.
func (g *Group) isAlone() bool {
	n := 0
	for i := range g.ranks {
		if !g.ranks[i].gone {
			n++
		}
	}
	return n < 2
}

// Step takes an event and returns the effects to carry out, in order. A rank that New did not make is a
// mistake of the caller, and Step panics.
func (g *Group) Step(e Event) []Effect {
	var out []Effect
	switch e := e.(type) {
	case Post:
		r := &g.ranks[e.Rank]
		switch {
		case r.gone:
			return nil
		case g.twist == earlyReads && e.Op.Kind == Read:
			return []Effect{{Act: RunOwn, Rank: e.Rank, Op: &e.Op}}
		}
		r.queue = append(r.queue, e.Op)
	case TimeOut:
		if r := &g.ranks[e.Rank]; !r.parked || g.twist == endlessWait {
			return nil
		}
		out = g.runOwn(e.Rank)
	case End:
		g.ranks[e.Rank] = rank{gone: true}
	case Compared:
		return g.noteCompared(e)
	}
	return append(out, g.carryOutReady()...)
}

// carryOutReady carries out operations until each rank waits or has none.
func (g *Group) carryOutReady() []Effect {
	var out []Effect
	for again := true; again; {
		again = false
		for r := range g.ranks {
			for len(g.ranks[r].queue) > 0 {
				done, effects := g.serveFirst(r)
				out = append(out, effects...)
				if !done {
					break
				}
				again = true
			}
		}
	}
	return out
}

// serveFirst decides about the first operation of a rank. It returns whether the operation was carried out.
func (g *Group) serveFirst(r int) (bool, []Effect) {
	o := &g.ranks[r].queue[0]
	if !g.canRunOnce(o) {
		if o.Kind == Collective && o.Record != "" && !g.isAlone() && !g.haveCome(o) {
			return false, nil // the rank waits for the other ranks, as it would without splicing
		}
		return true, g.runOwn(r)
	}
	missing := false
	for i := range g.ranks {
		switch other := &g.ranks[i]; {
		case other.gone || i == r:
		case len(other.queue) == 0:
			missing = true
		case g.twist == anyPlace && slices.ContainsFunc(other.queue, func(p Op) bool { return p.isAlike(o) }):
		case !other.queue[0].isAlike(o):
			// That operation waits for other ranks itself, or carryOutReady handles it next.
			if o.Kind == Collective || !g.canRunOnce(&other.queue[0]) {
				missing = true
				continue
			}
			return true, g.runOwn(r)
		}
	}
	switch {
	case !missing:
		return true, g.runOnce(o)
	case g.ranks[r].parked || o.Kind == Collective:
		return false, nil
	}
	g.ranks[r].parked = true
	return false, []Effect{{Act: Park, Rank: r}}
}

// haveCome tells whether all ranks have come to a collective.
func (g *Group) haveCome(o *Op) bool {
	for i := range g.ranks {
		if r := &g.ranks[i]; !r.gone && (len(r.queue) == 0 || !r.queue[0].isAlike(o)) {
			return false
		}
	}
	return true
}

// runOwn carries out a rank's first operation in the rank's view.
func (g *Group) runOwn(r int) []Effect {
	o := g.takeOperation(r, nil)
	effects := g.writeOwn(r, o)
	run := Effect{Act: RunOwn, Rank: r, Op: o}
	if g.twist == lateCopies {
		return append([]Effect{run}, effects...)
	}
	return append(effects, run)
}

// runOnce carries out an operation that is the next operation of every rank.
func (g *Group) runOnce(o *Op) []Effect {
	like := *o
	run := Effect{Act: RunOnce, IDs: make([]uint64, len(g.ranks))}
	for r := range g.ranks {
		if !g.ranks[r].gone {
			run.Op = g.takeOperation(r, &like)
			run.IDs[r] = run.Op.ID
		}
	}
	return append([]Effect{run}, g.writeOnce(run.Op)...)
}

// takeOperation removes a rank's first operation from its queue and returns the operation. If like is not
// nil, it takes the rank's first operation that is like it.
func (g *Group) takeOperation(r int, like *Op) *Op {
	q := &g.ranks[r]
	at := 0
	if like != nil {
		at = max(0, slices.IndexFunc(q.queue, func(p Op) bool { return p.isAlike(like) }))
	}
	o := q.queue[at]
	q.queue = slices.Delete(slices.Clone(q.queue), at, at+1)
	q.parked = false
	return &o
}
