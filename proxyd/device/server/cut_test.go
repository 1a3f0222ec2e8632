// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// long is how long a test waits for a certain event; no test measures by it.
const long = 2 * time.Minute

// issueCounted issues operations, counted as the shim counts them.
func (c *client) issueCounted(ops ...dispatch.Ncclop) {
	seen := map[uint64]bool{}
	for _, o := range ops {
		k := wire.Count{Comm: uint64(o.Comm)}
		switch collective.Kind(o.Kind) {
		case collective.Send:
			k.Kind, k.Peer = wire.CountSend, int(o.Root)
		case collective.Recv:
			k.Kind, k.Peer = wire.CountRecv, int(o.Root)
		}
		if !seen[k.Key()] {
			c.keys = append(c.keys, k.Key())
		}
		seen[k.Key()] = true
	}
	c.issueGroup(ops...)
}

// sumUp sums a number over a communicator, in place.
func (c *client) sumUp(comm dispatch.Comm, at uint64) { c.sumUpAs(true, comm, at) }

func (c *client) sumUpAs(counted bool, comm dispatch.Comm, at uint64) {
	a := dispatch.Devptr(at)
	op := dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 1, Src: a, Dst: a, Comm: comm}
	if counted {
		c.issueCounted(op)
	} else {
		c.issueGroup(op)
	}
}

// localMembers are servers as the members of an attempt.
func localMembers(all ...*Server) []cut.Member {
	var out []cut.Member
	for _, s := range all {
		out = append(out, s)
	}
	return out
}

var attempts atomic.Uint64

// findCut looks for a cut.
func findCut(t testing.TB, o cut.Options, all ...*Server) (*cut.Cut, error) {
	t.Helper()
	o.Attempt = attempts.Add(1)
	if o.Deadline == 0 {
		o.Deadline = long
	}
	if o.LeaderTimeout == 0 {
		o.LeaderTimeout = long
	}
	return cut.Find(t.Context(), localMembers(all...), o)
}

// mustFind finds a cut and checks the cut.
func mustFind(t testing.TB, o cut.Options, all ...*Server) *cut.Cut {
	t.Helper()
	c, err := findCut(t, o, all...)
	if err != nil {
		t.Fatal(err)
	}
	checkCut(t, c, all...)
	return c
}

func mustOpen(t testing.TB, c *cut.Cut) {
	t.Helper()
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// checkCut checks a cut by the counts in the rings: all ranks have the same count for each line of the barrier, and no
// call is under way.
func checkCut(t testing.TB, c *cut.Cut, all ...*Server) {
	t.Helper()
	counts := map[barrier.Key]uint64{}
	sizes := map[barrier.Comm]int{}
	for _, s := range all {
		for _, p := range s.allProcesses() {
			if p.IsGone() {
				continue
			}
			tally, err := p.Ring.Tally()
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(counts, p.Counts(tally.Counts))
			for _, m := range p.Members.Values() {
				if comm, err := m.Communicator(); err == nil {
					sizes[nccl.CommName(comm.ID())] = comm.Size()
				}
			}
			if busy, err := p.Ring.Busy(); err != nil || !busy.IsZero() || p.Settled() != nil || p.Handled.Load() != tally.Messages {
				t.Errorf("process %d: %+v, %v, %v, %d of %d handled", p.ID, busy, err, p.Settled(), p.Handled.Load(), tally.Messages)
			}
			if !p.PauseWork() || !p.WorkIsHeld() {
				t.Errorf("process %d: its devices are at work", p.ID)
			}
		}
	}
	for k, n := range counts {
		if c.Counts[k] != n {
			t.Errorf("%v is %d, and was reported as %d", k, n, c.Counts[k])
		}
		switch k.Kind {
		case barrier.Collective:
			for i := range sizes[k.Comm] {
				o := barrier.Key{Comm: k.Comm, Member: int32(i)}
				if c.Counts[o] != n {
					t.Errorf("%v is %d, and %v is %d", k, n, o, c.Counts[o])
				}
			}
		default:
			o := barrier.Key{Comm: k.Comm, Member: k.Peer, Kind: barrier.Send + barrier.Recv - k.Kind, Peer: k.Member}
			if c.Counts[o] != n {
				t.Errorf("%v is %d, and %v is %d", k, n, o, c.Counts[o])
			}
		}
	}
}

// gatesOpen checks that no gate or hold of an attempt is left.
func gatesOpen(t testing.TB, all ...*Server) {
	t.Helper()
	for _, s := range all {
		if s.currentAttempt() != nil {
			t.Error("an attempt is left")
		}
		for _, p := range s.allProcesses() {
			if p.IsGone() {
				continue
			}
			if err := p.Ring.Grant(1); err == nil {
				t.Errorf("process %d: its gate is shut", p.ID)
			}
		}
	}
}

// TestCutLoop: in a data-parallel loop over two servers the cut is at the count of the furthest rank,
// whichever rank that is, again and again. The results equal those of a run without cuts.
func TestCutLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("TestCutMoved finds cuts of a training, too")
	}
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[0], nodes[1], nodes[1])
	const steps = 400
	var issued [4]atomic.Uint64
	var ranks sync.WaitGroup
	sums := make([]int32, len(all))
	for i, r := range all {
		at := r.alloc(64)
		r.writeInts(at, 1)
		ranks.Go(func() {
			for n := range steps {
				r.sumUp(commA, at)
				issued[i].Add(1)
				if n%4 == 3 {
					r.writeInts(at, int32(n+i)) // so that the value stays small, and differs
				}
				if n%(3+i) == 0 {
					r.call("cuStreamSynchronize", uint64(0))
				}
			}
			r.call("cuStreamSynchronize", uint64(0))
			sums[i] = r.readInts(at, 1)[0]
		})
	}
	ended := make(chan struct{})
	go func() {
		ranks.Wait()
		close(ended)
	}()
	found := 0
	for over := false; !over; {
		c := mustFind(t, cut.Options{Tick: long}, nodes...)
		found++
		mustOpen(t, c)
		select {
		case <-ended:
			over = true
		default:
		}
	}
	gatesOpen(t, nodes...)
	t.Logf("%d cuts", found)
	if found < 2 {
		t.Error("no cut was found while it ran")
	}
}

// highestCount is the highest count of a communicator's collectives.
func highestCount(all []rank) (n uint64) {
	for _, r := range all {
		c, err := r.p.Ring.Counts()
		if err == nil {
			n = max(n, c[wire.Count{Comm: commA}.Key()])
		}
	}
	return n
}

// TestCutExact: ranks that are behind catch up with the furthest rank, and no rank goes further.
func TestCutExact(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1], nodes[1])
	ahead := []int{7, 3, 0}
	var ats []uint64
	for _, r := range all {
		ats = append(ats, r.alloc(64))
	}
	for i, r := range all {
		for range ahead[i] {
			r.sumUp(commA, ats[i])
		}
	}
	var ranks sync.WaitGroup
	go1 := make(chan struct{})
	for i, r := range all {
		ranks.Go(func() {
			<-go1
			for range 20 - ahead[i] {
				r.sumUp(commA, ats[i])
			}
		})
	}
	// The gates are shut before the ranks go on, so the furthest rank stays where it is.
	found := make(chan *cut.Cut)
	go func() {
		c, err := findCut(t, cut.Options{Tick: long}, nodes...)
		if err != nil {
			t.Error(err)
		}
		found <- c
	}()
	waitFor(t, "all gates are shut", func() bool {
		for _, r := range all {
			s := r.p.server
			s.cuts.mu.Lock()
			shut := s.cuts.now != nil && s.cuts.now.gates[r.p.ID].shut
			s.cuts.mu.Unlock()
			if !shut {
				return false
			}
		}
		return true
	})
	close(go1)
	c := <-found
	if c == nil {
		t.FailNow()
	}
	checkCut(t, c, nodes...)
	if n := highestCount(all); n != 7 {
		t.Errorf("the cut is at %d, and the furthest was at 7", n)
	}
	mustOpen(t, c)
	ranks.Wait()
	for _, r := range all {
		r.must("cuStreamSynchronize", uint64(0))
	}
	if n := highestCount(all); n != 20 {
		t.Errorf("%d issued in the end", n)
	}
}

// waitFor waits until is returns true.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for since := time.Now(); !is(); time.Sleep(100 * time.Microsecond) {
		if time.Since(since) > long {
			t.Fatal("never: " + what)
		}
	}
}

// TestCutDeadline: a rank that does not catch up is named, and all gates open.
func TestCutDeadline(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1])
	at := all[0].alloc(64)
	all[0].sumUp(commA, at)
	_, err := findCut(t, cut.Options{Deadline: 200 * time.Millisecond, Tick: 20 * time.Millisecond}, nodes...)
	var f *cut.Failure
	if !errors.As(err, &f) || f.Why != barrier.DeadlinePassed || len(f.Who) != 1 || f.Who[0].Member != 1 {
		t.Fatalf("findCut = %v, want DeadlinePassed with member 1", err)
	}
	if want := fmt.Sprintf("process %d on device server 1", all[1].p.PID()); !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not name %s", err, want)
	}
	gatesOpen(t, nodes...)
	all[1].sumUp(commA, all[1].alloc(64))
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
}

// TestCutNudge: a rank that is behind, and waits for a rank that is not, catches up by a nudge.
func TestCutNudge(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1])
	makeComm(t, all, commB)
	word := make(chan struct{})
	var ats []uint64
	for _, r := range all {
		ats = append(ats, r.alloc(64))
	}
	all[0].sumUp(commA, ats[0])
	var ranks sync.WaitGroup
	ranks.Go(func() {
		all[0].sumUp(commB, ats[0]) // at the gate: the rank is not behind
		close(word)
	})
	ranks.Go(func() {
		<-word
		all[1].sumUp(commA, ats[1])
		all[1].sumUp(commB, ats[1])
	})
	mustOpen(t, mustFind(t, cut.Options{Tick: 10 * time.Millisecond}, nodes...))
	ranks.Wait()
}

// TestCutEnd: a context that is done, and a server that is gone, end an attempt with open gates.
func TestCutEnd(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1])
	all[0].sumUp(commA, all[0].alloc(64))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := cut.Find(ctx, localMembers(nodes...), cut.Options{Attempt: attempts.Add(1)}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	gatesOpen(t, nodes...)
	gone := newServer(t, 1)
	gone.Close()
	if _, err := findCut(t, cut.Options{}, nodes[0], nodes[1], gone); !errors.Is(err, cut.ErrBusy) {
		t.Error(err)
	}
	gatesOpen(t, nodes...)
	all[1].sumUp(commA, all[1].alloc(64))
	c := mustFind(t, cut.Options{}, nodes...)
	if c.Err() != nil {
		t.Errorf("the cut has ended: %v", c.Err())
	}
	nodes[1].Close()
	select {
	case <-c.Lost():
	case <-time.After(long):
		t.Error("the loss of a server is not noticed")
	}
	if !errors.Is(c.Err(), cut.ErrForgotten) {
		t.Errorf("after the loss of a server, Err = %v, want ErrForgotten", c.Err())
	}
	c.Open(t.Context())
	gatesOpen(t, nodes[0])
}

// lingering is a peer. Its Close does not return before the test says so.
type lingering struct {
	own
	closing, release chan struct{}
}

func (l *lingering) Close() {
	close(l.closing)
	<-l.release
	l.own.Close()
}

// TestCutAfterEnd: a cut is found while a process that has told of its end is still on the server's list.
func TestCutAfterEnd(t *testing.T) {
	s := newServer(t, 1)
	attachProcess(t, s, 1)
	l := &lingering{own{ended: make(chan string)}, make(chan struct{}), make(chan struct{})}
	p, _ := attachPeer(t, s, 1, l)
	p.endProcess("the test says so")
	<-l.closing
	c, err := findCut(t, cut.Options{Deadline: 20 * time.Second}, s)
	close(l.release)
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, c)
}
