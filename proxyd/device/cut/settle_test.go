// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
)

// line is a collective of some ranks, by their numbers, or a message from the first rank to the second.
type line struct {
	ranks   []int
	message bool
}

// ranksModel models ranks that have issued the same lines in the same order. Each rank has carried out the
// first lines.
type ranksModel struct {
	k     *leaderState
	lines []line
	given []int // by rank: how many of the rank's own lines the rank has carried out
	most  []map[barrier.Key]uint64
}

// own returns the lines that a rank is in.
func (m *ranksModel) own(r int) (all []line) {
	for _, l := range m.lines {
		for _, o := range l.ranks {
			if o == r {
				all = append(all, l)
			}
		}
	}
	return all
}

// kept returns the operations that a rank keeps back. All of them belong to communicator 1.
func (m *ranksModel) kept(r int) map[barrier.Key]uint64 {
	all := map[barrier.Key]uint64{}
	for _, l := range m.own(r)[m.given[r]:] {
		key := barrier.Key{Comm: 1, Member: int32(r)}
		switch {
		case l.message && l.ranks[0] == r:
			key.Kind, key.Peer = barrier.Send, int32(l.ranks[1])
		case l.message:
			key.Kind, key.Peer = barrier.Recv, int32(l.ranks[0])
		}
		all[key]++
	}
	return all
}

// needs tells whether a rank keeps back more than it may.
func (m *ranksModel) needs(r int) bool {
	for key, n := range m.kept(r) {
		if most, limited := m.most[r][key]; limited && n > most {
			return true
		}
	}
	return false
}

// report hands the report of a rank to the leader.
func (m *ranksModel) report(r int) {
	e := &Event{Kind: Pending, Process: 1, Quiet: !m.needs(r)}
	for key, n := range m.kept(r) {
		e.Counts = append(e.Counts, barrier.Count{Key: key, N: n})
	}
	m.k.enterEvent(r, e)
}

// obey gives the ranks their limits, and tells whether the cut holds.
func (m *ranksModel) obey(orders map[int]Order) (stay bool) {
	for r, o := range orders {
		stay = stay || o.Stay
		for _, l := range o.Limit {
			for _, c := range l.Targets {
				m.most[r][c.Key] = c.N
			}
		}
	}
	return stay
}

// TestSettle: in any order in which ranks report and go on, the settlement ends; no rank has given a line that another rank
// of the line keeps back; and no rank goes on needlessly: where all ranks are equally far, all stay.
func TestSettle(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rnd.IntN(4)
		m := &ranksModel{given: make([]int, n)}
		var opens []Event
		c := Place{Comm: 1, Size: n, Process: 1, Made: true}
		for r := range n {
			c.Member = int32(r)
			opens = append(opens, Event{Kind: Opened, Processes: []Process{{ID: 1, PID: r}}, Places: []Place{c}})
			m.most = append(m.most, map[barrier.Key]uint64{})
		}
		m.k = newLeaderState(opens)
		m.k.settled.begun = true
		var everybody []int
		for r := range n {
			everybody = append(everybody, r)
		}
		for range rnd.IntN(12) {
			l := line{ranks: everybody}
			if a, b := rnd.IntN(n), rnd.IntN(n); a != b && rnd.IntN(2) == 0 {
				l = line{ranks: []int{a, b}, message: true}
			}
			m.lines = append(m.lines, l)
		}
		even := rnd.IntN(4) == 0
		for r := range n {
			if own := len(m.own(r)); own > 0 && !even {
				m.given[r] = rnd.IntN(own + 1)
			}
		}
		began := fmt.Sprint(m.given)
		steps := 0
		for over := false; !over; steps++ {
			if steps > 10000 {
				t.Fatalf("seed %d: the settlement does not end: given %v of %v", seed, m.given, m.lines)
			}
			r := rnd.IntN(n)
			if m.needs(r) && rnd.IntN(2) == 0 {
				m.given[r]++
			}
			m.report(r)
			over = m.obey(m.k.settleOrders(n))
		}
		if even && fmt.Sprint(m.given) != began {
			t.Errorf("seed %d: ranks that began at %s have given %v", seed, began, m.given)
		}
		for r := range n {
			for key, kept := range m.kept(r) {
				if least := m.k.leastKept(key); kept != least {
					t.Errorf("seed %d: key %v: a rank keeps back %d, want the least %d", seed, key, kept, least)
				}
			}
		}
	}
}
