// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// endlessThread is a thread of a program that queues work on a stream without end, and issues no collectives.
type endlessThread struct {
	over  atomic.Bool
	ended chan struct{}
}

// queueEndlessly begins an endlessThread, which fills memory of so many words at a time.
func queueEndlessly(c *client, stream, at, words uint64) *endlessThread {
	e := &endlessThread{ended: make(chan struct{})}
	c.context = ctxA
	go func() {
		defer close(e.ended)
		for v := uint32(1); !e.over.Load(); v++ {
			c.post("cuMemsetD32Async", at, v, words, stream)
		}
	}()
	return e
}

// countQueued is how many pieces of work a stream has that are not done.
func countQueued(t *testing.T, p *process, stream uint64) uint64 {
	t.Helper()
	st, r := p.Stream(&dispatch.Call{Process: p.ID, Context: ctxA}, dispatch.Stream(stream))
	if r != 0 {
		t.Fatalf("stream %#x: %d", stream, r)
	}
	now := st.Backend.Progress()
	return now.Given - now.Done
}

// TestEndlessQueueInCut: while a cut is sought that waits for a collective of a rank, a thread of the rank can queue a
// certain amount of work and no more. The failure says so, the job runs on, and a later attempt finds its cut.
func TestEndlessQueueInCut(t *testing.T) {
	const most = 5000
	nodes := makeServers(t, 2)
	all, threads := makeThreadedRanks(t, nodes...)
	all[0].p.Limit.MostPieces = most
	at := []uint64{all[0].alloc(64), all[1].alloc(64)}
	for _, r := range all {
		r.must("cuStreamCreate", uint64(streamA), uint32(1))
	}
	var over atomic.Bool
	runBlocks(t, all[0].p, streamA, time.Millisecond, &over)
	for range core.MaxQueued {
		all[0].post("cuMemsetD32Async", at[0], uint32(7), uint64(1), uint64(streamA))
	}
	all[1].sumUp(commA, at[1]) // the cut waits for the other rank's

	endless := queueEndlessly(threads[0].client, streamA, at[0], 1)
	_, err := findCut(t, cut.Options{Deadline: 3 * time.Second}, nodes...)
	if want := "its streams take no more until work is done"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the cut: %v, want %q", err, want)
	}
	const slack = 1024 // the amount is looked at now and then
	if n := countQueued(t, all[0].p, streamA); n > core.MaxQueued+most+slack {
		t.Errorf("%d pieces of work are queued, want %d at most", n, core.MaxQueued+most+slack)
	}

	endless.over.Store(true)
	over.Store(true)
	<-endless.ended
	all[0].sumUp(commA, at[0])
	for _, r := range all {
		r.must("cuCtxSynchronize")
	}
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
	gatesOpen(t, nodes...)
}

// TestCutsBesideEndlessQueues: threads of all ranks queue work without end, and their processes may not queue more than
// usual while a cut is sought. Other threads issue collectives, which are behind that work. Cuts are found, one after the
// other, and the collectives have the results of a run without cuts.
func TestCutsBesideEndlessQueues(t *testing.T) {
	sums := 3
	if testing.Short() {
		sums = 1
	}
	nodes := makeServers(t, 2)
	all, threads := makeThreadedRanks(t, nodes...)
	var at []uint64
	var endless []*endlessThread
	for i, r := range all {
		r.p.Limit.MostPieces = 1
		r.must("cuStreamCreate", uint64(streamA), uint32(1))
		at = append(at, r.alloc(64))
		r.writeInts(at[i], int32(i+1))
		r.must("cuCtxSynchronize")
	}
	var filled atomic.Bool
	for i, r := range all {
		runBlocks(t, r.p, streamA, time.Millisecond, &filled)
		endless = append(endless, queueEndlessly(threads[i].client, streamA, r.alloc(1<<17), 1<<15))
	}
	for _, r := range all {
		for countQueued(t, r.p, streamA) < core.MaxQueued {
			time.Sleep(time.Millisecond)
		}
	}
	filled.Store(true)
	var issuing sync.WaitGroup
	var left atomic.Int32
	for i, r := range all {
		left.Add(1)
		issuing.Go(func() {
			defer left.Add(-1)
			for range sums {
				r.sumUp(commA, at[i])
			}
		})
	}
	cuts := 0
	for ; left.Load() > 0; cuts++ {
		mustOpen(t, mustFind(t, cut.Options{}, nodes...))
	}
	t.Logf("%d cuts", cuts)
	issuing.Wait()
	for i, r := range all {
		endless[i].over.Store(true)
		<-endless[i].ended
		if got, want := r.readInts(at[i], 1)[0], int32(3)<<(sums-1); got != want {
			t.Errorf("rank %d: the sum is %d, want %d", i, got, want)
		}
	}
	gatesOpen(t, nodes...)
}
