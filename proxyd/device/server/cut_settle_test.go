// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// TestPauseLengths: each failed attempt to hold work makes the next pause longer, up to the longest pause.
func TestPauseLengths(t *testing.T) {
	last := time.Duration(0)
	for tries := range 100 {
		switch d := pauseAfter(tries); {
		case tries == 0 && d != shortPause:
			t.Errorf("the first pause is %v, want %v", d, shortPause)
		case d < last:
			t.Errorf("after %d failed attempts the pause is %v, and was %v before", tries, d, last)
		case d == last && d != longTry:
			t.Errorf("after %d failed attempts the pause is still %v, want %v in the end", tries, d, longTry)
		default:
			last = d
		}
	}
}

// runBlocks has a stream of the process carry out blocks of a kernel, one after the other, until over is set. Between
// two blocks a pause interrupts the stream.
func runBlocks(t *testing.T, p *process, stream uint64, block time.Duration, over *atomic.Bool) {
	t.Helper()
	c := &dispatch.Call{Process: p.ID, Context: ctxA}
	q := &driver.QueuedWork{Call: &driver.QueuedCall{Context: ctxA}}
	c.Queued = q
	st, r := p.Stream(c, dispatch.Stream(stream))
	if r != 0 {
		t.Fatalf("stream %#x: %d", stream, r)
	}
	err := st.Backend.Exchange(nil, func(_ [][]byte, done func(error)) {
		time.AfterFunc(block, func() {
			if over.Load() {
				done(nil)
			} else {
				done(backend.ErrPutBack)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Work.Note(q)
}

// TestCutOfLongBlocks: a cut is found while several streams of each process carry out blocks that take about a second
// each, and that end at different times.
func TestCutOfLongBlocks(t *testing.T) {
	const streams = 6
	nodes := makeServers(t, 2)
	all := makeRanks(t, nodes...)
	var over atomic.Bool
	for _, r := range all {
		for i := range uint64(streams) {
			r.must("cuStreamCreate", streamA+i, uint32(1))
		}
		for i := range uint64(streams) {
			runBlocks(t, r.p, streamA+i, time.Second+time.Duration(i)*70*time.Millisecond, &over)
		}
	}
	mustOpen(t, mustFind(t, cut.Options{}, nodes...))
	over.Store(true)
	for _, r := range all {
		r.must("cuCtxSynchronize")
	}
	gatesOpen(t, nodes...)
}
