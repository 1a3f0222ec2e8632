// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// patience is how long a test waits for an event that must come. No result depends on it.
const patience = 2 * time.Minute

// world is a communicator with all of its processes Nodes of this test.
type world struct {
	t     testing.TB
	room  *Room
	home  []int // rank → node
	nodes []*Node
	comms []*Comm
}

// newWorld makes nodes and a communicator. home tells each rank's node.
func newWorld(t testing.TB, home []int, tune func(*tuning)) *world {
	t.Helper()
	w := newNodes(t, home, tune, Config{})
	w.comms = w.createComms("world")
	return w
}

func newNodes(t testing.TB, home []int, tune func(*tuning), cfg Config) *world {
	t.Helper()
	w := &world{t: t, room: &Room{}, home: home}
	processes := 0
	for _, p := range home {
		processes = max(processes, p+1)
	}
	cfg.Listen = "127.0.0.1:0"
	if cfg.Connect == 0 { // a machine that is busy with other things is no failure
		cfg.Connect, cfg.Handshake, cfg.Linger = patience, patience, patience
	}
	for range processes {
		n, err := Listen(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if tune != nil {
			tune(&n.tuning)
		}
		t.Cleanup(n.Close)
		w.nodes = append(w.nodes, n)
	}
	return w
}

func (w *world) spec(id string, node int) Spec {
	s := Spec{ID: id, Size: len(w.home)}
	for r, p := range w.home {
		if p == node {
			s.Ranks = append(s.Ranks, r)
		}
	}
	return s
}

// startComms begins a communicator in every node.
func (w *world) startComms(id string) []*Comm {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	comms := make([]*Comm, len(w.nodes))
	for p, n := range w.nodes {
		c, err := n.Start(ctx, w.spec(id, p), w.room)
		if err != nil {
			w.t.Fatal(err)
		}
		comms[p] = c
	}
	return comms
}

func (w *world) createComms(id string) []*Comm {
	w.t.Helper()
	comms := w.startComms(id)
	for _, c := range comms {
		w.ready(c)
	}
	return comms
}

func (w *world) ready(c *Comm) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// waitForValue returns the next value from ch.
func waitForValue[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatal("no value came for a long time")
		panic("not reached")
	}
}

// issueGroups gives each rank a single group, and returns the first error of them.
func (w *world) issueGroups(comms []*Comm, ops map[int][]Op) error {
	w.t.Helper()
	done := make(chan error, len(ops))
	for rank, group := range ops {
		if err := comms[w.home[rank]].Issue(rank, group, func(err error) { done <- err }); err != nil {
			w.t.Fatal(err)
		}
	}
	var first error
	for range ops {
		if err := waitForValue(w.t, done); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// mustIssue is issueGroups of an operation of each rank on world, without an error.
func (w *world) mustIssue(ops []Op) {
	w.t.Helper()
	groups := make(map[int][]Op)
	for r, o := range ops {
		groups[r] = []Op{o}
	}
	if err := w.issueGroups(w.comms, groups); err != nil {
		w.t.Fatalf("operation %s on all ranks: %v", &ops[0], err)
	}
}

// trial is a single collective with all its buffers and the expected result.
type trial struct {
	ops  []Op
	want [][]byte // by rank; nil where the rank does not receive
}

// form is how a trial's buffers lie.
type form struct {
	inPlace bool
	odd     bool // at odd addresses
}

// makeMemory returns n zero bytes, at an odd address if asked for.
func (f form) makeMemory(n int) []byte {
	if f.odd {
		return make([]byte, n+17)[1 : n+1 : n+1]
	}
	return make([]byte, n)
}

// newTrial makes a collective with random contents, and computes the result by the definition.
func newTrial(o Op, ranks int, f form, rng *rand.Rand) *trial {
	tr := &trial{}
	one := o.Count * o.Type.Size()
	var sends, scales [][]byte
	for r := range ranks {
		op := o
		send, recv := op.Needs(r, ranks)
		op.Send, op.Recv = f.makeMemory(send), f.makeMemory(recv)
		copy(op.Send, randomVector(o.Type, send/o.Type.Size(), rng))
		if f.inPlace {
			op.place(r, one)
		}
		if o.Reduction == PreMulSum {
			op.Scale = storeCode(o.Type, randomCode(o.Type, rng))
		}
		tr.ops = append(tr.ops, op)
		sends, scales = append(sends, bytes.Clone(op.Send)), append(scales, op.Scale)
	}
	for r := range ranks {
		tr.want = append(tr.want, expectedBytes(o, r, one, sends, scales))
	}
	return tr
}

// place makes an operation work in place, as NCCL defines that for the kind of operation.
func (o *Op) place(rank, one int) {
	switch {
	case len(o.Recv) == 0 || len(o.Send) == 0:
	case o.Kind == AllGather || o.Kind == Gather:
		at := o.Recv[rank*one : (rank+1)*one]
		copy(at, o.Send)
		o.Send = at
	case o.Kind == ReduceScatter || o.Kind == Scatter:
		o.Recv = o.Send[rank*one : (rank+1)*one]
	default:
		o.Recv = o.Send
	}
}

// expectedBytes returns the bytes that rank receives, by the definition of the kind.
func expectedBytes(o Op, rank, one int, sends, scales [][]byte) []byte {
	switch {
	case rank != o.Root && (o.Kind == Reduce || o.Kind == Gather):
		return nil
	case o.Kind == AllReduce || o.Kind == Reduce:
		return oracleReduce(o.Type, o.Reduction, sends, scales)
	case o.Kind == Broadcast:
		return sends[o.Root]
	case o.Kind == Scatter:
		return sends[o.Root][rank*one : (rank+1)*one]
	}
	var out []byte
	var slices [][]byte
	for _, s := range sends {
		switch o.Kind {
		case AllGather, Gather:
			out = append(out, s...)
		default: // ReduceScatter, AllToAll
			slices = append(slices, s[rank*one:(rank+1)*one])
			out = append(out, slices[len(slices)-1]...)
		}
	}
	if o.Kind == ReduceScatter {
		return oracleReduce(o.Type, o.Reduction, slices, scales)
	}
	return out
}

// checkReceived compares the received bytes with the expected ones.
func (tr *trial) checkReceived(t testing.TB, where string) {
	t.Helper()
	for r, want := range tr.want {
		if want != nil && !bytes.Equal(tr.ops[r].Recv, want) {
			t.Fatalf("%s: %s: rank %d received other bytes than expected", where, &tr.ops[0], r)
		}
	}
}

// placementName names a placement: which process holds each rank.
func placementName(home []int) string { return fmt.Sprintf("ranks on %v", home) }
