// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// queuer is a rank that queues kernels and collectives, and reads no result before the end.
type queuer struct {
	rank
	at, size int
	mixer    uint64
	data     uint64 // the memory that kernels change and collectives sum up
	inbox    uint64 // the bytes that the rank before has sent
	flag     uint64
	events   uint64
}

const (
	streamSide = streamA + 0x100
	streamFlag = streamA + 0x200 // idle until a flag is set
)

// makeQueuers returns a queuer for each rank.
func makeQueuers(all []rank) (out []*queuer) {
	for i, r := range all {
		q := &queuer{rank: r, at: i, size: len(all)}
		q.mixer = r.callForNumber("cuModuleGetFunction", r.loadModule(mixing), "mix")
		q.data, q.inbox, q.flag = r.alloc(4*mixedWords), r.alloc(4*mixedWords), r.alloc(64)
		r.must("cuStreamCreate", uint64(streamA), uint32(1))
		r.must("cuStreamCreate", uint64(streamSide), uint32(1))
		r.must("cuStreamCreate", uint64(streamFlag), uint32(1))
		r.must("cuMemsetD32_v2", q.data, uint32(i+1), uint64(mixedWords))
		r.must("cuMemsetD32_v2", q.inbox, uint32(0), uint64(mixedWords))
		r.must("cuMemsetD32_v2", q.flag, uint32(0), uint64(16))
		r.must("cuCtxSynchronize")
		out = append(out, q)
	}
	return out
}

// queueStep queues a step: a kernel, a sum over all ranks by two of the kinds of reductions, and the result is sent around.
// Half of the step is on another stream, in order.
func (q *queuer) queueStep(n int) {
	comm, data := dispatch.Comm(commA), dispatch.Devptr(q.data)
	q.mixOn(streamA, q.data, uint32(q.at+n))
	sum := dispatch.Ncclop{
		Kind: int32(collective.AllReduce), Type: ncclInt32, Count: mixedWords, Src: data, Dst: data, Comm: comm, Stream: streamA,
	}
	scale := []byte{3, 0, 0, 0}
	factor := uint32(0)
	if n%3 == 1 { // destroyed before use
		factor = binary.LittleEndian.Uint32(
			q.must("redop_create", scale, uint32(4), uint64(0), int32(ncclInt32), int32(1), uint64(commA)))
		sum.Op = dispatch.Redop(factor)
	}
	q.issueCounted(sum)
	if factor != 0 {
		q.must("ncclRedOpDestroy", int32(factor), uint64(commA))
	}
	q.mixOn(streamA, q.data, uint32(q.at+2*n))
	q.waitForStream(streamA, streamSide)
	half := uint64(mixedWords / 2)
	next, last := int32((q.at+1)%q.size), int32((q.at+q.size-1)%q.size)
	// A group on two streams.
	q.issueCounted(
		dispatch.Ncclop{Kind: int32(collective.Send), Type: ncclInt32, Count: half, Root: next, Src: data, Comm: comm, Stream: streamSide},
		dispatch.Ncclop{Kind: int32(collective.Recv), Type: ncclInt32, Count: half, Root: last, Dst: dispatch.Devptr(q.inbox), Comm: comm, Stream: streamA},
	)
	q.mixOn(streamA, q.inbox, uint32(n))
	q.waitForStream(streamA, streamSide)
	q.waitForStream(streamSide, streamA)
}

// mixOn queues a kernel.
func (q *queuer) mixOn(stream, p uint64, v uint32) { q.launchMix(q.mixer, stream, p, v, 50) }

// waitForStream has a stream wait for another stream.
func (q *queuer) waitForStream(from, to uint64) {
	q.events++
	e := 0x30100 + q.events
	q.must("cuEventCreate", e, uint32(2))
	q.post("cuEventRecord", e, from)
	q.post("cuStreamWaitEvent", to, e, uint32(0))
	q.must("cuEventDestroy_v2", e)
}

// readResults returns the contents of the rank's memory.
func (q *queuer) readResults() []int32 {
	q.must("cuCtxSynchronize")
	const piece = 1024 // words; an answer has not room for more
	var all []int32
	for _, at := range []uint64{q.data, q.inbox} {
		for n := uint64(0); n < mixedWords; n += piece {
			all = append(all, q.readInts(at+4*n, piece)...)
		}
	}
	return all
}

// TestHeldCollectives: ranks that have queued collectives behind work that does not end are saved without waiting for
// them, however far each rank has come before, and their results equal those of a run without cuts.
func TestHeldCollectives(t *testing.T) {
	const steps = 10
	for _, tc := range []struct {
		name string
		on   []int
		// flag is the step before which all ranks wait. slow is how many kernels each rank has more to do before that.
		flag int
		slow []int
	}{
		{"all alike", []int{0, 0, 1, 1}, 4, []int{0, 0, 0, 0}},
		{"each where it is", []int{0, 1, 1, 0}, 5, []int{30, 0, 60, 10}},
		{"at the first", []int{0, 1}, 0, []int{20, 0}},
		{"a server for each", []int{0, 1, 2}, 2, []int{0, 40, 0}},
		{"one server", []int{0, 0, 0}, 7, []int{0, 0, 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run := func(flags bool) ([]*Server, []*queuer) {
				job := makeNumbered(t, "test", slices.Max(tc.on)+1)
				var on []*Server
				for _, i := range tc.on {
					on = append(on, job[i])
				}
				all := makeQueuers(makeRanks(t, on...))
				for i, q := range all {
					for n := range steps {
						if n == tc.flag {
							for k := range tc.slow[i] {
								q.mixOn(streamA, q.data, uint32(k))
							}
							if flags {
								q.post("cuStreamWaitValue32_v2", uint64(streamA), q.flag, uint32(1), uint32(1))
							}
						}
						q.queueStep(n)
					}
				}
				return job, all
			}
			_, quiet := run(false)
			var want [][]int32
			for _, q := range quiet {
				want = append(want, q.readResults())
			}
			job, all := run(true)
			mustOpen(t, mustFind(t, cut.Options{}, job...)) // which has no effect
			c := mustFind(t, cut.Options{}, job...)
			folders, rings := saveAndEnd(t, job, c.Attempt)
			_ = c.Open(t.Context()) // no server is there any more
			left := heldGroups(t, folders)
			t.Logf("%d groups were held", left)
			if least := 2 * len(all) * (steps - tc.flag); left < least {
				t.Errorf("%d groups were held, of at least %d", left, least)
			}
			job = makeNumbered(t, "other", len(job))
			reconnectAll(t, job, takePlaces(t, job, folders, rings))
			for _, q := range all {
				q.post("cuStreamWriteValue32_v2", uint64(streamFlag), q.flag, uint32(1), uint32(0))
			}
			for i, q := range all {
				if !slices.Equal(q.readResults(), want[i]) {
					t.Errorf("rank %d: the results are others", i)
				}
			}
			gatesOpen(t, job...)
		})
	}
}

// hostThread is the thread of a program that calls functions of the host.
type hostThread struct {
	*client
	called []uint64      // tickets
	over   chan struct{} // closed at the thread's end
}

// makeThreadedRanks is makeRanks for programs with a thread for functions of the host.
func makeThreadedRanks(t testing.TB, servers ...*Server) (all []rank, threads []*hostThread) {
	t.Helper()
	for i, s := range servers {
		p, cs := attachProcess(t, s, 2)
		cs[0].beginContext(ctxA, int32(i%len(s.devices)))
		all = append(all, rank{cs[0], p})
		threads = append(threads, &hostThread{client: cs[1], over: make(chan struct{})})
	}
	makeComm(t, all, commA)
	return all, threads
}

// callFunctions calls functions until so many were called. The thread ends before the test does.
func (h *hostThread) callFunctions(t testing.TB, many int) {
	go func() {
		defer close(h.over)
		for len(h.called) < many {
			r, b := h.call("host_func_next")
			if r != 0 {
				return
			}
			if ticket := binary.LittleEndian.Uint64(b); ticket != 0 {
				h.called = append(h.called, ticket)
				h.post("host_func_done", ticket)
			}
		}
	}()
	t.Cleanup(func() {
		atomic.OrUint64(h.doubleAt(orderAt), closedBit)
		<-h.over
	})
}

// TestHeldAtRandom: at a random moment ranks have queued more than they could do in any time, in front of a flag that is set
// later, with work of random lengths and functions of the host before and behind the flag. Saved at a cut and
// restored, they have the results of a run without cuts, and each function is called once.
func TestHeldAtRandom(t *testing.T) {
	seeds := 8
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 14))
			ranks, servers, steps := 2+r.IntN(3), 1+r.IntN(3), 4+r.IntN(10)
			flag := r.IntN(steps)
			var on []int
			kernels, functions := make([][]int, ranks), make([][]int, ranks)
			many := make([]int, ranks)
			for i := range ranks {
				on = append(on, i%servers)
				for range steps {
					kernels[i] = append(kernels[i], r.IntN(1+r.IntN(40)))
					functions[i] = append(functions[i], max(0, r.IntN(5)-2))
					many[i] += functions[i][len(functions[i])-1]
				}
			}
			moment := time.Duration(r.Int64N(int64(40 * time.Millisecond)))
			run := func(flags bool) ([]*Server, []*queuer, []*hostThread) {
				job := makeNumbered(t, "test", min(servers, ranks))
				var at []*Server
				for _, k := range on {
					at = append(at, job[k])
				}
				members, threads := makeThreadedRanks(t, at...)
				all := makeQueuers(members)
				for i, q := range all {
					threads[i].callFunctions(t, many[i])
					ticket := uint64(0)
					for n := range steps {
						for k := range kernels[i][n] {
							q.mixOn(streamA, q.data, uint32(k))
						}
						if flags && n == flag {
							q.post("cuStreamWaitValue32_v2", uint64(streamA), q.flag, uint32(1), uint32(1))
						}
						for range functions[i][n] {
							ticket++
							q.post("host_func", uint64(streamA), ticket)
						}
						q.queueStep(n)
					}
				}
				return job, all, threads
			}
			_, quiet, calm := run(false)
			var want [][]int32
			for i, q := range quiet {
				want = append(want, q.readResults())
				<-calm[i].over
			}
			job, all, threads := run(true)
			time.Sleep(moment) // the cut comes at any time
			c := mustFind(t, cut.Options{}, job...)
			folders, rings := saveAndEnd(t, job, c.Attempt)
			_ = c.Open(t.Context()) // no server is there any more
			left := heldGroups(t, folders)
			t.Logf("%d ranks, %d servers, the flag at step %d of %d, %v functions: %d groups were held", ranks, len(job), flag, steps, many, left)
			if least := 2 * ranks * (steps - flag); left < least {
				t.Errorf("%d groups were held, of at least %d", left, least)
			}
			job = makeNumbered(t, "other", len(job))
			reconnectAll(t, job, takePlaces(t, job, folders, rings))
			for _, q := range all {
				q.post("cuStreamWriteValue32_v2", uint64(streamFlag), q.flag, uint32(1), uint32(0))
			}
			for i, q := range all {
				if !slices.Equal(q.readResults(), want[i]) {
					t.Errorf("rank %d: the results are others", i)
				}
				<-threads[i].over
				if !slices.Equal(threads[i].called, calm[i].called) {
					t.Errorf("rank %d: the functions %v were called, want %v", i, threads[i].called, calm[i].called)
				}
			}
			gatesOpen(t, job...)
		})
	}
}

// TestCutOfFullStreams: a cut is found while streams hold all the work that they take, which does not end, and the
// programs' next collectives wait in their rings for room.
func TestCutOfFullStreams(t *testing.T) {
	nodes := makeServers(t, 2)
	all := makeQueuers(makeRanks(t, nodes...))
	for i, q := range all {
		q.writeInts(q.inbox, int32(i+1))
		q.must("cuCtxSynchronize")
		q.post("cuStreamWaitValue32_v2", uint64(streamA), q.flag, uint32(1), uint32(1))
		for range core.MaxQueued + 100 {
			q.post("cuMemsetD32Async", q.data, uint32(i+7), uint64(1), uint64(streamA))
		}
		q.sumUp(commA, q.inbox) // on another stream
	}
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
	for _, q := range all {
		q.post("cuStreamWriteValue32_v2", uint64(streamFlag), q.flag, uint32(1), uint32(0))
	}
	for i, q := range all {
		q.must("cuCtxSynchronize")
		if sum, last := q.readInts(q.inbox, 1)[0], q.readInts(q.data, 1)[0]; sum != 3 || last != int32(i+7) {
			t.Errorf("rank %d: the sum is %d, want 3, and the word is %d, want %d", i, sum, last, i+7)
		}
	}
	gatesOpen(t, nodes...)
}

// TestCutInHostFunction: a cut is found while a program runs a function of the host that a stream has come to: the
// function's return is a call, which passes although the gate of calls was shut before.
func TestCutInHostFunction(t *testing.T) {
	nodes := makeServers(t, 2)
	all, threads := makeThreadedRanks(t, nodes...)
	const sums = 20
	var at []uint64
	for i, r := range all {
		at = append(at, r.alloc(64))
		r.writeInts(at[i], int32(i+1))
		r.must("cuCtxSynchronize")
	}
	all[0].post("host_func", uint64(0), uint64(7))
	for i, r := range all {
		for range sums {
			r.sumUp(commA, at[i])
		}
	}
	ticket, _, _ := threads[0].nextFunction()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		a := nodes[0].currentAttempt()
		for ; a == nil; a = nodes[0].currentAttempt() {
			runtime.Gosched()
		}
		<-a.sealed
		threads[0].post("host_func_done", ticket) // which waits at the gate
	}()
	c := mustFind(t, cut.Options{}, nodes...)
	<-returned
	mustOpen(t, c)
	for i, r := range all {
		if got, want := r.readInts(at[i], 1)[0], int32(3)<<(sums-1); got != want {
			t.Errorf("rank %d: the sum is %d, want %d", i, got, want)
		}
	}
	gatesOpen(t, nodes...)
}

// heldGroups is how many groups of collectives were saved.
func heldGroups(t *testing.T, folders []Folder) (n int) {
	t.Helper()
	for _, f := range folders {
		st, err := readState(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range st.Processes {
			for _, w := range p.Work {
				if w.Symbol == "nccl_group" {
					n++
				}
			}
		}
	}
	return n
}
