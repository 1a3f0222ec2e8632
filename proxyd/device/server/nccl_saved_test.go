// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// TestMovedCommunicators: ranks of a single server and of several go on in others, with their splits, at other
// addresses.
func TestMovedCommunicators(t *testing.T) {
	const commC, commD = 0x40003, 0x40004
	for _, tc := range []struct {
		name string
		on   []int
	}{{"one server", []int{0, 0, 0, 0}}, {"two", []int{0, 1, 0, 1}}, {"blocks", []int{0, 0, 1, 1}}, {"three", []int{2, 1, 0, 2}}} {
		t.Run(tc.name, func(t *testing.T) {
			n := 0
			for _, i := range tc.on {
				n = max(n, i+1)
			}
			job := makeNumbered(t, "test", n)
			var on []*Server
			for _, i := range tc.on {
				on = append(on, job[i])
			}
			all := makeRanks(t, on...)
			splitBy(all, commA, commB, 0, 1, 0, 1)
			for i, r := range all {
				if state, size, rank, _ := r.waitForState(commB); state != 0 || size != 2 || int(rank) != i/2 {
					t.Fatalf("rank %d: %d: %d of %d", i, state, rank, size)
				}
			}
			checkSums(t, all, commA, 10)
			names := map[string]string{}
			for life := range 3 {
				next := makeNumbered(t, "other", n)
				movedJob(t, job, next)
				job = next
				checkSums(t, all, commA, 10)
				checkSums(t, []rank{all[0], all[2]}, commB, 3)
				checkSums(t, []rank{all[3], all[1]}, commB, 3)
				// A communicator made by this split has a name that all agree on, and that was never there before.
				to := uint64(commC + 0x10*life)
				splitBy(all, commA, to, 5, 5, 5, -1)
				for i, r := range all[:3] {
					if state, size, rank, _ := r.waitForState(to); state != 0 || size != 3 || int(rank) != i {
						t.Fatalf("rank %d: %d: %d of %d", i, state, rank, size)
					}
				}
				checkSums(t, all[:3], to, 6)
				name := nameOf(t, job, tc.on[0], all[0], to)
				if names[name] != "" || name != nameOf(t, job, tc.on[1], all[1], to) {
					t.Errorf("the name %q was given before, or is not that of all: %v", name, names)
				}
				names[name] = "given"
			}
			for _, r := range all {
				r.must("comm_finalize", uint64(commA))
				r.must("ncclCommDestroy", uint64(commA))
				r.want(ncclInvalidArgument, "comm_state", uint64(commA), uint32(0))
				r.must("ncclCommAbort", uint64(commB))
			}
			makeComm(t, all, commD)
			checkSums(t, all, commD, 10)
		})
	}
}

// TestMovedMembers: reductions, registered buffers, and destroyed, failed or finalized communicators.
func TestMovedMembers(t *testing.T) {
	job := makeNumbered(t, "test", 1)
	all := makeRanks(t, job[0], job[0])
	makeComm(t, all, commB)
	var ops, regs []uint64
	var at []uint64
	for _, r := range all {
		a := r.alloc(64)
		at = append(at, a)
		r.writeInts(a, 5)
		ops = append(ops, uint64(binary.LittleEndian.Uint32(r.must("redop_create", []byte{3, 0, 0, 0}, uint32(4), uint64(0), int32(ncclInt32), int32(1), uint64(commA)))))
		regs = append(regs, r.callForNumber("ncclCommRegister", uint64(commA), a, uint64(64)))
		r.must("comm_finalize", uint64(commA))
	}
	all[0].must("redop_create", []byte{9, 0, 0, 0}, uint32(4), uint64(0), int32(ncclInt32), int32(1), uint64(commA))
	all[0].must("ncclRedOpDestroy", int32(6), uint64(commA))
	all[1].must("ncclCommAbort", uint64(commB))
	for int32(all[0].must("comm_state", uint64(commB), uint32(0))[0]) != ncclRemoteError {
		continue
	}
	why := string(all[0].must("comm_error", uint64(commB), uint32(512)))
	next := makeNumbered(t, "other", 1)
	movedJob(t, job, next)
	for i, r := range all {
		if state, size, rank, dev := r.waitForState(commA); state != 0 || size != 2 || int(rank) != i || int(dev) != i {
			t.Errorf("rank %d: %d, %d of %d on %d", i, state, rank, size, dev)
		}
		r.issueGroup(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Op: dispatch.Redop(ops[i]), Count: 1, Src: dispatch.Devptr(at[i]), Dst: dispatch.Devptr(at[i] + 8), Comm: commA})
	}
	for i, r := range all {
		if got := r.readInts(at[i]+8, 1)[0]; got != 2*5*3 {
			t.Errorf("rank %d has %d", i, got)
		}
		r.must("ncclRedOpDestroy", int32(ops[i]), uint64(commA))
		r.must("ncclCommDeregister", uint64(commA), regs[i])
		if again := r.callForNumber("ncclCommRegister", uint64(commA), at[i], uint64(64)); again == regs[i] {
			t.Error("a handle was given out twice")
		}
		want := uint32(6)
		if i == 0 {
			want = 7
		}
		if op := binary.LittleEndian.Uint32(r.must("redop_create", []byte{3, 0, 0, 0}, uint32(4), uint64(0), int32(ncclInt32), int32(1), uint64(commA))); op != want {
			t.Errorf("rank %d: a reduction is %d, want %d", i, op, want)
		}
	}
	if state := int32(all[0].must("comm_state", uint64(commB), uint32(0))[0]); state != ncclRemoteError {
		t.Errorf("a failed communicator is %d after the restore", state)
	}
	if got := string(all[0].must("comm_error", uint64(commB), uint32(512))); got != why {
		t.Errorf("the reason is %q, and was %q", got, why)
	}
	all[1].want(ncclInvalidArgument, "comm_state", uint64(commB), uint32(0))
	all[0].must("ncclCommAbort", uint64(commB))
	all[0].must("cuCtxSynchronize")
}

// TestMovedRendezvous: a rank that waits for other ranks asks again, at the identity's maker, wherever that is; and
// identities to which no rank has come yet are good still.
func TestMovedRendezvous(t *testing.T) {
	job := makeNumbered(t, "test", 2)
	all := makeRanks(t, job[0], job[1], job[0])
	waiting, unused := [128]byte(all[1].must("ncclGetUniqueId")), [128]byte(all[0].must("ncclGetUniqueId"))
	for _, i := range []int{0, 1} {
		all[i].init(commB, 3, i, waiting)
		if b := all[i].must("comm_state", uint64(commB), uint32(0)); int32(b[0]) != ncclInProgress {
			t.Fatalf("rank %d: %v", i, b)
		}
	}
	for range 2 {
		next := makeNumbered(t, "other", 2)
		movedJob(t, job, next)
		job = next
	}
	for _, i := range []int{0, 1} {
		if b := all[i].must("comm_state", uint64(commB), uint32(0)); int32(b[0]) != ncclInProgress {
			t.Errorf("rank %d: %v", i, b)
		}
	}
	all[2].init(commB, 3, 2, waiting)
	for i, r := range all {
		if state, size, rank, _ := r.waitForState(commB); state != 0 || size != 3 || int(rank) != i {
			t.Fatalf("rank %d: %d: %d of %d", i, state, rank, size)
		}
	}
	checkSums(t, all, commB, 6)
	for i, r := range all {
		r.init(0x40009, 3, i, unused)
	}
	for i, r := range all {
		if state, _, _, _ := r.waitForState(0x40009); state != 0 {
			t.Errorf("rank %d: %d", i, state)
		}
	}
}

// TestMovedBeforeMeeting: a server with ranks that had an identity of another server, and had not gone there yet, finds that
// server's successor.
func TestMovedBeforeMeeting(t *testing.T) {
	job, next := makeNumbered(t, "test", 2), makeNumbered(t, "other", 2)
	var all []rank
	for _, s := range job {
		p, cs := attachProcess(t, s, 1)
		cs[0].beginContext(ctxA, 0)
		all = append(all, rank{cs[0], p})
	}
	id := [128]byte(all[0].must("ncclGetUniqueId"))
	folders, rings := saveAndEnd(t, job, 0)
	peers := takePlaces(t, next, folders, rings)
	if peers[0] == "" || peers[1] != "" {
		t.Fatalf("addresses %v, want one of the server that has made an identity, and none of the other", peers)
	}
	reconnectAll(t, next, peers)
	for i, r := range all {
		r.init(commB, 2, i, id)
	}
	for i, r := range all {
		if state, size, rank, _ := r.waitForState(commB); state != 0 || size != 2 || int(rank) != i {
			t.Errorf("rank %d: state %d, %d of %d", i, state, rank, size)
		}
	}
	checkSums(t, all, commB, 3)
}

// TestMovedLeavers: ranks that have left are not waited for: a rank that needs them is told, another rank ends in
// peace.
func TestMovedLeavers(t *testing.T) {
	for _, tc := range []struct {
		name string
		on   []int
	}{{"one server", []int{0, 0, 0}}, {"a server of its own", []int{0, 0, 1}}, {"the first", []int{1, 1, 0}}} {
		t.Run(tc.name, func(t *testing.T) {
			job := makeNumbered(t, "test", 2)
			var on []*Server
			for _, i := range tc.on {
				on = append(on, job[i])
			}
			all := makeRanks(t, on...)
			makeComm(t, all, commB)
			all[2].must("ncclCommDestroy", uint64(commA))
			all[2].p.endProcess("a test")
			<-all[2].p.gone
			next := makeNumbered(t, "other", 2)
			movedJob(t, job, next)
			for _, r := range all[:2] {
				for _, comm := range []uint64{commA, commB} {
					if state, size, _, _ := r.waitForState(comm); state != 0 || size != 3 {
						t.Errorf("%d of %d", state, size)
					}
				}
				r.must("comm_finalize", uint64(commA))
				r.must("ncclCommDestroy", uint64(commA))
			}
			all[0].issueGroup(dispatch.Ncclop{Kind: int32(collective.Send), Type: ncclInt32, Count: 1, Root: 2, Src: dispatch.Devptr(all[0].alloc(64)), Comm: commB})
			for int32(all[1].must("comm_state", uint64(commB), uint32(0))[0]) != ncclRemoteError {
				continue
			}
			for _, r := range all[:2] {
				r.must("ncclCommAbort", uint64(commB))
				r.must("cuCtxSynchronize")
			}
		})
	}
}

// TestMovedFailures: the error of a reconnection has the number of the server, and the reconnection may be tried again.
func TestMovedFailures(t *testing.T) {
	job := makeNumbered(t, "test", 2)
	all := makeRanks(t, job[0], job[1])
	folders, rings := saveAndEnd(t, job, 0)
	stale := makeNumbered(t, "stale", 2)
	old := takePlaces(t, stale, folders, make([]map[uint64]*os.File, 2))
	next := makeNumbered(t, "other", 2)
	peers := takePlaces(t, next, folders, rings)
	// Saved now, the communicator is unchanged.
	for i, s := range next {
		again := Folder(t.TempDir())
		saveJob(t, s, again, SaveOptions{})
		if was, is := communicatorsOf(t, folders[i]), communicatorsOf(t, again); was != is {
			t.Errorf("server %d: it was %s, and is %s", i, was, is)
		}
	}
	if err := next[0].Resume(); err == nil || !strings.Contains(err.Error(), "rank 1 was at device server 1, with which nobody has reconnected") {
		t.Error(err)
	}
	if err := next[0].Reconnect(t.Context(), map[int]string{1: "nowhere"}); err == nil || !strings.Contains(err.Error(), `server 1: "nowhere" is no address`) {
		t.Error(err)
	}
	if err := next[0].Reconnect(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the address of server 1 is not known") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := next[0].Reconnect(ctx, peers); err == nil || !strings.Contains(err.Error(), "server 1 has not come") {
		t.Error(err)
	}
	// No server lets in a server of another life, whichever names it presents.
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := stale[1].Reconnect(ctx, map[int]string{0: old[0], 1: peers[1]}); err == nil || !strings.Contains(err.Error(), "server 0 at") {
		t.Error(err)
	}
	reconnectAll(t, next, peers)
	checkSums(t, all, commA, 3)
	if err := next[0].Reconnect(t.Context(), peers); err == nil || !strings.Contains(err.Error(), "the job is not stopped") {
		t.Error(err)
	}
}

// communicatorsOf is the description of the communicators in a save.
func communicatorsOf(t *testing.T, in Folder) string {
	t.Helper()
	st, err := readState(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal([]any{st.Network, st.Processes[0].Members})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Two servers of a single number cannot be told apart later.
func TestSameNumber(t *testing.T) {
	job := makeNumbered(t, "test", 2)
	job[1].collectives.Self = 0
	makeRanks(t, job[0], job[1])
	_, err := job[0].Save(t.Context(), Folder(t.TempDir()), SaveOptions{})
	if !errors.Is(err, ErrNotSaved) || !strings.Contains(err.Error(), "two of its device servers have the number 0") {
		t.Error(err)
	}
}

// TestMovedGraph: a graph with collectives of a communicator and of a communicator that was destroyed since, and
// a reduction that was.
func TestMovedGraph(t *testing.T) {
	job := makeNumbered(t, "test", 1)
	all := makeRanks(t, job[0], job[0])
	makeComm(t, all, commB)
	type held struct {
		*graphRig
		exec uint64
	}
	var rigs []held
	for i, r := range all {
		g := &graphRig{client: r.client, a: r.alloc(256)}
		r.writeInts(g.a, int32(i+1), 0, 7)
		r.must("cuStreamSynchronize", uint64(0)) // the stream of the graphs does not wait for the default stream
		r.must("cuStreamCreate", uint64(streamA), uint32(1))
		r.must("cuGraphCreate", uint64(graphA), uint32(0))
		op := binary.LittleEndian.Uint32(r.must("redop_create", []byte{2, 0, 0, 0}, uint32(4), uint64(0), int32(ncclInt32), int32(1), uint64(commA)))
		for j, o := range []dispatch.Ncclop{
			{Comm: commA, Op: dispatch.Redop(op), Src: dispatch.Devptr(g.a), Dst: dispatch.Devptr(g.a + 4)}, {Comm: commA, Src: dispatch.Devptr(g.a + 4), Dst: dispatch.Devptr(g.a)},
		} {
			o.Kind, o.Type, o.Count, o.Stream = int32(collective.AllReduce), ncclInt32, 1, streamA
			var after []uint64
			if j > 0 {
				after = []uint64{nodeA + uint64(j) - 1}
			}
			g.checkCaptured(0, nodeA+uint64(j), graphA, after, 0, "nccl_group", uint64(0), uint32(0), uint64(1), o, uint32(1), uint64(streamA))
		}
		r.must("ncclRedOpDestroy", int32(op), uint64(commA))
		r.must("cuGraphCreate", uint64(graphB), uint32(0))
		dead := dispatch.Ncclop{Kind: int32(collective.AllGather), Type: ncclInt32, Count: 1, Src: dispatch.Devptr(g.a), Dst: dispatch.Devptr(g.a + 64), Comm: commB, Stream: streamA}
		g.checkCaptured(0, nodeA+9, graphB, nil, 0, "nccl_group", uint64(0), uint32(0), uint64(1), dead, uint32(1), uint64(streamA))
		r.must("ncclCommDestroy", uint64(commB))
		rigs = append(rigs, held{g, g.instantiateGraph(graphA)})
	}
	launch := func(want ...int32) {
		t.Helper()
		for _, g := range rigs {
			g.post("graph_launch", g.exec, uint64(streamA))
		}
		for i, g := range rigs {
			g.must("cuStreamSynchronize", uint64(streamA))
			if got := g.readInts(g.a, 2); got[1] != want[0] || got[0] != want[1] {
				t.Errorf("rank %d has %v, want %v", i, got, want)
			}
		}
	}
	launch(6, 12)
	for _, want := range [][]int32{{48, 96}, {384, 768}} {
		next := makeNumbered(t, "other", 1)
		movedJob(t, job, next)
		job = next
		launch(want...)
	}
}
