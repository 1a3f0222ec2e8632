// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package server

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

func TestMain(m *testing.M) {
	// Real devices need addresses that Go's heap may have, unless a program is built as proxyd-cuda is.
	if taken, err := cuda.Taken(); err != nil || taken != "" {
		panic(unix.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	code := m.Run()
	if fakeFolder != "" {
		os.RemoveAll(fakeFolder)
	}
	os.Exit(code)
}

// fakes are a driver and an NCCL in a single file, which stays open until the process ends.
var (
	fakeFolder string
	fakes      = sync.OnceValues(func() (l *fakecuda.Library, err error) {
		if fakeFolder, err = os.MkdirTemp("", "fakecuda-"); err != nil {
			return nil, err
		}
		return fakecuda.Build(fakeFolder)
	})
)

// realServer makes servers over a fake driver and a fake NCCL, one at a time, with a log of the calls of these.
func realServer(t *testing.T) (make func(order []int, exact bool) *Server, log string) {
	t.Helper()
	l, err := fakes()
	if err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(t.TempDir(), "calls")
	l.Reset(log, 1<<30)
	t.Cleanup(func() {
		if left := l.Live(); left != "" {
			t.Errorf("work that has not ended: %s", left)
		}
	})
	return func(order []int, exact bool) *Server {
		b, err := cuda.Open(cuda.Config{Library: l.Path, NCCL: l.Path, VariablesMayMove: true})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Backend: b, Order: order, Exact: exact, Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}, log
}

// countCalls counts the calls of NCCL in a log, by their names.
func countCalls(t *testing.T, log string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, call := range regexp.MustCompile(`nccl[A-Z]\w*`).FindAllString(string(text), -1) {
		n[call]++
	}
	return n
}

const (
	ncclFloat32 = int32(collective.Float32)
	ncclAvg     = 4
)

// runEverything issues each operation once, of two ranks, at the same places of their memory.
func runEverything(all []rank, at []uint64) []string {
	one := func(kind collective.Kind, typ int32, op dispatch.Redop, root, n int, from, to int) func(i int) dispatch.Ncclop {
		return func(i int) dispatch.Ncclop {
			return dispatch.Ncclop{
				Kind: int32(kind), Type: typ, Op: op, Root: int32(root), Count: uint64(n), Comm: commA,
				Src: dispatch.Devptr(at[i] + uint64(4*from)), Dst: dispatch.Devptr(at[i] + uint64(4*to)),
			}
		}
	}
	for _, op := range []func(i int) dispatch.Ncclop{
		one(collective.AllReduce, ncclInt32, ncclSum, 0, 4, 0, 16),
		one(collective.AllReduce, ncclFloat32, ncclSum, 0, 4, 8, 24),
		one(collective.AllReduce, ncclFloat32, ncclAvg, 0, 4, 8, 28),
		one(collective.Reduce, ncclInt32, ncclSum, 1, 4, 0, 32),
		one(collective.ReduceScatter, ncclInt32, ncclSum, 0, 2, 0, 40),
		one(collective.Broadcast, ncclInt32, 0, 1, 4, 0, 48),
		one(collective.AllGather, ncclInt32, 0, 0, 2, 0, 56),
		one(collective.AllToAll, ncclInt32, 0, 0, 2, 0, 64),
		one(collective.Gather, ncclInt32, 0, 0, 2, 0, 72),
		one(collective.Scatter, ncclInt32, 0, 1, 2, 0, 80),
	} {
		for i, r := range all {
			r.issueGroup(op(i))
		}
	}
	for i, r := range all { // there and back at once
		r.issueGroup(one(collective.Send, ncclInt32, 0, 1-i, 4, 0, 0)(i), one(collective.Recv, ncclInt32, 0, 1-i, 4, 0, 88)(i))
	}
	var out []string
	for i, r := range all {
		r.must("cuCtxSynchronize")
		out = append(out, fmt.Sprint(r.readInts(at[i], 96)))
	}
	return out
}

// makeMembers makes two ranks with values in their memory.
func makeMembers(t *testing.T, s *Server) (all []rank, at []uint64) {
	t.Helper()
	all = makeRanks(t, s, s)
	for i, r := range all {
		at = append(at, r.alloc(4096))
		f := func(x float32) int32 { return int32(math.Float32bits(x)) }
		r.writeInts(at[i], int32(i+1), int32(10*i+1), -3, 7, 0, 0, 0, 0, f(1.5), f(float32(i)), f(0.1), f(1e10))
	}
	return all, at
}

// TestTeam: two devices have a team, which carries out its operations, and memory is as without a team. Exact sums are
// not the team's. The team is made again where the job goes on, and where the ranks share a device there is no team.
func TestTeam(t *testing.T) {
	soft, at := makeMembers(t, newServer(t, 2))
	want := runEverything(soft, at)

	server, log := realServer(t)
	s := server(nil, false)
	all, at := makeMembers(t, s)
	if got := runEverything(all, at); !reflect.DeepEqual(got, want) {
		t.Errorf("by a team: %v\nwant %v", got, want)
	}
	calls := countCalls(t, log)
	for call, n := range map[string]int{"ncclAllReduce": 6, "ncclReduce": 2, "ncclReduceScatter": 2, "ncclBroadcast": 2, "ncclAllGather": 2, "ncclSend": 10, "ncclRecv": 10} {
		if calls[call] < n {
			t.Errorf("%d calls of %s, want %d: %v", calls[call], call, n, calls)
		}
	}
	if got := s.Status().Reductions; got != ReducedByNCCL {
		t.Errorf("reductions are said to be %q", got)
	}
	folder := Folder(t.TempDir())
	s = replacedBy(t, s, saveJob(t, s, folder, SaveOptions{}), folder, func() *Server { return server(nil, true) })
	if got := runEverything(all, at); !reflect.DeepEqual(got, want) {
		t.Errorf("by a team that was made again: %v\nwant %v", got, want)
	}
	again := countCalls(t, log)
	if again["ncclAllReduce"] != calls["ncclAllReduce"]+2 || again["ncclBroadcast"] != 2*calls["ncclBroadcast"] || again["ncclCommInitRankConfig"] != 4 {
		t.Errorf("exact: %v, before %v", again, calls)
	}
	if got := s.Status().Reductions; got != ReducedByNCCL {
		t.Errorf("the reductions that were used before the move are forgotten: they are %q", got)
	}
	replacedBy(t, s, saveJob(t, s, folder, SaveOptions{}), folder, func() *Server { return server([]int{0, 0}, false) })
	if got := runEverything(all, at); !reflect.DeepEqual(got, want) {
		t.Errorf("on one device: %v\nwant %v", got, want)
	}
	if last := countCalls(t, log); last["ncclAllReduce"] != again["ncclAllReduce"] || last["ncclCommInitRankConfig"] != 4 {
		t.Errorf("a team of ranks that share a device: %v", last)
	}
	for _, r := range all {
		r.must("ncclCommDestroy", uint64(commA))
	}
}

// TestTeamSplit: a communicator made by a split has a team of its own.
func TestTeamSplit(t *testing.T) {
	server, log := realServer(t)
	all, at := makeMembers(t, server(nil, false))
	for i, r := range all {
		r.must("comm_split", uint64(commA), int32(0), int32(1-i), uint64(commB), uint64(0), uint64(0), uint32(0))
	}
	for i, r := range all {
		if state, size, rank, _ := r.waitForState(commB); state != 0 || size != 2 || int(rank) != 1-i {
			t.Fatalf("rank %d: %d, rank %d of %d", i, state, rank, size)
		}
		r.issueGroup(dispatch.Ncclop{
			Kind: int32(collective.AllGather), Type: ncclInt32, Count: 1, Comm: commB, Src: dispatch.Devptr(at[i]), Dst: dispatch.Devptr(at[i] + 256),
		})
	}
	for i, r := range all {
		r.must("cuCtxSynchronize")
		if got := r.readInts(at[i]+256, 2); got[0] != 2 || got[1] != 1 {
			t.Errorf("rank %d has gathered %v", i, got)
		}
	}
	if n := countCalls(t, log); n["ncclCommInitRankConfig"] != 4 || n["ncclAllGather"] != 2 {
		t.Errorf("calls of NCCL = %v, want 4 ncclCommInitRankConfig and 2 ncclAllGather", n)
	}
}

// TestTeamCaptured: a graph's collective is the team's, too.
func TestTeamCaptured(t *testing.T) {
	server, log := realServer(t)
	s := server(nil, false)
	checkCapture(t, s)
	if got := s.Status().Reductions; got != ReducedExactly {
		t.Errorf("sums of integers are said to be %q", got)
	}
	if n := countCalls(t, log); n["ncclAllReduce"] != 12 {
		t.Errorf("calls of NCCL = %v, want 12 ncclAllReduce", n)
	}
}

// TestTeamFactor: a reduction with a factor of each rank's own.
func TestTeamFactor(t *testing.T) {
	server, log := realServer(t)
	all, at := makeMembers(t, server(nil, false))
	for i, r := range all {
		factor := []byte{0, 0, 0, 0x40} // 2
		op := dispatch.Redop(binary.LittleEndian.Uint32(r.must("redop_create", factor, uint32(len(factor)), uint64(0), ncclFloat32, int32(1), uint64(commA))))
		r.issueGroup(dispatch.Ncclop{
			Kind: int32(collective.AllReduce), Type: ncclFloat32, Op: op, Count: 2, Comm: commA,
			Src: dispatch.Devptr(at[i] + 32), Dst: dispatch.Devptr(at[i] + 64),
		})
	}
	for i, r := range all {
		r.must("cuCtxSynchronize")
		if got := r.readInts(at[i]+64, 2); math.Float32frombits(uint32(got[0])) != 6 || math.Float32frombits(uint32(got[1])) != 2 {
			t.Errorf("rank %d has %v", i, got)
		}
	}
	if n := countCalls(t, log); n["ncclRedOpCreatePreMulSum"] != 2 || n["ncclRedOpDestroy"] != 2 {
		t.Errorf("calls of NCCL = %v, want 2 reductions made and 2 destroyed", n)
	}
}

// TestTeamAborted: a rank that goes ends the waits of other ranks in a team, and they are told.
func TestTeamAborted(t *testing.T) {
	server, log := realServer(t)
	s := server(nil, false)
	all, at := makeMembers(t, s)
	all[0].issueGroup(dispatch.Ncclop{
		Kind: int32(collective.AllReduce), Type: ncclInt32, Count: 4, Comm: commA, Src: dispatch.Devptr(at[0]), Dst: dispatch.Devptr(at[0]),
	})
	for !strings.Contains(readAll(t, log), "ncclGroupEnd") {
		all[0].want(notReady, "cuStreamQuery", uint64(0)) // the stream is about to wait
	}
	all[1].must("ncclCommAbort", uint64(commA))
	for {
		if state, _, _, _ := all[0].waitForState(commA); state == ncclRemoteError {
			break
		}
	}
	all[0].must("ncclCommAbort", uint64(commA))
	all[0].must("cuCtxSynchronize")
}

// TestTeamNotJoined: if a rank cannot join its team, all ranks are told, and no rank waits for that rank.
func TestTeamNotJoined(t *testing.T) {
	server, _ := realServer(t)
	t.Cleanup(func() { // by which the fakes would have met
		left, _ := filepath.Glob(fmt.Sprintf("/dev/shm/fakenccl-%d-*", os.Getpid()))
		for _, name := range left {
			os.Remove(name)
		}
	})
	s := server(nil, false)
	l, err := fakes()
	if err != nil {
		t.Fatal(err)
	}
	var all []*client
	for i := range 2 {
		_, cs := attachProcess(t, s, 1)
		cs[0].beginContext(ctxA, int32(i))
		all = append(all, cs[0])
	}
	l.Fail("cuDevicePrimaryCtxRetain", 2, 2)
	id := [128]byte(all[0].must("ncclGetUniqueId"))
	for i, c := range all {
		c.init(commA, 2, i, id)
	}
	for i, c := range all {
		if state, _, _, _ := c.waitForState(commA); state == 0 {
			t.Errorf("rank %d has a communicator", i)
		}
		c.must("ncclCommAbort", uint64(commA))
	}
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTeamAtCut: cuts of ranks with devices in a team are found while collectives are queued, and change no result.
func TestTeamAtCut(t *testing.T) {
	server, _ := realServer(t)
	s := server([]int{0, 1}, false)
	all := makeRanks(t, s, s)
	const cuts, sums = 10, 3
	var at []uint64
	for i, r := range all {
		at = append(at, r.alloc(64))
		r.writeInts(at[i], int32(i+1))
		r.must("cuCtxSynchronize")
	}
	for range cuts {
		for i, r := range all {
			for range sums {
				r.sumUp(commA, at[i])
			}
		}
		mustOpen(t, mustFind(t, cut.Options{}, s))
	}
	for i, r := range all {
		if got, want := r.readInts(at[i], 1)[0], int32(3)<<(cuts*sums-1); got != want {
			t.Errorf("rank %d: the sum is %d, want %d", i, got, want)
		}
	}
	gatesOpen(t, s)
}
