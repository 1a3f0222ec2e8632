// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// runTraining runs ranks that add up, wait now and then, and send to the next rank; disturb is called meanwhile.
// It returns the results of each rank.
func runTraining(t *testing.T, all []rank, steps int, disturb func(ended <-chan struct{})) [][]int32 {
	t.Helper()
	var ranks sync.WaitGroup
	got := make([][]int32, len(all))
	for i, r := range all {
		at := r.alloc(64)
		r.writeInts(at, int32(i), 1, 0)
		ranks.Go(func() {
			next, last := int32((i+1)%len(all)), int32((i+len(all)-1)%len(all))
			for n := range steps {
				r.sumUp(commA, at)
				r.issueCounted(
					dispatch.Ncclop{Kind: int32(collective.Send), Type: ncclInt32, Count: 1, Root: next, Src: dispatch.Devptr(at), Comm: commA},
					dispatch.Ncclop{Kind: int32(collective.Recv), Type: ncclInt32, Count: 1, Root: last, Dst: dispatch.Devptr(at + 4), Comm: commA},
				)
				r.sumUp(commA, at+4)
				if n%5 == 4 {
					r.writeInts(at, int32(n+i))
				}
				if n%(2+i) == 0 {
					r.call("cuStreamSynchronize", uint64(0))
				}
			}
			got[i] = r.readInts(at, 3)
		})
	}
	ended := make(chan struct{})
	go func() {
		ranks.Wait()
		close(ended)
	}()
	disturb(ended)
	<-ended
	return got
}

// TestCutMoved: ranks over two servers that are saved at a cut of both, in full run, and replaced, again and again, with members that
// have left: the results equal those of a run without moves, and the next cut is found.
func TestCutMoved(t *testing.T) {
	const steps = 40
	begin := func(seed string) (job []*Server, all []rank) {
		job = makeNumbered(t, seed, 2)
		all = makeRanks(t, job[0], job[1], job[1], job[0])
		makeComm(t, all, commB)
		for _, r := range all {
			r.sumUp(commB, r.alloc(64))
		}
		for _, r := range all {
			r.must("cuCtxSynchronize")
		}
		all[2].must("ncclCommDestroy", uint64(commB))
		return job, all
	}
	_, quiet := begin("test")
	want := runTraining(t, quiet, steps, func(<-chan struct{}) {})
	job, all := begin("test")
	moves := 0
	got := runTraining(t, all, steps, func(ended <-chan struct{}) {
		for range 3 {
			select {
			case <-ended:
				return
			default:
			}
			c := mustFind(t, cut.Options{Tick: long}, job...)
			folders, rings := saveAndEnd(t, job, attempts.Load())
			_ = c.Open(t.Context()) // the server may have ended
			job = makeNumbered(t, "other", 2)
			reconnectAll(t, job, takePlaces(t, job, folders, rings))
			moves++
		}
	})
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("rank %d has %v, after %d moves; want %v", i, got[i], moves, want[i])
		}
	}
	mustOpen(t, mustFind(t, cut.Options{Tick: long}, job...))
	gatesOpen(t, job...)
	t.Logf("%d moves", moves)
	if moves == 0 {
		t.Error("the job was never moved")
	}
}
