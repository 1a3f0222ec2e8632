// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"cmp"
	"fmt"
	"slices"
)

// issueCounts has the numbers of operations that the ranks have reported as issued.
type issueCounts struct {
	comms   map[Comm]*group
	lines   []entry
	sides   []side
	sideOf  map[Key]int
	lag     int    // number of sides below the maximum of their line
	changed []Rank // ranks with new targets, each once (rank.dirty)
}

// group is a communicator and its state.
type group struct {
	ranks    []Rank
	departed []bool // by member: destroyed
	aborted  bool
}

// entry is a line and the highest of its numbers.
type entry struct {
	line
	max   uint64
	sides []int
}

// side is a number: the count of operations that a member issued on a line.
type side struct {
	key   Key
	rank  Rank
	line  int
	n     uint64
	final bool // the number will not grow any more
}

func newIssueCounts() issueCounts {
	return issueCounts{comms: make(map[Comm]*group), sideOf: make(map[Key]int)}
}

// enterComm makes a communicator known. A communicator that is known stays unchanged.
func (b *Barrier) enterComm(c Communicator) {
	if b.comms[c.Comm] == nil {
		b.comms[c.Comm] = &group{ranks: c.Members, departed: make([]bool, len(c.Members))}
	}
}

// isBehind says whether a side is below the maximum of its line.
func (b *Barrier) isBehind(s int) bool {
	l := b.lines[b.sides[s].line]
	return b.sides[s].n < l.max && !b.comms[l.comm].aborted
}

// enterCounts enters the numbers that a rank reports. A shim's numbers are not trusted: a report
// that cannot be true fails the attempt.
func (b *Barrier) enterCounts(who Rank, counts []Count) *Failure {
	for _, c := range counts {
		s, known := b.sideOf[c.Key]
		if !known {
			if f := b.checkKey(who, c.Key); f != nil {
				return f
			}
			if c.N == 0 {
				continue
			}
			s = b.openLine(c.Key)
		}
		switch side := b.sides[s]; {
		case side.rank != who:
			return brokenReport(who, "counts for rank %d: %v", side.rank, c.Key)
		case c.N < side.n:
			return brokenReport(who, "counts backwards: %v from %d to %d", c.Key, side.n, c.N)
		case c.N == side.n:
			continue
		case side.final:
			return brokenReport(who, "issues on a communicator that it left: %v", c.Key)
		case b.phase >= reading:
			return brokenReport(who, "issued past a shut gate: %v from %d to %d", c.Key, side.n, c.N)
		}
		if f := b.growCount(s, c.N); f != nil {
			return f
		}
	}
	return nil
}

// checkKey fails if a rank cannot have a number of that name.
func (b *Barrier) checkKey(who Rank, k Key) *Failure {
	c := b.comms[k.Comm]
	inside := func(i int32) bool { return i >= 0 && int(i) < len(c.ranks) }
	switch {
	case c == nil:
		return brokenReport(who, "counts on a communicator that nobody created: %v", k)
	case k.Kind > Recv || k.Kind == Collective && k.Peer != 0 || !inside(k.Member) || !inside(k.Peer):
		return brokenReport(who, "counts what does not exist: %v", k)
	case c.ranks[k.Member] != who:
		return brokenReport(who, "counts for rank %d: %v", c.ranks[k.Member], k)
	}
	return nil
}

// openLine begins the line of a number and returns its side.
func (b *Barrier) openLine(k Key) int {
	c := b.comms[k.Comm]
	l := entry{line: k.comparedLine()}
	for _, key := range l.listKeys(len(c.ranks)) {
		s, who := len(b.sides), c.ranks[key.Member]
		r := &b.ranks[who]
		b.sides = append(b.sides, side{key: key, rank: who, line: len(b.lines), final: r.ended || c.departed[key.Member]})
		b.sideOf[key] = s
		l.sides = append(l.sides, s)
		r.sides = append(r.sides, s)
	}
	b.lines = append(b.lines, l)
	return b.sideOf[k]
}

// growCount sets a number to n, which is higher than before. Where n passes the maximum, all
// other sides of the line are behind at once.
func (b *Barrier) growCount(s int, n uint64) *Failure {
	was := b.isBehind(s)
	b.sides[s].n = n
	l := &b.lines[b.sides[s].line]
	if b.comms[l.comm].aborted || n < l.max {
		return nil
	}
	if was {
		b.lag--
		b.ranks[b.sides[s].rank].behind--
	}
	if n == l.max {
		return nil
	}
	old := l.max
	l.max = n
	for _, other := range l.sides {
		if other == s {
			continue
		}
		who := b.sides[other].rank
		if b.sides[other].n == old {
			b.lag++
			b.ranks[who].behind++
		}
		b.noteChange(who)
	}
	return b.checkFinished(l.sides)
}

// noteChange notes that the targets of a rank changed.
func (b *Barrier) noteChange(who Rank) {
	if r := &b.ranks[who]; !r.dirty {
		r.dirty = true
		b.changed = append(b.changed, who)
	}
}

// targetsOf are the maxima that a rank is below.
func (b *Barrier) targetsOf(r *rank) []Count {
	if r.behind == 0 {
		return nil
	}
	targets := make([]Count, 0, r.behind)
	for _, s := range r.sides {
		if b.isBehind(s) {
			targets = append(targets, Count{b.sides[s].key, b.lines[b.sides[s].line].max})
		}
	}
	slices.SortFunc(targets, func(x, y Count) int {
		return cmp.Or(cmp.Compare(x.Comm, y.Comm), cmp.Compare(x.Member, y.Member), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Peer, y.Peer))
	})
	return targets
}

// finishSides notes that numbers will not grow any more.
func (b *Barrier) finishSides(sides []int) *Failure {
	for _, s := range sides {
		b.sides[s].final = true
	}
	return b.checkFinished(sides)
}

// checkFinished fails when a side is final and yet behind, because it can never catch up.
func (b *Barrier) checkFinished(sides []int) *Failure {
	for _, s := range sides {
		if side := b.sides[s]; side.final && b.isBehind(s) {
			who, on := []Rank{side.rank}, []Comm{side.key.Comm}
			text := "%s left %s, where it is behind"
			if b.ranks[side.rank].ended {
				text = "%s ended behind on %s"
			}
			return &Failure{Why: RankEnded, Text: fmt.Sprintf(text, listOf("rank", who), listOf("communicator", on)), Ranks: who, Comms: on}
		}
	}
	return nil
}

// leaveComm notes that a member issues no more operations on a communicator.
func (b *Barrier) leaveComm(who Rank, comm Comm, m int32) *Failure {
	if f := b.checkKey(who, Key{Comm: comm, Member: m}); f != nil {
		return f
	}
	b.comms[comm].departed[m] = true
	var sides []int
	for _, s := range b.ranks[who].sides {
		if k := b.sides[s].key; k.Comm == comm && k.Member == m {
			sides = append(sides, s)
		}
	}
	return b.finishSides(sides)
}

// unevenComms are the communicators on which a rank is behind, sorted.
func (b *Barrier) unevenComms() []Comm {
	var comms []Comm
	for s, side := range b.sides {
		if b.isBehind(s) {
			comms = append(comms, side.key.Comm)
		}
	}
	slices.Sort(comms)
	return slices.Compact(comms)
}

// dropComm takes a communicator out of the comparison and returns the ranks that were behind
// there, sorted.
func (b *Barrier) dropComm(comm Comm) []Rank {
	c := b.comms[comm]
	if c == nil || c.aborted {
		return nil
	}
	var late []Rank
	for s, side := range b.sides {
		if side.key.Comm == comm && b.isBehind(s) {
			b.lag--
			b.ranks[side.rank].behind--
			late = append(late, side.rank)
		}
	}
	c.aborted = true
	slices.Sort(late)
	return slices.Compact(late)
}
