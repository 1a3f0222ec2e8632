// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

const (
	commA = 0x40001
	commB = 0x40002

	ncclInt32 = 2
	ncclSum   = 0

	ncclInvalidArgument = int32(dispatch.ResultNcclInvalidArgument)
	ncclInvalidUsage    = int32(dispatch.ResultNcclInvalidUsage)
	ncclRemoteError     = int32(dispatch.ResultNcclRemoteError)
	ncclInProgress      = int32(dispatch.ResultNcclInProgress)
)

// rank is a process with a single communicator.
type rank struct {
	*client
	p *process
}

// init begins to make a communicator.
func (c *client) init(comm uint64, ranks, rank int, id [128]byte) {
	c.t.Helper()
	c.must("comm_init", comm, int32(ranks), int32(rank), uint64(1), id, int32(1), uint64(0), uint64(0), uint32(0))
}

// waitForState waits until a communicator is no longer in progress.
func (c *client) waitForState(comm uint64) (state, size, rank, dev int32) {
	c.t.Helper()
	for {
		b := c.must("comm_state", comm, uint32(1))
		n := func(i int) int32 { return int32(binary.LittleEndian.Uint32(b[4*i:])) }
		if n(0) != ncclInProgress {
			return n(0), n(1), n(2), n(3)
		}
	}
}

// issueGroup issues operations.
func (c *client) issueGroup(ops ...dispatch.Ncclop) {
	args := []any{uint64(0), uint32(0), uint64(len(ops))}
	for _, o := range ops {
		args = append(args, o)
	}
	c.post("nccl_group", append(args, uint32(len(ops)), uint64(ops[0].Stream))...)
}

// makeRanks makes a process for each rank, on the server and the device of its number there, and a communicator of all.
func makeRanks(t testing.TB, servers ...*Server) []rank {
	t.Helper()
	var all []rank
	for r, s := range servers {
		p, cs := attachProcess(t, s, 1)
		cs[0].beginContext(ctxA, int32(r%len(s.devices)))
		all = append(all, rank{cs[0], p})
	}
	makeComm(t, all, commA)
	return all
}

// makeComm makes a communicator of ranks.
func makeComm(t testing.TB, all []rank, comm uint64) {
	t.Helper()
	id := [128]byte(all[0].must("ncclGetUniqueId"))
	for i, r := range all {
		r.init(comm, len(all), i, id)
	}
	for i, r := range all {
		if state, size, rank, dev := r.waitForState(comm); state != 0 || int(size) != len(all) || int(rank) != i || int(dev) != i%len(r.p.View) {
			t.Fatalf("rank %d: state %d, rank %d of %d on device %d", i, state, rank, size, dev)
		}
	}
}

func (c *client) writeInts(a uint64, values ...int32) {
	b, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		c.t.Fatal(err)
	}
	c.post("copy_in", a, b, uint64(len(b)), uint64(0))
}

func (c *client) readInts(a uint64, n int) []int32 {
	c.t.Helper()
	out := make([]int32, n)
	if _, err := binary.Decode(c.readBytes(a, uint64(4*n)), binary.LittleEndian, out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// makeServers makes servers that find each other, of two devices each.
func makeServers(t testing.TB, n int) []*Server {
	var all []*Server
	for i := range n {
		s := newServer(t, 2)
		s.collectives.Self = i
		s.collectives.Open = nccl.OverTCP("127.0.0.1")
		all = append(all, s)
	}
	return all
}

// TestCollectives: ranks on a single server, on two, in a block and in turns, two on a single device.
func TestCollectives(t *testing.T) {
	for _, tc := range []struct {
		name string
		on   []int
	}{
		{"one", []int{0}},
		{"two of one server", []int{0, 0}},
		{"two servers", []int{0, 1}},
		{"four in turns", []int{0, 1, 0, 1}},
		{"five in blocks", []int{0, 0, 0, 1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nodes := makeServers(t, 2)
			var on []*Server
			for _, i := range tc.on {
				on = append(on, nodes[i])
			}
			all := makeRanks(t, on...)
			n := len(all)
			var src, dst []uint64
			sum := int32(0)
			for i, r := range all {
				src, dst = append(src, r.alloc(4096)), append(dst, r.alloc(4096))
				r.writeInts(src[i], int32(i+1), int32(10*i))
				sum += int32(i + 1)
				r.issueGroup(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 1, Src: dispatch.Devptr(src[i]), Dst: dispatch.Devptr(dst[i]), Comm: commA})
				r.issueGroup( // a ring
					dispatch.Ncclop{Kind: int32(collective.Send), Type: ncclInt32, Count: 2, Root: int32((i + 1) % n), Src: dispatch.Devptr(src[i]), Comm: commA},
					dispatch.Ncclop{Kind: int32(collective.Recv), Type: ncclInt32, Count: 2, Root: int32((i + n - 1) % n), Dst: dispatch.Devptr(dst[i] + 4), Comm: commA},
				)
				r.issueGroup(dispatch.Ncclop{Kind: int32(collective.AllGather), Type: ncclInt32, Count: 1, Src: dispatch.Devptr(dst[i]), Dst: dispatch.Devptr(dst[i] + 64), Comm: commA})
			}
			for i, r := range all {
				from := (i + n - 1) % n
				got := r.readInts(dst[i], 16+n)
				if got[0] != sum || got[1] != int32(from+1) || got[2] != int32(10*from) {
					t.Errorf("rank %d has %v, want the sum %d", i, got[:3], sum)
				}
				for j := range n {
					if got[16+j] != sum {
						t.Errorf("rank %d has gathered %v", i, got[16:])
					}
				}
				r.must("ncclCommDestroy", uint64(commA))
				r.want(ncclInvalidArgument, "ncclCommDestroy", uint64(commA))
			}
		})
	}
}

// TestGroupOverStreams: a single group of two communicators on three streams is issued when all streams have reached the group.
func TestGroupOverStreams(t *testing.T) {
	s := newServer(t, 2)
	all := makeRanks(t, s, s)
	makeComm(t, all, commB)
	var at [2]uint64
	for i, r := range all {
		at[i] = r.alloc(64)
		r.must("cuStreamCreate", uint64(streamA), uint32(1))
		r.must("cuStreamCreate", uint64(streamB), uint32(1))
		r.writeInts(at[i], 1, 2, 4, 0)
		r.must("cuCtxSynchronize")
		op := func(comm dispatch.Comm, n uint64, st dispatch.Stream) dispatch.Ncclop {
			a := dispatch.Devptr(at[i] + 4*n)
			return dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 1, Src: a, Dst: a, Comm: comm, Stream: st}
		}
		// The group waits for the flag, for one of its streams does.
		r.post("cuStreamWaitValue32_v2", uint64(streamA), at[i]+12, uint32(1), uint32(1))
		r.issueGroup(op(commA, 0, streamA), op(commB, 1, streamB), op(commA, 2, streamB))
		r.must("comm_finalize", uint64(commA))
	}
	for _, r := range all {
		r.want(notReady, "cuStreamQuery", uint64(streamB))
		if b := r.must("comm_state", uint64(commA), uint32(0)); int32(b[0]) != ncclInProgress {
			t.Errorf("finalized with work in flight: %v", b)
		}
	}
	for i, r := range all {
		r.must("cuStreamCreate", uint64(0x20003), uint32(1))
		r.post("cuStreamWriteValue32_v2", uint64(0x20003), at[i]+12, uint32(1), uint32(0))
	}
	for i, r := range all {
		r.must("cuStreamSynchronize", uint64(streamA))
		r.must("cuStreamSynchronize", uint64(streamB))
		if got := r.readInts(at[i], 3); got[0] != 2 || got[1] != 4 || got[2] != 8 {
			t.Errorf("rank %d has %v", i, got)
		}
		if state, _, _, _ := r.waitForState(commA); state != 0 {
			t.Errorf("rank %d: finalized: %d", i, state)
		}
	}
}

func TestSplit(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes[0], nodes[1], nodes[0], nodes[1], nodes[0])
	color := []int32{0, 0, 1, 1, collective.NoColour}
	key := []int32{1, 0, 0, 0, 0}
	want := []int32{1, 0, 0, 1, 0}
	for i, r := range all {
		r.must("comm_split", uint64(commA), color[i], key[i], uint64(commB), uint64(0), uint64(0), uint32(0))
	}
	for i, r := range all {
		if color[i] < 0 {
			r.want(ncclInvalidArgument, "comm_state", uint64(commB), uint32(0))
			continue
		}
		if state, size, rank, _ := r.waitForState(commB); state != 0 || size != 2 || rank != want[i] {
			t.Errorf("rank %d: %d, rank %d of %d", i, state, rank, size)
		}
	}
	for i, r := range all[:4] {
		a := r.alloc(64)
		r.writeInts(a, int32(1<<i))
		r.issueGroup(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 1, Src: dispatch.Devptr(a), Dst: dispatch.Devptr(a), Comm: commB})
		defer func() {
			if got := r.readInts(a, 1)[0]; got != int32(3<<(i/2*2)) {
				t.Errorf("rank %d has %d", i, got)
			}
		}()
	}
}

func TestFactor(t *testing.T) {
	s := newServer(t, 2)
	all := makeRanks(t, s, s)
	for _, device := range []bool{false, true} {
		var at []uint64
		for i, r := range all {
			a := r.alloc(64)
			at = append(at, a)
			r.writeInts(a, 5, int32(i+2))
			var op []byte
			if device {
				op = r.must("redop_create", []byte{}, uint32(0), a+4, int32(ncclInt32), int32(0), uint64(commA))
			} else {
				op = r.must("redop_create", []byte{byte(i + 2), 0, 0, 0}, uint32(4), uint64(0), int32(ncclInt32), int32(1), uint64(commA))
			}
			redop := dispatch.Redop(binary.LittleEndian.Uint32(op))
			r.issueGroup(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Op: redop, Count: 1, Src: dispatch.Devptr(a), Dst: dispatch.Devptr(a + 8), Comm: commA})
			r.must("ncclRedOpDestroy", int32(redop), uint64(commA))
			r.want(ncclInvalidArgument, "ncclRedOpDestroy", int32(redop), uint64(commA))
		}
		for i, r := range all {
			if got := r.readInts(at[i]+8, 1)[0]; got != 5*2+5*3 {
				t.Errorf("in device %v: rank %d has %d", device, i, got)
			}
		}
	}
}

// allReduce carries out an all-reduce of a new integer.
func (r *rank) allReduce(t *testing.T, count uint64) uint64 {
	t.Helper()
	a := r.alloc(64)
	r.writeInts(a, 1)
	r.issueGroup(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Op: ncclSum, Count: count, Src: dispatch.Devptr(a), Dst: dispatch.Devptr(a), Comm: commA})
	return a
}

// A rank dies in a collective: the other ranks are told, and their streams go on when they abort.
func TestDeath(t *testing.T) {
	for _, tc := range []struct {
		name string
		on   []int
		die  func(r rank)
		want int32 // of the survivors
	}{
		{"killed, one server", []int{0, 0, 0}, func(r rank) { r.p.endProcess("a test") }, ncclRemoteError},
		{"killed, two servers", []int{0, 1, 1}, func(r rank) { r.p.endProcess("a test") }, ncclRemoteError},
		{"aborted", []int{0, 0, 1}, func(r rank) { r.must("ncclCommAbort", uint64(commA)) }, ncclRemoteError},
		{"destroyed", []int{0, 0, 1}, func(r rank) { r.must("ncclCommDestroy", uint64(commA)) }, ncclRemoteError},
		{"its context destroyed", []int{0, 0, 1}, func(r rank) { r.must("cuCtxDestroy_v2", uint64(ctxA)) }, ncclRemoteError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nodes := makeServers(t, 2)
			for _, s := range nodes {
				s.collectives.AbortTime = time.Hour
			}
			var on []*Server
			for _, i := range tc.on {
				on = append(on, nodes[i])
			}
			all := makeRanks(t, on...)
			for _, r := range all[:2] {
				r.allReduce(t, 1)
			}
			tc.die(all[2])
			for i, r := range all[:2] {
				for {
					state := int32(r.must("comm_state", uint64(commA), uint32(0))[0])
					if state == tc.want {
						break
					}
					if state != 0 {
						t.Fatalf("rank %d: %d", i, state)
					}
				}
				if why := r.must("comm_error", uint64(commA), uint32(512)); len(why) < 9 {
					t.Errorf("rank %d: no reason", i)
				}
				r.want(notReady, "cuStreamQuery", uint64(0))
				r.must("ncclCommAbort", uint64(commA))
				r.must("cuStreamSynchronize", uint64(0))
			}
		})
	}
}

// A program that does not look at the error does not go on with data that it has not received.
func TestMercyEnds(t *testing.T) {
	s := newServer(t, 2)
	s.collectives.AbortTime = time.Millisecond
	all := makeRanks(t, s, s)
	all[0].allReduce(t, 1)
	all[1].p.endProcess("a test")
	all[0].want(int32(backend.LaunchFailed), "cuCtxSynchronize")
}

func TestMismatch(t *testing.T) {
	s := newServer(t, 2)
	all := makeRanks(t, s, s)
	for i, r := range all {
		r.allReduce(t, uint64(i+1))
	}
	for i, r := range all {
		for int32(r.must("comm_state", uint64(commA), uint32(0))[0]) != ncclInvalidUsage {
			if r.isClosed() {
				t.Fatalf("rank %d is gone", i)
			}
		}
	}
}

// A fault of a single rank's device is the end of the communicator, not of the other ranks' patience.
func TestBadBuffer(t *testing.T) {
	s := newServer(t, 2)
	all := makeRanks(t, s, s)
	all[0].issueGroup(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 1, Src: 12345, Dst: 12345, Comm: commA})
	all[1].allReduce(t, 1)
	all[0].want(int32(backend.IllegalAddress), "cuCtxSynchronize")
	for int32(all[1].must("comm_state", uint64(commA), uint32(0))[0]) != ncclRemoteError {
		continue
	}
	all[1].must("ncclCommAbort", uint64(commA))
	all[1].must("cuCtxSynchronize")
}

// A single process may be all ranks, each with a device.
func TestOneProcess(t *testing.T) {
	s := newServer(t, 2)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.beginContext(ctxA, 0)
	c.beginContext(ctxB, 1)
	id := [128]byte(c.must("ncclGetUniqueId"))
	comms, contexts := []uint64{commA, commB}, []uint64{ctxA, ctxB}
	var at []uint64
	var ops []dispatch.Ncclop
	for i, comm := range comms {
		c.context = contexts[i]
		c.init(comm, 2, i, id)
		at = append(at, c.alloc(64))
		c.writeInts(at[i], int32(i+1))
		ops = append(ops, dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 1, Src: dispatch.Devptr(at[i]), Dst: dispatch.Devptr(at[i]), Comm: dispatch.Comm(comm)})
	}
	for _, comm := range comms {
		if state, _, _, _ := c.waitForState(comm); state != 0 {
			t.Fatalf("state of communicator %#x = %v, want 0", comm, state)
		}
	}
	c.issueGroup(ops...)
	for i := range comms {
		c.context = contexts[i]
		if got := c.readInts(at[i], 1)[0]; got != 3 {
			t.Errorf("rank %d has %d", i, got)
		}
	}
}

// TestHostileGroups sends groups that no shim would send. The server and the other process go on.
func TestHostileGroups(t *testing.T) {
	s := newServer(t, 2)
	random := rand.New(rand.NewPCG(1, 2))
	odd := func(from ...uint64) uint64 {
		if random.IntN(4) == 0 {
			return random.Uint64()
		}
		return from[random.IntN(len(from))]
	}
	for range 60 {
		all := makeRanks(t, s, s)
		r := all[0]
		a := r.alloc(1 << 20)
		r.must("cuStreamCreate", uint64(streamA), uint32(0))
		var ops []dispatch.Ncclop
		for range 1 + random.IntN(4) {
			ops = append(ops, dispatch.Ncclop{
				Kind: int32(odd(0, 1, 2, 3, 8, 9, 10, math.MaxUint64)), Type: int32(odd(0, 2, 7, 11, 12, 255, 256)), Op: dispatch.Redop(odd(0, 4, 5, 6)),
				Root: int32(odd(0, 1, 2)), Count: odd(0, 1, 64, math.MaxUint64/8, 1<<62), Src: dispatch.Devptr(odd(a, a+1<<20-1, 0)), Dst: dispatch.Devptr(odd(a, 0)),
				Comm: dispatch.Comm(odd(commA, commA, commA, commB, 0)), Stream: dispatch.Stream(odd(0, 1, 2, streamA, streamB)),
			})
		}
		r.issueGroup(ops...)
		r.call("redop_create", []byte{1, 2, 3}, uint32(3), odd(a, 0, 1), int32(odd(2, 99)), int32(odd(0, 1, 2)), odd(commA, commB))
		r.call("comm_split", odd(commA, commB), int32(odd(0, 1)), int32(odd(0)), odd(commB, commA, 0), uint64(0), uint64(0), uint32(0))
		r.call("comm_init", odd(commB, 1, 0), int32(odd(1, 0, 2)), int32(odd(0, 1)), uint64(1), [128]byte{1}, int32(1), uint64(0), uint64(0), uint32(0))
		r.call("ncclCommRegister", odd(commA, commB), odd(a, 0), odd(0, 1, 1<<63))
		for _, r := range all {
			r.p.endProcess("a test")
		}
	}
	all := makeRanks(t, s, s)
	for i, r := range all {
		all[i].allReduce(t, 1)
		defer func() { r.must("cuCtxSynchronize") }()
	}
}

// Ranks that do not come, or that cannot be, are no reason to wait.
func TestMeetingFails(t *testing.T) {
	s := newServer(t, 2)
	s.collectives.MeetingTime = time.Millisecond
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	c.want(int32(dispatch.ResultNcclUnhandledCudaError), "comm_init", uint64(commA), int32(1), int32(0), uint64(1), [128]byte{}, int32(1), uint64(0), uint64(0), uint32(0))
	c.beginContext(ctxA, 0)
	c.init(commA, 2, 0, [128]byte(c.must("ncclGetUniqueId")))
	if state, _, _, _ := c.waitForState(commA); state != ncclRemoteError {
		t.Errorf("no other member came: %d", state)
	}
	c.init(commB, 2, 0, [128]byte{})
	if state, _, _, _ := c.waitForState(commB); state != ncclInvalidArgument {
		t.Errorf("a communicator without an identity: %d", state)
	}
	if why := string(c.must("comm_error", uint64(commA), uint32(512))); !strings.Contains(why, "in time") {
		t.Errorf("the reason is %q", why)
	}
	if why := c.must("comm_error", uint64(commA), uint32(9)); !bytes.Contains(why, []byte("not all r")[:8]) {
		t.Errorf("the reason, cut, is %q", why)
	}
}

// TestCaptured: a group in a graph is issued with each launch, in its turn among the rank's other operations.
func TestCaptured(t *testing.T) { checkCapture(t, newServer(t, 2)) }

// checkCapture has two ranks run a graph with a collective, and the same collective beside the graph.
func checkCapture(t *testing.T, s *Server) {
	t.Helper()
	all := makeRanks(t, s, s)
	var at []uint64
	for i, r := range all {
		a := r.alloc(64)
		at = append(at, a)
		r.writeInts(a, int32(i+1))
		r.must("cuStreamCreate", uint64(streamA), uint32(1))
		r.must("cuStreamCreate", uint64(streamB), uint32(1))
		r.must("cuCtxSynchronize")
		op := func(st dispatch.Stream) *dispatch.Ncclop {
			return &dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 1, Src: dispatch.Devptr(a), Dst: dispatch.Devptr(a), Comm: commA, Stream: st}
		}
		m, _ := r.p.Comm(commA)
		if !m.Connected() {
			t.Fatal("the communicator was not made")
		}
		g := nccl.NewGroup(r.p.ncclCalls, &dispatch.Call{Context: ctxA})
		if err := g.Add(m, op(streamA)); err != nil {
			t.Fatal(err)
		}
		c := g.Capture()
		var graph backend.Graph
		if _, err := graph.Add(c.Node()); err != nil {
			t.Fatal(err)
		}
		x, _ := r.p.Context(ctxA)
		exec, err := x.Backend.Instantiate(&graph)
		if err != nil {
			t.Fatal(err)
		}
		st := c.Stream()
		// Each doubles: the sum of two equal parts, but for the first.
		for range 3 {
			after := c.Launch()
			if err := st.Graph(exec); err != nil {
				t.Fatal(err)
			}
			if err := st.Host(after); err != nil {
				t.Fatal(err)
			}
			r.issueGroup(*op(streamA))
			// The next launch is not in the ring's order: the group must have been carried out.
			r.must("cuCtxGetFlags")
		}
	}
	for i, r := range all {
		r.must("cuStreamSynchronize", uint64(streamA))
		if got := r.readInts(at[i], 1)[0]; got != 3<<5 {
			t.Errorf("rank %d has %d, want %d", i, got, 3<<5)
		}
	}
}
