// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// mute is a member that its leader cannot reach from a certain moment on.
type mute struct {
	cut.Member
	lost chan struct{}
}

var errMute = errors.New("the network is gone")

// Exchange implements cut.Member.
func (m *mute) Exchange(ctx context.Context, o *cut.Orders) (*cut.Events, error) {
	select {
	case <-m.lost:
		return nil, errMute
	default:
		return m.Member.Exchange(ctx, o)
	}
}

// TestCutLeaderLost: when its leader is silent, a server opens its gates by itself, in an attempt and in a cut.
// The server is no longer in that attempt, and refuses to save for it.
func TestCutLeaderLost(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1])
	at := all[0].alloc(64)
	for _, behind := range []bool{false, true} {
		members := []cut.Member{nodes[0], &mute{nodes[1], make(chan struct{})}}
		o := cut.Options{Attempt: attempts.Add(1), LeaderTimeout: 300 * time.Millisecond, Deadline: long}
		if behind {
			all[0].sumUp(commA, at) // and no cut is found
		}
		time.AfterFunc(100*time.Millisecond, func() { close(members[1].(*mute).lost) })
		c, err := cut.Find(t.Context(), members, o)
		switch {
		case behind && !errors.Is(err, errMute):
			t.Errorf("behind: %v", err)
		case !behind && err != nil:
			t.Fatal(err)
		case !behind:
			<-c.Lost()
			if err := c.Open(t.Context()); !errors.Is(err, errMute) {
				t.Error(err)
			}
		}
		waitFor(t, "the gates open", func() bool { return nodes[1].currentAttempt() == nil })
		gatesOpen(t, nodes...)
		for _, s := range nodes {
			if _, err := s.Save(t.Context(), Folder(t.TempDir()), SaveOptions{Attempt: o.Attempt}); !errors.Is(err, cut.ErrForgotten) {
				t.Errorf("saved for an attempt that was forgotten: %v", err)
			}
			for _, order := range []cut.Order{{Open: true}, {Shut: true}, {}} {
				if _, err := s.Exchange(t.Context(), &cut.Orders{Attempt: o.Attempt, LeaderTimeout: long, Do: []cut.Order{order}}); !errors.Is(err, cut.ErrForgotten) {
					t.Errorf("%+v of an attempt that was forgotten: %v", order, err)
				}
			}
		}
	}
	all[1].sumUp(commA, all[1].alloc(64))
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
}

// TestCutAgain: the leader of a later attempt takes over from the leader of an earlier attempt.
func TestCutAgain(t *testing.T) {
	nodes := makeServers(t, 2)
	makeRanks(t, nodes[0], nodes[1])
	first := mustFind(t, cut.Options{}, nodes...)
	second := mustFind(t, cut.Options{}, nodes...)
	<-first.Lost()
	if err := first.Open(t.Context()); err != nil {
		t.Error(err)
	}
	checkCut(t, second, nodes...)
	if second.Err() != nil {
		t.Errorf("the second cut has ended: %v", second.Err())
	}
	mustOpen(t, second)
	gatesOpen(t, nodes...)
}

// TestCutSaved: the cut of an attempt can be saved only by naming that attempt. Processes that connect
// meanwhile are attached afterwards.
func TestCutSaved(t *testing.T) {
	s := newServer(t, 1)
	p, cs := attachProcess(t, s, 1)
	cs[0].beginContext(ctxA, 0)
	at := cs[0].alloc(4096)
	cs[0].writeInts(at, 7)
	c := mustFind(t, cut.Options{}, s)
	if _, err := s.Save(t.Context(), Folder(t.TempDir()), SaveOptions{}); !errors.Is(err, cut.ErrBusy) {
		t.Error(err)
	}
	if _, err := s.Save(t.Context(), Folder(t.TempDir()), SaveOptions{Attempt: c.Attempt + 1}); !errors.Is(err, cut.ErrForgotten) {
		t.Error(err)
	}
	for range 2 {
		r, err := s.Save(t.Context(), Folder(t.TempDir()), SaveOptions{Attempt: c.Attempt})
		if err != nil || len(r.Processes) != 1 {
			t.Fatalf("Save in the cut = %+v, %v, want one process", r, err)
		}
	}
	ring, err := wire.Create(wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	arrive := func() error {
		_, err := s.makeProcess(ring, &own{ended: make(chan string)}, visibility{}, func() error { return nil })
		return err
	}
	if err := arrive(); !errors.Is(err, errStopped) {
		t.Fatal("attached in a cut: ", err)
	}
	checkCut(t, c, s)
	mustOpen(t, c)
	if err := arrive(); err != nil {
		t.Error(err)
	}
	gatesOpen(t, s)
	// The gates of a save of its own are not an attempt's gates.
	if _, err := s.Save(t.Context(), Folder(t.TempDir()), SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := findCut(t, cut.Options{}, s); !errors.Is(err, cut.ErrBusy) {
		t.Error(err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if got := cs[0].readInts(at, 1); got[0] != 7 || p.IsGone() {
		t.Errorf("after Resume, memory = %v, want [7], and a living process", got)
	}
	// Resuming or leaving a server ends its attempt.
	c = mustFind(t, cut.Options{}, s)
	if err := s.Resume(); err != nil {
		t.Error(err)
	}
	gatesOpen(t, s)
	mustOpen(t, c)
	c = mustFind(t, cut.Options{}, s)
	if err := s.Leave(); err != nil {
		t.Error(err)
	}
	mustOpen(t, c)
}

// TestCutDeaths: a rank that ends by itself does not affect the attempt. A rank that is killed makes the
// attempt fail, and its communicators are not compared any more.
func TestCutDeaths(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1], nodes[1], nodes[0])
	makeComm(t, all[:3], commB)
	for _, r := range all {
		r.sumUp(commA, r.alloc(64))
	}
	for _, r := range all {
		r.must("cuStreamSynchronize", uint64(0))
	}
	end := func(r rank) {
		r.sendMessage(wire.OpExit, false, make([]byte, 8), 0)
		<-r.p.gone
	}
	end(all[3]) // of its own will, with no work left
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
	at := all[0].alloc(64)
	all[0].sumUp(commB, at)
	time.AfterFunc(100*time.Millisecond, func() { all[2].p.endProcess("killed") })
	_, err := findCut(t, cut.Options{Tick: long}, nodes...)
	var f *cut.Failure
	if !errors.As(err, &f) || f.Why != barrier.RankDied || !strings.Contains(err.Error(), "on device server 1") {
		t.Errorf("findCut = %v, want RankDied on device server 1", err)
	}
	<-all[2].p.gone
	gatesOpen(t, nodes...)
	all[0].must("ncclCommAbort", uint64(commB)) // the communicator has failed; work that waits on its stream goes on
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
	// A rank that ends while being behind makes the attempt fail, also if its communicator is known to be
	// broken by then and no rank has aborted it; a cut may have been found before.
	makeComm(t, all[:2], 0x40007)
	all[0].sumUp(0x40007, at)
	time.AfterFunc(50*time.Millisecond, func() { all[1].sendMessage(wire.OpExit, false, make([]byte, 8), 0) })
	c, err := findCut(t, cut.Options{Tick: long}, nodes...)
	switch {
	case err == nil:
		mustOpen(t, c)
	case strings.Contains(err.Error(), "nobody has aborted the communicator"):
		// The rank had ended before the attempt began. A rank that waits for the ended rank, and has not aborted for so
		// long, gets a fault.
		all[0].want(int32(backend.LaunchFailed), "cuCtxSynchronize")
	case !errors.As(err, &f) || f.Why != barrier.RankEnded:
		t.Errorf("findCut = %v, want RankEnded", err)
	}
	gatesOpen(t, nodes...)
}

// TestCutExitSeenFirst: a process that exits by itself does not count as killed, and its posted messages are
// carried out, also if its end is seen before its last messages are handled.
func TestCutExitSeenFirst(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1])
	r := all[1]
	at := r.alloc(64)
	release := r.p.Contexts.Block() // no message gets past it
	r.post("cuMemsetD8Async", at, uint8(1), uint64(64), uint64(0))
	r.sendMessage(wire.OpExit, false, make([]byte, 8), 0)
	type found struct {
		c   *cut.Cut
		err error
	}
	done := make(chan found, 1)
	go func() {
		c, err := findCut(t, cut.Options{Tick: long}, nodes...)
		done <- found{c, err}
	}()
	waitFor(t, "the attempt is opened", func() bool { return nodes[1].currentAttempt() != nil })
	r.p.notePeerGone("it has ended")
	release()
	<-r.p.gone
	f := <-done
	if f.err != nil {
		t.Fatalf("no cut after the end of the process: %v", f.err)
	}
	mustOpen(t, f.c)
}

// TestCutHopeless: a process that cannot be saved is named at once, without waiting for the deadline. That
// holds for a process that cannot be saved when an attempt is opened, and if that comes of work that goes on until the
// cut.
func TestCutHopeless(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1])
	hopeless := func(when string) {
		t.Helper()
		_, err := findCut(t, cut.Options{Tick: long}, nodes...)
		var f *cut.Failure
		if !errors.As(err, &f) || f.Why != barrier.RankStuck || !strings.Contains(err.Error(), "a fault, 700, has ended its use of devices; rank 1 is process") {
			t.Errorf("%s: findCut = %v, want RankStuck with the fault and the rank", when, err)
		}
		gatesOpen(t, nodes...)
	}
	r := all[1]
	release := r.p.Contexts.Block() // no message gets past the lock, so there is no cut
	r.post("cuMemsetD8Async", uint64(0), uint8(1), uint64(1), uint64(0))
	go func() {
		waitFor(t, "the attempt is opened", func() bool { return nodes[1].currentAttempt() != nil })
		r.p.Fault.Store(700)
		release()
	}()
	hopeless("in an attempt")
	hopeless("before")
}

// caller is a member at a control socket.
type caller string

// Exchange implements cut.Member.
func (path caller) Exchange(ctx context.Context, o *cut.Orders) (*cut.Events, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: string(path), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	c := NewController(conn)
	defer c.Close()
	return c.Exchange(ctx, o)
}

// TestCutControl: the orders of a leader go over a control socket, and the errors keep their kinds.
func TestCutControl(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1])
	var members []cut.Member
	for _, s := range nodes {
		path, _ := serveControl(t, s)
		members = append(members, caller(path))
	}
	all[0].sumUp(commA, all[0].alloc(64))
	time.AfterFunc(20*time.Millisecond, func() { all[1].sumUp(commA, all[1].alloc(64)) })
	number := attempts.Add(1)
	c, err := cut.Find(t.Context(), members, cut.Options{Attempt: number, Tick: 10 * time.Millisecond, Deadline: long, LeaderTimeout: long})
	if err != nil {
		t.Fatal(err)
	}
	checkCut(t, c, nodes...)
	mustOpen(t, c)
	gatesOpen(t, nodes...)
	if _, err := cut.Find(t.Context(), members, cut.Options{Attempt: number}); !errors.Is(err, cut.ErrForgotten) {
		t.Error(err)
	}
	if _, err := nodes[0].Save(t.Context(), Folder(t.TempDir()), SaveOptions{}); err != nil && !errors.Is(err, ErrNotSaved) {
		t.Error(err)
	}
}
