// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// messageSizes are sizes that go different ways: no bytes, small, in a single frame, in many.
var messageSizes = []int{0, 1, 100, maxEager, maxFrame, maxFrame + 1, 3*maxFrame + 5}

// TestEverybodyToEverybody: every rank sends to every rank, itself included, in a single group, in
// any order within the group.
func TestEverybodyToEverybody(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	home := []int{0, 1, 0, 2}
	w := newWorld(t, home, nil)
	for _, size := range messageSizes {
		groups := make(map[int][]Op)
		type way struct{ from, to int }
		sent, got := map[way][]byte{}, map[way][]byte{}
		for from := range home {
			for to := range home {
				s, r := randomVector(Uint8, min(size, 1<<13), rng), make([]byte, size)
				s = append(s, make([]byte, size-len(s))...)
				sent[way{from, to}], got[way{from, to}] = s, r
				groups[from] = append(groups[from], Op{Kind: Send, Count: size, Type: Uint8, Peer: to, Send: s})
				groups[to] = append(groups[to], Op{Kind: Recv, Count: size, Type: Uint8, Peer: from, Recv: r})
			}
		}
		for _, g := range groups {
			rng.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		}
		if err := w.issueGroups(w.comms, groups); err != nil {
			t.Fatal(err)
		}
		for k, s := range sent {
			if !bytes.Equal(got[k], s) {
				t.Errorf("%d bytes from rank %d to rank %d arrived as others", size, k.from, k.to)
			}
		}
	}
}

// TestManyMessagesOfOnePair: more messages of a single pair than may be under way come in order, in a single group
// or in many.
func TestManyMessagesOfOnePair(t *testing.T) {
	const n = 5 * pairRooms
	for _, home := range [][]int{{0, 1}, {0, 0}} {
		w := newWorld(t, home, nil)
		groups := map[int][]Op{}
		got := make([]byte, 8*n)
		for i := range n {
			groups[0] = append(groups[0], Op{Kind: Send, Type: Uint64, Count: 1, Peer: 1, Send: storeCode(Uint64, uint64(i))})
			groups[1] = append(groups[1], Op{Kind: Recv, Type: Uint64, Count: 1, Peer: 0, Recv: got[8*i:]})
		}
		done := make(chan error, n+1)
		// The sender in a single group, the receiver in as many as there are messages.
		if err := w.comms[0].Issue(0, groups[0], func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		for _, o := range groups[1] {
			if err := w.comms[home[1]].Issue(1, []Op{o}, func(err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
		}
		for range n + 1 {
			if err := waitForValue(t, done); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			if v := loadCode(Uint64, got[8*i:]); v != uint64(i) {
				t.Errorf("ranks on %v: message %d has the bytes of message %d", home, i, v)
			}
		}
	}
}

// TestGroupsCannotDeadlock: two ranks that both send first and then receive, in a single group each, do
// not deadlock. Nor do groups that mix collectives and messages, in another order in each rank.
func TestGroupsCannotDeadlock(t *testing.T) {
	const size = 4 << 20 // more than sockets hold
	w := newWorld(t, []int{0, 1}, nil)
	a, b := make([]byte, size), make([]byte, size)
	x, y := make([]byte, 4), make([]byte, 4)
	err := w.issueGroups(w.comms, map[int][]Op{
		0: {
			{Kind: Send, Count: size, Peer: 1, Send: bytes.Repeat([]byte{1}, size)},
			{Kind: Recv, Count: size, Peer: 1, Recv: a},
			{Kind: AllReduce, Type: Uint32, Count: 1, Send: storeCode(Uint32, 5), Recv: x},
		},
		1: {
			{Kind: AllReduce, Type: Uint32, Count: 1, Send: storeCode(Uint32, 6), Recv: y},
			{Kind: Send, Count: size, Peer: 0, Send: bytes.Repeat([]byte{2}, size)},
			{Kind: Recv, Count: size, Peer: 0, Recv: b},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if a[size-1] != 2 || b[size-1] != 1 || loadCode(Uint32, x) != 11 || loadCode(Uint32, y) != 11 {
		t.Error("the receive buffers do not have the bytes that were sent")
	}
}

// TestOthersGoOn: a rank that does not come holds up its own communicator only, and there only the operations that
// need this rank.
func TestOthersGoOn(t *testing.T) {
	home := []int{0, 1, 0, 1}
	w := newWorld(t, home, nil)
	other := w.createComms("other")
	late := make(chan error, 4)
	var recv [4][4]byte
	for rank := range 3 { // rank 3 does not come yet
		op := Op{Kind: AllReduce, Type: Uint32, Count: 1, Send: storeCode(Uint32, 1), Recv: recv[rank][:]}
		if err := w.comms[home[rank]].Issue(rank, []Op{op}, func(err error) { late <- err }); err != nil {
			t.Fatal(err)
		}
	}
	// A thousand small messages of the other rank: more than all windows.
	for range 1000 {
		groups := map[int][]Op{}
		for rank := range home {
			groups[rank] = []Op{{Kind: Broadcast, Count: 1, Root: 2, Send: []byte{7}, Recv: make([]byte, 1)}}
		}
		if err := w.issueGroups(other, groups); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-late:
		t.Fatalf("a collective ended without one of its ranks: %v", err)
	default:
	}
	if w.comms[0].Quiet() {
		t.Error("a process with an operation under way says that it is quiet")
	}
	op := Op{Kind: AllReduce, Type: Uint32, Count: 1, Send: storeCode(Uint32, 1), Recv: recv[3][:]}
	if err := w.comms[1].Issue(3, []Op{op}, func(err error) { late <- err }); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := waitForValue(t, late); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRootRunsAhead: a root may be ahead of the other ranks by more than the window.
func TestRootRunsAhead(t *testing.T) {
	const n = 10 * window
	w := newWorld(t, []int{0, 1}, nil)
	done := make(chan error, 2*n)
	got := make([][]byte, n)
	for i := range n {
		op := Op{Kind: Broadcast, Count: 1, Send: []byte{byte(i)}, Recv: make([]byte, 1)}
		if err := w.comms[0].Issue(0, []Op{op}, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		got[i] = make([]byte, 1)
		op := Op{Kind: Broadcast, Count: 1, Recv: got[i]}
		if err := w.comms[1].Issue(1, []Op{op}, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * n {
		if err := waitForValue(t, done); err != nil {
			t.Fatal(err)
		}
	}
	for i, b := range got {
		if b[0] != byte(i) {
			t.Fatalf("broadcast %d brought the bytes of broadcast %d", i, b[0])
		}
	}
}

func TestGroupOfCommunicators(t *testing.T) {
	w := newWorld(t, []int{0, 1}, nil)
	other := w.createComms("other")
	done := make(chan error, 2)
	var got [2][2][4]byte
	for rank := range 2 {
		var calls []Call
		for i, c := range [][]*Comm{w.comms, other} {
			op := Op{Kind: AllReduce, Type: Int32, Count: 1, Send: storeCode(Int32, uint64(rank+i)), Recv: got[rank][i][:]}
			calls = append(calls, Call{c[rank], rank, op})
		}
		if err := Group(calls, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := waitForValue(t, done); err != nil {
			t.Fatal(err)
		}
	}
	for rank := range 2 {
		if a, b := got[rank][0][0], got[rank][1][0]; a != 1 || b != 3 {
			t.Errorf("rank %d got %d and %d, want 1 and 3", rank, a, b)
		}
	}
	// With a single bad operation, the whole group is refused.
	calls := []Call{
		{w.comms[0], 0, Op{Kind: AllReduce, Count: 1, Send: make([]byte, 1), Recv: make([]byte, 1)}},
		{other[0], 0, Op{Kind: AllReduce, Count: 2, Send: make([]byte, 1), Recv: make([]byte, 1)}},
	}
	if err := Group(calls, func(error) { t.Error("done was called") }); !errors.Is(err, ErrArgument) {
		t.Errorf("a bad group: %v", err)
	}
	if issued, _ := w.comms[0].Counts(0); issued != 1 {
		t.Errorf("%d operations were issued, want 1", issued)
	}
}
