// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// beginSplit begins a split, counted as in the shim.
func (c *client) beginSplit(comm uint64, color, key int32, part uint64) {
	c.t.Helper()
	c.keys = []uint64{wire.Count{Comm: comm}.Key()}
	c.must("comm_split", comm, color, key, part, uint64(0), uint64(0), uint32(0))
}

// TestCutHolds: communicators of members that arrive during a cut, or have waited since before, are made when
// the cut is over, and not earlier.
func TestCutHolds(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1])
	early := [128]byte(all[0].must("ncclGetUniqueId"))
	all[0].init(0x40005, 2, 0, early) // and waits for the other
	waitFor(t, "the first rank has arrived at the communicator", func() bool {
		m, _ := all[0].p.Comm(0x40005)
		nodes[0].cuts.mu.Lock()
		defer nodes[0].cuts.mu.Unlock()
		return m.Arrived
	})
	c := mustFind(t, cut.Options{}, nodes...)
	mustOpen(t, c)
	// The gates are shut, and the call comes when they open: in an attempt of which only the members' side is there.
	number := attempts.Add(1)
	for _, s := range nodes {
		if _, err := s.Exchange(t.Context(), &cut.Orders{Attempt: number, LeaderTimeout: long, Do: []cut.Order{{Open: true}}}); err != nil {
			t.Fatal(err)
		}
	}
	all[1].init(0x40005, 2, 1, early)
	waitFor(t, "the other is held", func() bool {
		m, _ := all[1].p.Comm(0x40005)
		nodes[1].cuts.mu.Lock()
		defer nodes[1].cuts.mu.Unlock()
		return m.Arrived
	})
	if b := all[1].must("comm_state", uint64(0x40005), uint32(0)); int32(b[0]) != ncclInProgress {
		t.Error("the communicator is made, though the leader has not said so")
	}
	for _, s := range nodes {
		if _, err := s.Exchange(t.Context(), &cut.Orders{Attempt: number, LeaderTimeout: long, Do: []cut.Order{{Forget: true}}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range all {
		if state, size, rank, _ := r.waitForState(0x40005); state != 0 || size != 2 || int(rank) != i {
			t.Errorf("rank %d: state %d, rank %d of %d", i, state, rank, size)
		}
	}
	gatesOpen(t, nodes...)
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
}

// TestCutCreates: a rank that is behind and must first create a communicator does so, and the cut comes after
// that.
func TestCutCreates(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1], nodes[1])
	ats := []uint64{all[0].alloc(64), all[1].alloc(64), all[2].alloc(64)}
	id := [128]byte(all[0].must("ncclGetUniqueId"))
	all[0].sumUp(commA, ats[0]) // the other ranks are behind
	stopped := make(chan struct{})
	var ranks sync.WaitGroup
	for i, r := range all {
		ranks.Go(func() {
			<-stopped
			r.init(commB, 3, i, id)
			if state, _, _, _ := r.waitForState(commB); state != 0 {
				t.Errorf("rank %d: state %d", i, state)
			}
			if i > 0 {
				r.sumUp(commA, ats[i])
			}
			r.sumUp(commB, ats[i])
		})
	}
	found := make(chan *cut.Cut)
	go func() {
		c, err := findCut(t, cut.Options{Tick: long}, nodes...)
		if err != nil {
			t.Error(err)
		}
		found <- c
	}()
	waitFor(t, "the attempt at a cut has begun on both nodes", func() bool { return nodes[0].currentAttempt() != nil && nodes[1].currentAttempt() != nil })
	close(stopped)
	c := <-found
	if c == nil {
		t.FailNow()
	}
	checkCut(t, c, nodes...)
	for k, n := range c.Counts {
		if n != 1 {
			t.Errorf("%v is %d", k, n)
		}
	}
	mustOpen(t, c)
	ranks.Wait()
	for _, r := range all {
		r.must("cuStreamSynchronize", uint64(0))
	}
}

// TestCutComings: while cuts are found, ranks make communicators, from ids and by splits, use them, destroy and abort them, and send messages.
func TestCutComings(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1], nodes[0], nodes[1])
	rounds := 30
	if testing.Short() {
		rounds = 8
	}
	ids := make([][128]byte, rounds)
	for i := range ids {
		ids[i] = [128]byte(all[0].must("ncclGetUniqueId"))
	}
	var ranks sync.WaitGroup
	for i, r := range all {
		at := r.alloc(64)
		ranks.Go(func() {
			for n := range uint64(len(ids)) {
				part, own := 0x41000+n, 0x42000+n
				r.sumUp(commA, at)
				r.beginSplit(commA, int32(i%2), int32(-i), part)
				if state, size, _, _ := r.waitForState(part); state != 0 || size != 2 {
					t.Errorf("rank %d: split %d: state %d, %d ranks", i, n, state, size)
				}
				r.sumUp(dispatch.Comm(part), at)
				me, other := 1-i/2, i/2 // by -i
				to := func(kind collective.Kind) dispatch.Ncclop {
					a := dispatch.Devptr(at)
					return dispatch.Ncclop{Kind: int32(kind), Type: ncclInt32, Count: 1, Root: int32(other), Src: a, Dst: a + 8, Comm: dispatch.Comm(part)}
				}
				switch {
				case n%2 == 0:
					r.issueCounted(to(collective.Send), to(collective.Recv))
				case me == 0:
					r.issueCounted(to(collective.Send))
				default:
					r.issueCounted(to(collective.Recv))
				}
				r.init(own, 4, i, ids[n])
				if state, _, _, _ := r.waitForState(own); state != 0 {
					t.Errorf("rank %d: communicator %d: state %d", i, n, state)
				}
				r.sumUp(dispatch.Comm(own), at)
				r.call("cuStreamSynchronize", uint64(0))
				r.sumUp(commA, at) // all are done with them
				r.call("cuStreamSynchronize", uint64(0))
				r.must("ncclCommDestroy", part)
				if n%3 == 0 && i == 0 {
					r.must("ncclCommAbort", own)
				} else {
					r.must("ncclCommDestroy", own)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		ranks.Wait()
		close(ended)
	}()
	rnd := rand.New(rand.NewPCG(3, 3))
	found := 0
	for over := false; !over; {
		c, err := findCut(t, cut.Options{Tick: 20 * time.Millisecond}, nodes...)
		var f *barrier.Failure
		switch {
		case errors.As(err, &f) && f.Why == barrier.RankEnded: // other ranks still use its communicator
		case err != nil:
			t.Fatal(err)
		default:
			found++
			checkCut(t, c, nodes...)
			mustOpen(t, c)
		}
		select {
		case <-ended:
			over = true
		case <-time.After(time.Duration(rnd.Int64N(int64(10 * time.Millisecond)))):
		}
	}
	gatesOpen(t, nodes...)
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
	for _, s := range nodes {
		s.cuts.mu.Lock()
		if n := len(s.cuts.departures); n != 0 {
			t.Errorf("%d departures are remembered of communicators without members", n)
		}
		s.cuts.mu.Unlock()
	}
	t.Logf("%d cuts", found)
}
