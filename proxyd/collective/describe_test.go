// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"testing"
)

// fixed is a meeting of known members.
type fixed Roster

func (f fixed) Meet(context.Context, string, int, Member) (Roster, error) { return Roster(f), nil }

// makeAgain makes the described communicators in other nodes: all[p] in nodes[p]. It makes none for processes that have
// left.
func (w *world) makeAgain(nodes []*Node, all []Description, left ...int) []*Comm {
	w.t.Helper()
	f := fixed{Key: AuthCode(all[0].Key, []byte("a test"))}
	for p, d := range all {
		f.Members = append(f.Members, Member{Ranks: d.Ranks, Address: nodes[p].Address(), Server: p, Gone: len(left) > 0 && left[0] == p})
	}
	comms := make([]*Comm, len(all))
	for p, d := range all {
		if f.Members[p].Gone {
			continue
		}
		c, err := nodes[p].Start(w.t.Context(), Spec{ID: d.ID, Size: d.Size, Ranks: d.Ranks, Splits: d.Splits}, f)
		if err != nil {
			w.t.Fatal(err)
		}
		comms[p] = c
	}
	for _, c := range comms {
		if c != nil {
			w.ready(c)
		}
	}
	return comms
}

// TestDescribe: a communicator that is made again elsewhere keeps its name, and a later split gives the same names as
// it would have before.
func TestDescribe(t *testing.T) {
	home := []int{0, 1, 0, 2}
	quiet := newWorld(t, home, nil)
	old := newWorld(t, home, nil)
	colours, keys := []int{0, 0, 1, 1}, make([]int, 4)
	quiet.splitAll(colours, keys)
	old.splitAll(colours, keys)
	var all []Description
	for _, c := range old.comms {
		d, ok := c.Describe()
		if !ok {
			t.Fatal("a communicator that was made has no description")
		}
		all = append(all, d)
	}
	if d := all[2]; d.ID != "world" || d.Size != 4 || !reflect.DeepEqual(d.Ranks, []int{3}) || d.Splits != 1 || !reflect.DeepEqual(d.Servers, []int{0, 0, 0, 0}) {
		t.Errorf("description of process 2 = %+v", d)
	}
	for _, n := range old.nodes {
		n.Close()
	}
	next := newNodes(t, home, nil, Config{})
	next.comms = next.makeAgain(next.nodes, all)
	if d, _ := next.comms[1].Describe(); !reflect.DeepEqual(d.Servers, []int{0, 1, 0, 2}) || reflect.DeepEqual(d.Key, all[1].Key) {
		t.Errorf("description after the communicator was made again = %+v", d)
	}
	want := quiet.splitAll(colours, keys)
	for i, got := range next.splitAll(colours, keys) {
		if got.comm.ID() != want[i].comm.ID() || got.rank != want[i].rank {
			t.Errorf("rank %d is %d of %s, not %d of %s", got.old, got.rank, got.comm.ID(), want[i].rank, want[i].comm.ID())
		}
		next.ready(got.comm)
		if d, _ := got.comm.Describe(); d.Servers[got.rank] != home[got.old] {
			t.Errorf("after the split, Servers of rank %d = %v", got.rank, d.Servers)
		}
	}
}

// TestGone: no process waits for a process that had left; operations that need its data return an error.
func TestGone(t *testing.T) {
	home := []int{0, 1, 2}
	old := newWorld(t, home, nil)
	var all []Description
	for _, c := range old.comms {
		d, _ := c.Describe()
		all = append(all, d)
	}
	for _, gone := range []int{0, 1, 2} {
		next := newNodes(t, home, nil, Config{})
		comms := next.makeAgain(next.nodes, all, gone)
		here, other := (gone+1)%3, (gone+2)%3
		next.comms = comms
		b := []byte{1}
		err := next.issueGroups(comms, map[int][]Op{
			here:  {{Kind: Send, Type: Int8, Count: 1, Peer: other, Send: b}},
			other: {{Kind: Recv, Type: Int8, Count: 1, Peer: here, Recv: make([]byte, 1)}},
		})
		if err != nil {
			t.Errorf("an operation between the members that are there: %v", err)
		}
		if !comms[here].quietly(other) {
			t.Error("a peer that has left is not reported as gone")
		}
		err = next.issueGroups(comms, map[int][]Op{here: {{Kind: AllReduce, Type: Int8, Count: 1, Send: b, Recv: make([]byte, 1)}}})
		if !errors.Is(err, ErrLeft) {
			t.Errorf("an operation with a member that has left: %v", err)
		}
	}
}

// quietly tells whether, as far as this process knows, only process other has not left.
func (c *Comm) quietly(other int) bool {
	for p, l := range c.links {
		if l != nil && l.peerIsGone() == (p == other) {
			return false
		}
	}
	return true
}

// TestHasLeft: a process that destroys a communicator knows whether all other processes have done so before.
func TestHasLeft(t *testing.T) {
	w := newWorld(t, []int{0, 1}, nil)
	if w.comms[0].HasLeft() {
		t.Error("a member that is there is said to have left")
	}
	if err := w.comms[0].Destroy(0); err != nil {
		t.Fatal(err)
	}
	for !w.comms[0].HasLeft() {
		runtime.Gosched() // until the process has said goodbye
	}
	if err := w.comms[1].Destroy(1); err != nil {
		t.Fatal(err)
	}
	for p, c := range w.comms {
		waitForValue(t, c.Done())
		if c.HasLeft() {
			t.Errorf("process %d: HasLeft is true, although all members were destroyed", p)
		}
	}
}
