// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
)

// settlement finds how many of the collectives that all ranks have issued are carried out before the cut. It begins
// when the barrier has found how many are issued. All ranks have issued the same number, so the number that a rank
// keeps back says how far the rank has gone, and the ranks of a line may all keep back as many as the one that keeps
// back least. A rank that has to go on to come down to this number may thereby go further in another line, so that the
// least falls there. The least never rises, and the search ends at the latest when no rank keeps back any.
type settlement struct {
	begun   bool                                    // all calls are shut, or about to be
	over    bool                                    // Stay was ordered
	reports map[barrier.Rank]map[barrier.Key]uint64 // the operations that each rank keeps back
	quiet   map[barrier.Rank]bool
	gone    map[barrier.Rank]bool // ended, or on a device server that has said Still without an order
	sent    map[barrier.Key]uint64
}

func newSettlement() settlement {
	return settlement{
		reports: map[barrier.Rank]map[barrier.Key]uint64{}, quiet: map[barrier.Rank]bool{}, gone: map[barrier.Rank]bool{},
		sent: map[barrier.Key]uint64{},
	}
}

// enterPending enters the operations that a rank keeps back.
func (s *settlement) enterPending(who barrier.Rank, e *Event) {
	all := make(map[barrier.Key]uint64, len(e.Counts))
	for _, c := range e.Counts {
		all[c.Key] = c.N
	}
	s.reports[who], s.quiet[who] = all, e.Quiet
}

// markHolding notes that a device server holds its part of the cut without having been ordered to: a server of an
// earlier version carries out all collectives first.
func (k *leaderState) markHolding(m int) {
	for r, who := range k.who {
		if who.Member == m {
			k.settled.gone[barrier.Rank(r)] = true
		}
	}
}

// leastKept returns how much all ranks of a key's line may keep back.
func (k *leaderState) leastKept(key barrier.Key) uint64 {
	c := k.comms[key.Comm]
	if c == nil || !c.entered || c.broken {
		return 0
	}
	kept := func(member int32, o barrier.Key) uint64 {
		o.Comm, o.Member = key.Comm, member
		return k.settled.reports[c.ranks[member]][o]
	}
	if key.Kind != barrier.Collective {
		other := barrier.Key{Kind: barrier.Send + barrier.Recv - key.Kind, Peer: key.Member}
		return min(kept(key.Member, key), kept(key.Peer, other))
	}
	n := kept(key.Member, key)
	for i := range int32(c.size) {
		n = min(n, kept(i, key))
	}
	return n
}

// settleOrders returns the orders that follow from the operations that ranks keep back.
func (k *leaderState) settleOrders(members int) map[int]Order {
	s := &k.settled
	if !s.begun || s.over {
		return nil
	}
	for r := range k.who {
		if r := barrier.Rank(r); s.reports[r] == nil && !s.gone[r] {
			return nil // the rank has not reported yet
		}
	}
	all := map[int]Order{}
	done := true
	for r, who := range k.who {
		r := barrier.Rank(r)
		if s.gone[r] {
			continue
		}
		done = done && s.quiet[r]
		var limits []barrier.Count
		for key, n := range s.reports[r] {
			least := k.leastKept(key)
			if n <= least {
				continue
			}
			done = false
			if was, before := s.sent[key]; !before || least < was {
				s.sent[key] = least
				limits = append(limits, barrier.Count{Key: key, N: least})
			}
		}
		if len(limits) > 0 {
			o := all[who.Member]
			o.Limit = append(o.Limit, Raise{who.Process, limits})
			all[who.Member] = o
		}
	}
	if done {
		s.over = true
		for m := range members {
			all[m] = Order{Stay: true}
		}
	}
	return all
}
