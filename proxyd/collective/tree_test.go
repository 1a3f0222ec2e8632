// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for n, want := range map[int]int{2: 1, 3: 2, 4: 2, 5: 4, 7: 4, 8: 4, 9: 8, 1000: 512, 1 << 16: 1 << 15} {
		if got := (node{10, 10 + n}).splitPoint() - 10; got != want {
			t.Errorf("%d ranks are split after %d, want %d", n, got, want)
		}
	}
}

func TestCover(t *testing.T) {
	for _, c := range []struct{ name, home, want string }{
		{"one process", "00000", "0-4"},
		{"blocks of two", "00112233", "0-1 | 2-3 | 4-5 | 6-7"},
		{"three processes", "00011122", "0-1 2 | 3 4-5 | 6-7"},
		{"round robin", "01010101", "0 2 4 6 | 1 3 5 7"},
		{"a block across the middle", "0111", "0 | 1 2-3"},
		{"five ranks, the last alone", "00001", "0-3 | 4"},
		{"one rank", "0", "0"},
	} {
		home := make([]int, len(c.home))
		for i, d := range c.home {
			home[i] = int(d - '0')
		}
		var got []string
		for _, nodes := range coverRanks(node{0, len(home)}, home) {
			var names []string
			for _, n := range nodes {
				if n.hi-n.lo == 1 {
					names = append(names, fmt.Sprint(n.lo))
				} else {
					names = append(names, fmt.Sprintf("%d-%d", n.lo, n.hi-1))
				}
			}
			got = append(got, strings.Join(names, " "))
		}
		if s := strings.Join(got, " | "); s != c.want {
			t.Errorf("%s: subtrees %s, want %s", c.name, s, c.want)
		}
	}
}

// TestSumFromParts: a sum may be computed from any mix of subtrees that are there, over memory that
// may be overwritten or not, into one of the operands or not: the result is always the oracle's.
func TestSumFromParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range 150 {
		ranks := 1 + rng.IntN(17)
		count := 1 + rng.IntN(20)
		if round%50 == 0 {
			ranks, count = 5, blockBytes/2+3 // more than a single block
		}
		r := []Reduction{Sum, PreMulSum, Max, Avg}[rng.IntN(4)]
		typ := Float16
		vectors, scales := make([][]byte, ranks), make([][]byte, ranks)
		for i := range vectors {
			vectors[i] = randomVector(typ, count, rng)
			scales[i] = storeCode(typ, randomCode(typ, rng))
		}
		want := oracleReduce(typ, r, vectors, scales)
		home := make([]int, ranks)
		processes := 1 + rng.IntN(4)
		for i := range home {
			home[i] = rng.IntN(processes)
		}
		s := newSum(typ, r, ranks)
		var kept, before [][]byte
		for p, nodes := range coverRanks(node{0, ranks}, home) {
			for _, n := range nodes {
				part := newSum(typ, r, ranks)
				for i := n.lo; i < n.hi; i++ {
					var factor []byte
					if r == PreMulSum {
						factor = scales[i]
					}
					part.setLeaf(node{i, i + 1}, vectors[i], factor, false)
					if p == 0 {
						s.setLeaf(node{i, i + 1}, vectors[i], factor, false)
						kept, before = append(kept, vectors[i]), append(before, bytes.Clone(vectors[i]))
					}
				}
				if p > 0 {
					b := make([]byte, len(want))
					part.computeNode(n, b)
					s.setLeaf(n, b, nil, true)
				}
			}
		}
		dst := make([]byte, len(want))
		inPlace := len(kept) > 0 && rng.IntN(2) == 0
		if inPlace {
			dst, kept, before = kept[0], kept[1:], before[1:]
		}
		s.computeNode(node{0, ranks}, dst)
		if r == Avg && ranks > 1 {
			divideBy(typ, dst, ranks)
		}
		if !bytes.Equal(dst, want) {
			t.Fatalf("%s of %d ranks at %v, in place %v: differs from the oracle", r, ranks, home, inPlace)
		}
		if !slices.EqualFunc(kept, before, bytes.Equal) {
			t.Fatalf("%s of %d ranks at %v: a contribution was overwritten", r, ranks, home)
		}
	}
}

func randomVector(t Type, count int, rng *rand.Rand) []byte {
	var v []byte
	for range count {
		v = append(v, storeCode(t, randomCode(t, rng))...)
	}
	return v
}
