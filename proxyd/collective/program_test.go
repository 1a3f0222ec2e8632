// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestRandomPrograms: random programs of groups of collectives and messages, all issued before any is
// waited for, each rank at its own pace. However operations overlap, each has the same result as
// alone. In every other program, memory of buffers is given up.
func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(countIf(*every, 100) + 12) {
		rng := rand.New(rand.NewPCG(seed, 12))
		home := make([]int, 2+rng.IntN(5))
		for i := range home {
			home[i] = rng.IntN(min(i+1, 3))
		}
		home = compactHomes(home)
		var names []string
		for name := range ways {
			names = append(names, name)
		}
		way := names[rng.IntN(len(names))]
		w := newNodes(t, home, ways[way], Config{})
		if seed%2 == 1 {
			for _, n := range w.nodes {
				n.UseMemory(newScribbler())
			}
		}
		w.comms = w.createComms("world")
		p := newProgram(len(home), 25, rng)
		done := make(chan error, len(home)*len(p.groups))
		var issuers sync.WaitGroup
		for rank, node := range home {
			issuers.Go(func() {
				for _, g := range p.groups {
					if err := w.comms[node].Issue(rank, g[rank], func(err error) { done <- err }); err != nil {
						done <- err
					}
				}
			})
		}
		for range cap(done) {
			if err := waitForValue(t, done); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		issuers.Wait()
		for i, check := range p.checks {
			check(t, fmt.Sprintf("seed %d, check %d, %s, %s", seed, i, placementName(home), way))
		}
		for _, n := range w.nodes {
			n.Close()
		}
	}
}

type randomProgram struct {
	groups []map[int][]Op // each rank's group
	checks []func(t testing.TB, where string)
}

func newProgram(ranks, length int, rng *rand.Rand) *randomProgram {
	p := &randomProgram{}
	for range length {
		group := make(map[int][]Op)
		for range rng.IntN(3) {
			o := Op{Kind: Kind(rng.IntN(int(Send))), Type: Float32, Count: rng.IntN(120), Root: rng.IntN(ranks)}
			if o.Kind.isReduction() {
				o.Reduction = Reduction(rng.IntN(int(reductions)))
			}
			tr := newTrial(o, ranks, form{inPlace: rng.IntN(2) == 0}, rng)
			for r, op := range tr.ops {
				group[r] = append(group[r], op)
			}
			p.checks = append(p.checks, tr.checkReceived)
		}
		for range rng.IntN(2 * ranks) {
			from, to, n := rng.IntN(ranks), rng.IntN(ranks), rng.IntN(200)
			sent, got := randomVector(Uint8, n, rng), make([]byte, n)
			group[from] = append(group[from], Op{Kind: Send, Type: Uint8, Count: n, Peer: to, Send: sent})
			group[to] = append(group[to], Op{Kind: Recv, Type: Uint8, Count: n, Peer: from, Recv: got})
			p.checks = append(p.checks, func(t testing.TB, where string) {
				t.Helper()
				if !bytes.Equal(got, sent) {
					t.Fatalf("%s: a message from rank %d to rank %d arrived as another", where, from, to)
				}
			})
		}
		p.groups = append(p.groups, group)
	}
	return p
}
