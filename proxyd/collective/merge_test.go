// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// mergedNodes counts the nodes of ranks lo … hi-1 with a known sum when only ranks that have come are added up, and
// only those of a single process.
func mergedNodes(home []int, came map[int]bool, lo, hi int) (n int, whole bool) {
	if hi-lo == 1 {
		return 0, came[lo]
	}
	half := 1
	for half*2 < hi-lo {
		half *= 2
	}
	a, wholeA := mergedNodes(home, came, lo, lo+half)
	b, wholeB := mergedNodes(home, came, lo+half, hi)
	if wholeA && wholeB && home[lo] == home[lo+half] {
		return a + b + 1, true
	}
	return a + b, false
}

// TestMerged: vectors are added up as their ranks come, in any order, as far as the tree allows; the bits are those of
// the oracle. Where an operation may not be merged, no memory is given up.
func TestMerged(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	merged := 0
	for _, home := range [][]int{
		{0, 0}, {0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0},
		{0, 0, 1, 1}, {0, 1, 0, 1, 0}, {1, 0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 0, 1, 2, 2, 2},
	} {
		home = compactHomes(home)
		for name, tune := range ways {
			m := newScribbler()
			w := newNodes(t, home, tune, Config{})
			for _, n := range w.nodes {
				n.UseMemory(m)
			}
			w.comms = w.createComms(name)
			for _, x := range []struct {
				what    string
				op      Op
				f       form
				groups  int // operations in each rank's group
				refuses bool
				merges  bool
			}{
				{"in place", Op{Kind: AllReduce, Type: Float32, Reduction: Sum}, form{inPlace: true}, 1, false, true},
				{"average", Op{Kind: AllReduce, Type: BFloat16, Reduction: Avg}, form{inPlace: true, odd: true}, 1, false, true},
				{"product", Op{Kind: AllReduce, Type: Float16, Reduction: Prod}, form{inPlace: true}, 1, false, true},
				{"least", Op{Kind: AllReduce, Type: Int64, Reduction: Min}, form{inPlace: true}, 1, false, true},
				{"not in place", Op{Kind: AllReduce, Type: Float32, Reduction: Sum}, form{}, 1, false, false},
				{"factors", Op{Kind: AllReduce, Type: Float64, Reduction: PreMulSum}, form{inPlace: true}, 1, false, false},
				{"two in a group", Op{Kind: AllReduce, Type: Float32, Reduction: Sum}, form{inPlace: true}, 2, false, false},
				{"on devices of their own", Op{Kind: AllReduce, Type: Float32, Reduction: Sum}, form{inPlace: true}, 1, true, false},
				{"to all in slices", Op{Kind: ReduceScatter, Type: Float32, Reduction: Sum}, form{inPlace: true}, 1, false, false},
				{"gathered", Op{Kind: AllGather, Type: Float32}, form{inPlace: true}, 1, false, false},
				{"broadcast", Op{Kind: Broadcast, Type: Float32, Root: 1}, form{inPlace: true}, 1, false, false},
			} {
				x.op.Count = 1 + rng.IntN(200)
				var trials []*trial
				for range x.groups {
					trials = append(trials, newTrial(x.op, len(home), x.f, rng))
				}
				m.refuses = x.refuses
				where := fmt.Sprintf("%s, %s, %s", placementName(home), name, x.what)
				before, came, left := m.countGiven(), map[int]bool{}, map[int]int{}
				for _, p := range home {
					left[p]++
				}
				done := make(chan error, len(home))
				want := before
				for _, rank := range rng.Perm(len(home)) {
					p := home[rank]
					if left[p]--; x.merges && left[p] > 0 {
						came[rank] = true
						n, _ := mergedNodes(home, came, 0, len(home))
						want = before + n
					}
					var group []Op
					for _, tr := range trials {
						group = append(group, tr.ops[rank])
					}
					if err := w.comms[p].Issue(rank, group, func(err error) { done <- err }); err != nil {
						t.Fatal(err)
					}
					if x.merges {
						m.waitForGiven(t, want)
					}
				}
				for range home {
					if err := waitForValue(t, done); err != nil {
						t.Fatalf("%s: %v", where, err)
					}
				}
				for _, tr := range trials {
					tr.checkReceived(t, where)
				}
				merged += m.countGiven() - before
				if !x.merges && m.countGiven() != before {
					t.Errorf("%s: %d buffers were given up", where, m.countGiven()-before)
				}
			}
			for _, n := range w.nodes {
				n.Close()
			}
		}
	}
	t.Logf("%d vectors were added up before all ranks had come", merged)
}

// TestMergedInOrder: if ranks come in order, 1 + ⌈log₂ k⌉ vectors of k ranks are there at a time.
func TestMergedInOrder(t *testing.T) {
	for _, x := range []struct{ ranks, vectors int }{{2, 2}, {3, 3}, {4, 3}, {8, 4}, {16, 5}} {
		m := newScribbler()
		w := newNodes(t, make([]int, x.ranks), nil, Config{})
		w.nodes[0].UseMemory(m)
		w.comms = w.createComms("in order")
		tr := newTrial(Op{Kind: AllReduce, Type: Float32, Reduction: Sum, Count: 100}, x.ranks, form{inPlace: true}, rand.New(rand.NewPCG(9, 9)))
		done := make(chan error, x.ranks)
		came, most := map[int]bool{}, 0
		for rank, op := range tr.ops {
			most = max(most, rank+1-m.countGiven())
			if err := w.comms[0].Issue(rank, []Op{op}, func(err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
			if came[rank] = true; rank < x.ranks-1 {
				n, _ := mergedNodes(w.home, came, 0, x.ranks)
				m.waitForGiven(t, n)
			}
		}
		for range x.ranks {
			if err := waitForValue(t, done); err != nil {
				t.Fatal(err)
			}
		}
		tr.checkReceived(t, fmt.Sprint(x.ranks, " ranks"))
		if most > x.vectors {
			t.Errorf("%d ranks: %d vectors are there at a time, want %d", x.ranks, most, x.vectors)
		}
	}
}

// TestMergedFails: where a collective that was merged in part does not come to its end, each rank gets the error.
func TestMergedFails(t *testing.T) {
	for _, x := range []struct {
		what string
		end  func(w *world, tr *trial, done func(error)) error
		want error
		all  int // ranks with an operation that is over
	}{
		{"another operation", func(w *world, tr *trial, done func(error)) error {
			op := tr.ops[3]
			op.Reduction = Max
			return w.comms[0].Issue(3, []Op{op}, done)
		}, ErrMismatch, 4},
		{"abort", func(w *world, _ *trial, _ func(error)) error { w.comms[0].Abort(); return nil }, ErrAborted, 3},
		{"a rank that leaves", func(w *world, _ *trial, _ func(error)) error { return w.comms[0].Destroy(3) }, ErrLeft, 3},
	} {
		t.Run(x.what, func(t *testing.T) {
			m := newScribbler()
			w := newNodes(t, []int{0, 0, 0, 0}, nil, Config{})
			w.nodes[0].UseMemory(m)
			w.comms = w.createComms("fails")
			tr := newTrial(Op{Kind: AllReduce, Type: Float32, Reduction: Sum, Count: 100}, 4, form{inPlace: true}, rand.New(rand.NewPCG(9, 9)))
			over := make(chan error, 4)
			done := func(err error) { over <- err }
			for rank := range 3 {
				if err := w.comms[0].Issue(rank, []Op{tr.ops[rank]}, done); err != nil {
					t.Fatal(err)
				}
			}
			m.waitForGiven(t, 1)
			if err := x.end(w, tr, done); err != nil {
				t.Fatal(err)
			}
			for range x.all {
				if err := waitForValue(t, over); !errors.Is(err, x.want) {
					t.Errorf("a rank got %v, want %v", err, x.want)
				}
			}
		})
	}
}
