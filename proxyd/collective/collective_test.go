// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
)

// allPlacements are all ways to give n ranks to at most most processes, the first rank's being 0.
func allPlacements(n, most int) [][]int {
	all := [][]int{{0}}
	for len(all[0]) < n {
		var longer [][]int
		for _, home := range all {
			used := 0
			for _, p := range home {
				used = max(used, p+1)
			}
			for p := range min(used+1, most) {
				longer = append(longer, append(append([]int(nil), home...), p))
			}
		}
		all = longer
	}
	return all
}

// The ordinary run takes some of the placements of five ranks.
var every = flag.Bool("every", false, "try every placement, and more random ones")

// TestPlacements: every operation, on every placement of up to 5 ranks on up to 3 processes and on random
// placements of up to 9, in each way in which bytes are moved, gives the bits of the oracle, which knows of no
// processes.
func TestPlacements(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var homes [][]int
	for n := 1; n <= 5; n++ {
		all := allPlacements(n, 3)
		if n == 5 && !*every {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			all = all[:8]
		}
		homes = append(homes, all...)
	}
	for range countIf(*every, 50) + 10 {
		home := make([]int, 6+rng.IntN(4))
		for i := range home {
			home[i] = rng.IntN(min(i+1, 5))
		}
		homes = append(homes, compactHomes(home))
	}
	for _, home := range homes {
		w := newNodes(t, home, nil, Config{})
		for name, tune := range ways {
			for _, n := range w.nodes {
				tune(&n.tuning)
			}
			w.comms = w.createComms(name)
			for kind := range Send {
				o := Op{Kind: kind, Type: Float32, Count: 1 + rng.IntN(70), Root: rng.IntN(len(home))}
				if kind.isReduction() {
					o.Type = []Type{Float32, Float16, Float64}[rng.IntN(3)]
					o.Reduction = []Reduction{Sum, PreMulSum, Avg}[rng.IntN(3)]
				}
				f := form{inPlace: rng.IntN(2) == 0, odd: rng.IntN(4) == 0}
				tr := newTrial(o, len(home), f, rng)
				w.mustIssue(tr.ops)
				tr.checkReceived(t, fmt.Sprintf("%s, %s, %+v", placementName(home), name, f))
			}
			for p, c := range w.comms {
				if !c.Quiet() {
					t.Errorf("%s, %s: process %d is not quiet", placementName(home), name, p)
				}
			}
		}
		for _, n := range w.nodes {
			n.Close()
		}
	}
}

// compactHomes renumbers processes by their first rank, without gaps.
func compactHomes(home []int) []int {
	number := make(map[int]int)
	for i, p := range home {
		if _, known := number[p]; !known {
			number[p] = len(number)
		}
		home[i] = number[p]
	}
	return home
}

// ways are the algorithms, chosen by sizes that are small enough for a test.
var ways = map[string]func(*tuning){
	"each for himself": func(u *tuning) { *u = tuning{eager: maxEager, slice: 256, depth: 3, direct: 100, arena: 1 << 20} },
	"tree":             func(u *tuning) { *u = tuning{eager: maxEager, slice: 256, depth: 3, direct: 1, arena: 1 << 20} },
	"slices":           func(u *tuning) { *u = tuning{eager: 0, slice: 64, depth: 2, direct: 8, arena: 1 << 20} },
	"thin slices":      func(u *tuning) { *u = tuning{eager: 40, slice: 128, depth: 4, direct: 8, arena: 32} },
}

// TestTypes: every type with every reduction, and every type with every kind that only moves bytes.
func TestTypes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	w := newWorld(t, []int{0, 1, 0, 2, 1}, nil)
	for typ := range types {
		for kind := range Send {
			for r := range reductions {
				if !kind.isReduction() && r > 0 {
					break
				}
				o := Op{Kind: kind, Type: typ, Reduction: r, Count: 23, Root: 3}
				tr := newTrial(o, 5, form{inPlace: r%2 == 1}, rng)
				w.mustIssue(tr.ops)
				tr.checkReceived(t, typ.String())
			}
		}
	}
}

// TestStandardSizes: the standard sizes: small, just beyond, and many steps.
func TestStandardSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	w := newWorld(t, []int{0, 0, 1, 2}, nil)
	for _, count := range []int{0, 1, 2, 3, maxEager / 8, maxEager/4 + 1, 100_001} {
		for kind := range Send {
			// Max of bytes, so that the oracle is quick at these lengths.
			o := Op{Kind: kind, Type: Uint8, Reduction: Max, Count: count, Root: 2}
			tr := newFast(o, 4, rng)
			w.mustIssue(tr.ops)
			tr.checkReceived(t, fmt.Sprint(count))
		}
	}
	// Longer than all steps that are under way at a time.
	count := 2_500_003
	tr := newFast(Op{Kind: AllReduce, Type: Uint8, Reduction: Max, Count: count}, 4, rng)
	w.mustIssue(tr.ops)
	tr.checkReceived(t, "large")
}

// newFast is newTrial for Max of bytes, where the oracle needs no rational numbers.
func newFast(o Op, ranks int, rng *rand.Rand) *trial {
	tr := &trial{}
	var sends [][]byte
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rng.Uint32())
	}
	source := rand.NewChaCha8(seed)
	for r := range ranks {
		op := o
		send, recv := op.Needs(r, ranks)
		op.Send, op.Recv = make([]byte, send), make([]byte, recv)
		source.Read(op.Send)
		tr.ops, sends = append(tr.ops, op), append(sends, bytes.Clone(op.Send))
	}
	for r := range ranks {
		if !o.Kind.isReduction() {
			tr.want = append(tr.want, expectedBytes(o, r, o.Count, sends, nil))
			continue
		}
		if o.Kind == Reduce && r != o.Root {
			tr.want = append(tr.want, nil)
			continue
		}
		lo := 0
		if o.Kind == ReduceScatter {
			lo = r * o.Count
		}
		want := make([]byte, o.Count)
		for _, s := range sends {
			for i := range want {
				want[i] = max(want[i], s[lo+i])
			}
		}
		tr.want = append(tr.want, want)
	}
	return tr
}

// TestOrder: many operations are issued before the first is complete; the operations of each rank complete in
// order.
func TestOrder(t *testing.T) {
	const rounds = 200
	home := []int{0, 1, 1, 2}
	w := newWorld(t, home, nil)
	type event struct{ rank, round int }
	events := make(chan event, rounds*len(home))
	results := make([][][]byte, rounds)
	for round := range rounds {
		results[round] = make([][]byte, len(home))
		for rank, p := range home {
			recv := make([]byte, 8)
			results[round][rank] = recv
			op := Op{Kind: AllReduce, Type: Uint64, Count: 1, Send: storeCode(Uint64, uint64(round*rank)), Recv: recv}
			if round%3 == 1 {
				op = Op{Kind: Broadcast, Type: Uint64, Count: 1, Root: round % 4, Send: storeCode(Uint64, uint64(6*round)), Recv: recv}
			}
			err := w.comms[p].Issue(rank, []Op{op}, func(err error) {
				if err != nil {
					t.Error(err)
				}
				events <- event{rank, round}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	next := make([]int, len(home))
	for range rounds * len(home) {
		e := waitForValue(t, events)
		if e.round != next[e.rank] {
			t.Fatalf("rank %d completed %d after %d", e.rank, e.round, next[e.rank]-1)
		}
		next[e.rank]++
	}
	for round, ranks := range results {
		for rank, b := range ranks {
			if got := loadCode(Uint64, b); got != uint64(6*round) {
				t.Fatalf("round %d, rank %d: sum %d, want %d", round, rank, got, 6*round)
			}
		}
	}
	for p, c := range w.comms {
		for _, r := range c.local {
			if issued, completed := c.Counts(r); issued != rounds || completed != rounds {
				t.Errorf("process %d, rank %d: %d issued, %d completed", p, r, issued, completed)
			}
		}
	}
}
