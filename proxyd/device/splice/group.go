// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import "slices"

// rank is what a rank has asked for and what was not carried out.
type rank struct {
	queue  []Op
	parked bool // the first of them waits for the other ranks
	gone   bool
}

// Group is the ranks that share a device. It is not safe for concurrent use.
type Group struct {
	ranks  []rank
	blocks blocks
	twist  twist
}

// twist is a mistake. Tests make them, to see that they are found.
type twist uint8

const (
	right       twist = iota
	noOperands        // what an operation reads need not be common
	partFills         // what is written in part is taken for written whole
	anyPlace          // an operation agrees with one that stands behind others
	earlyReads        // a program reads before what it has asked for before was carried out
	endlessWait       // a rank waits for others for ever
	oldStamps         // a block is common although it has changed since it was compared
	lateCopies        // memory of one's own is made when the common memory was written
	lastTwist
)

// New makes a group of so many ranks, which have no memory yet.
func New(ranks int) *Group {
	return &Group{ranks: make([]rank, ranks), blocks: blocks{}}
}

// isAlone tells whether only one rank is left.
func (g *Group) isAlone() bool {
	n := 0
	for i := range g.ranks {
		if !g.ranks[i].gone {
			n++
		}
	}
	return n < 2
}

// Step takes an event and returns what is to be done about it. Ranks are those of New; what names others is a mistake of the caller's,
// and panics.
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

// carryOutReady carries out all that can be, until each rank waits.
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

// serveFirst does what is to be done about the first operation of a rank. It returns whether the operation was carried
// out.
func (g *Group) serveFirst(r int) (bool, []Effect) {
	o := &g.ranks[r].queue[0]
	if !g.canRunOnce(o) {
		if o.Kind == Collective && o.Record != "" && !g.isAlone() && !g.haveCome(o) {
			return false, nil // the rank waits for the others as on devices of their own
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
			// The other operation waits for others itself, or settle comes to it next.
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

// runOnce carries out what is every rank's next operation.
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

// takeOperation takes a rank's first operation, or with like one that is like it, out of its queue.
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
