// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"fmt"
	"testing"
)

// BenchmarkStep measures a whole attempt, from Start to Cut: all ranks are in a single
// communicator, in one of 8 neighbours and send round a ring; they shut their gates at different
// counts, and each issues and reports its missing operations. The time is that of all Steps.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{8, 1000} {
		b.Run(fmt.Sprintf("ranks=%d", n), func(b *testing.B) {
			comms := benchComms(n)
			events := 0
			for b.Loop() {
				events = playAttempt(b, n, comms)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
			b.ReportMetric(float64(events), "events")
		})
	}
}

const world8 = 8

func benchComms(n int) []Communicator {
	all := Communicator{Comm: 1}
	comms := []Communicator{}
	for r := range n {
		all.Members = append(all.Members, Rank(r))
		if r%world8 == 0 {
			comms = append(comms, Communicator{Comm: Comm(2 + r/world8)})
		}
		last := &comms[len(comms)-1]
		last.Members = append(last.Members, Rank(r))
	}
	return append(comms, all)
}

// benchCounts returns the numbers of a rank that has done so many rounds of the loop.
func benchCounts(n, r int, rounds uint64) []Count {
	next, previous := int32((r+1)%n), int32((r+n-1)%n)
	return []Count{
		{Key{Comm: 1, Member: int32(r)}, rounds},
		{Key{Comm: Comm(2 + r/world8), Member: int32(r % world8)}, 4 * rounds},
		{Key{Comm: 1, Member: int32(r), Kind: Send, Peer: next}, rounds},
		{Key{Comm: 1, Member: int32(r), Kind: Recv, Peer: previous}, rounds},
	}
}

// playAttempt plays a single attempt and returns the number of events.
func playAttempt(b *testing.B, n int, comms []Communicator) (events int) {
	const lead = 5
	bar := New(n, comms...)
	var out Effects
	step := func(e Event) {
		out = bar.Step(e)
		events++
		if out.Failed != nil {
			b.Fatal(out.Failed)
		}
	}
	step(Start{})
	rounds := make([]uint64, n)
	for r := range n {
		rounds[r] = 100 + uint64(r*7%lead)
		step(Shut{Rank(r), benchCounts(n, r, rounds[r])})
	}
	for r := range n {
		for rounds[r] < 100+lead-1 {
			rounds[r]++
			step(Issued{Rank: Rank(r), Counts: benchCounts(n, r, rounds[r])})
		}
	}
	for r := range n {
		step(Reading{Rank(r), benchCounts(n, r, rounds[r])})
	}
	for r := range n {
		step(Drained{Rank(r)})
	}
	for r := range n {
		step(CallsShut{Rank(r)})
	}
	if !out.Cut {
		b.Fatalf("no cut: %+v", out)
	}
	return events
}
