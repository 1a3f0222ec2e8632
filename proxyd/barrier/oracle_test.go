// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// issuedKeys are the keys that each operation of a rank counts, in its order. ok is false
// where that order is not fixed: where several threads issue.
func (w *world) issuedKeys() (ops [][][]int, ok bool) {
	ops = make([][][]int, w.n)
	for _, th := range w.threads {
		first := len(ops[th.rank]) == 0
		for _, s := range th.steps {
			if s.kind == issue {
				if ops[th.rank] = append(ops[th.rank], s.keys); !first {
					return nil, false
				}
			}
		}
	}
	return ops, true
}

// isLevel says whether all numbers are equal on all lines when each rank has issued at[r] of its
// operations.
func (w *world) isLevel(ops [][][]int, at []int) bool {
	counts := make([]int, len(w.keys))
	for r, n := range at {
		for _, keys := range ops[r][:n] {
			for _, k := range keys {
				counts[k]++
			}
		}
	}
	for _, line := range w.peers {
		for _, k := range line {
			if counts[k] != counts[line[0]] {
				return false
			}
		}
	}
	return true
}

// leastCut is the smallest cut at or after from, found by trying all positions. A smallest cut
// exists: from two cuts, the smaller of each rank's positions make a cut.
func (w *world) leastCut(ops [][][]int, from []int) []int {
	var best []int
	var try func(at []int)
	try = func(at []int) {
		if r := len(at); r < len(from) {
			for n := from[r]; n <= len(ops[r]); n++ {
				try(append(slices.Clip(at), n))
			}
			return
		}
		if !w.isLevel(ops, at) {
			return
		}
		if best == nil {
			best = slices.Clone(at)
		}
		for r := range best {
			best[r] = min(best[r], at[r])
		}
	}
	try(nil)
	return best
}

// position returns how many operations a rank has issued.
func (s *state) position(w *world, r int) (n int) {
	for t, th := range w.threads {
		for pc, st := range th.steps {
			if int(th.rank) == r && st.kind == issue && pc < int(s.pcs[t]) {
				n++
			}
		}
	}
	return n
}

// walkRandomly follows a single random path to its end. The results are where each rank was when its gate
// shut, and whether nudges were given on the way.
func walkRandomly(w *world, rng *rand.Rand) (last *state, from []int, nudged bool) {
	s := newState(w, rules{})
	from = make([]int, w.n)
	for {
		moves := s.nextMoves(w)
		if len(moves) == 0 {
			return s, from, nudged
		}
		m := moves[rng.IntN(len(moves))]
		if s.asked && m.what != "hear" && rng.IntN(3) == 0 {
			continue // let reports be heard a little sooner than the rest
		}
		nudged = nudged || m.what == "tick"
		for r := range w.n {
			if !s.gates[r].shut || s.gone[r] {
				from[r] = m.to.position(w, r)
			}
		}
		s = m.to
	}
}

// TestCutIsLeastFixedPoint: the cut is the smallest cut at or after the places where the gates shut.
func TestCutIsLeastFixedPoint(t *testing.T) {
	walks, found, further := 200, 0, 0
	if *programs > 0 {
		walks = 100 * *programs
	}
	for n := *seed; found < walks; n++ {
		w := newWorldOrNil(randomProgram(n, 8))
		if w == nil {
			continue
		}
		ops, ok := w.issuedKeys()
		if !ok || !w.isValid() {
			continue
		}
		for i := range uint64(4) {
			last, from, nudged := walkRandomly(w, rand.New(rand.NewPCG(n, i)))
			if last.end != cutFound || last.describeTorn(w) != "" {
				t.Fatalf("%v: walk %d ends with %v, want a safe cut", w.program, i, last.end)
			}
			at := make([]int, w.n)
			for r := range at {
				at[r] = last.position(w, r)
			}
			want := w.leastCut(ops, from)
			if nudged {
				continue // the cut may be a later cut
			}
			found++
			if !slices.Equal(from, want) {
				further++
			}
			if !slices.Equal(at, want) {
				t.Errorf("%v: seed %d, walk %d: gates shut at %v: cut at %v, want the least at %v", w.program, n, i, from, at, want)
			}
		}
	}
	t.Logf("%d cuts, %d of them further on than where the gates shut", found, further)
	if further < found/4 {
		t.Errorf("%d of %d walks had to go further than where the gates shut: too few to show anything", further, found)
	}
}

// TestDataParallelCutIsTheFurthestRank: in a data-parallel loop the ranks go up to the count of the
// furthest rank and no further.
func TestDataParallelCutIsTheFurthestRank(t *testing.T) {
	const lead, behind, ahead = 6, 3, 9
	b := New(2, Communicator{Comm: 1, Members: []Rank{0, 1}})
	key := func(r Rank) Key { return Key{Comm: 1, Member: int32(r)} }
	b.Step(Start{})
	b.Step(Shut{0, []Count{{key(0), ahead}}})
	out := b.Step(Shut{1, []Count{{key(1), behind}}})
	var g Gate
	g.Shut()
	n := uint64(behind)
	for issued := 0; ; issued++ {
		for _, r := range out.Raise {
			g.Raise(r.Targets)
		}
		if ok, _ := g.Pass(func(Key) uint64 { return n }); !ok {
			if issued != lead {
				t.Errorf("rank 1 issued %d operations, want %d", issued, lead)
			}
			break
		}
		n++
		out = b.Step(Issued{Rank: 1, Counts: []Count{{key(1), n}}})
	}
	if !out.Read {
		t.Errorf("at count %d: effects %+v, want a second reading", n, out)
	}
}
