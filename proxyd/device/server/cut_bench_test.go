// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// BenchmarkSteadyState is a collective and seven messages beside it, of two ranks: not counted, counted, and counted after a cut was found.
func BenchmarkSteadyState(b *testing.B) {
	for _, mode := range []string{"uncounted", "counted", "after a cut"} {
		b.Run(mode, func(b *testing.B) {
			nodes := makeServers(b, 1)
			all := makeRanks(b, nodes[0], nodes[0])
			ats := []uint64{all[0].alloc(64), all[1].alloc(64)}
			for i, r := range all {
				r.sumUp(commA, ats[i])
			}
			if mode == "after a cut" {
				mustOpen(b, mustFind(b, cut.Options{}, nodes...))
			}
			var ranks sync.WaitGroup
			b.ResetTimer()
			for i, r := range all {
				ranks.Go(func() {
					for n := range b.N {
						r.sumUpAs(mode != "uncounted", commA, ats[i])
						for range 7 {
							r.post("cuMemsetD8Async", ats[i], uint8(n), uint64(8), uint64(0))
						}
						if n%16 == 15 {
							r.call("cuStreamSynchronize", uint64(0))
						}
					}
					r.call("cuStreamSynchronize", uint64(0))
				})
			}
			ranks.Wait()
		})
	}
}

// BenchmarkCut finds cuts of eight ranks in a data-parallel loop: "cut" is the time to the cut, from the order on. The
// time of the operations on the way there is included.
func BenchmarkCut(b *testing.B) {
	nodes := makeServers(b, 2)
	on := []*Server{nodes[0], nodes[0], nodes[0], nodes[0], nodes[1], nodes[1], nodes[1], nodes[1]}
	all := makeRanks(b, on...)
	var ranks sync.WaitGroup
	for i, r := range all {
		at := r.alloc(64)
		ranks.Go(func() {
			for n := 0; !r.isClosed(); n++ {
				r.sumUp(commA, at)
				if n%(4+i) == 0 {
					r.call("cuStreamSynchronize", uint64(0))
				}
			}
		})
	}
	var longest time.Duration
	for b.Loop() {
		began := time.Now()
		c, err := findCut(b, cut.Options{Tick: long}, nodes...)
		if err != nil {
			b.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		mustOpen(b, c)
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest")
	// The ranks end when their rings are closed.
	for _, s := range nodes {
		s.Close()
	}
	ranks.Wait()
}
