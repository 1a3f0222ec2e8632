// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// scribbler is a Memory that counts.
type scribbler struct {
	refuses bool // that any buffers share memory

	mu      sync.Mutex
	spreads int
}

func newScribbler() *scribbler { return &scribbler{} }

func (m *scribbler) CanShare(buffers [][]byte) bool { return !m.refuses && len(buffers) > 1 }

func (m *scribbler) Spread(from []byte, buffers [][]byte) {
	m.mu.Lock()
	m.spreads++
	m.mu.Unlock()
	for _, b := range buffers {
		copy(b, from)
	}
}

// TestSpread: a result that all ranks receive is spread over the buffers of each process with several ranks, if these can share
// memory, and no other result is.
func TestSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	home := []int{0, 0, 1, 2, 2, 2}
	for name, tune := range ways {
		m := newScribbler()
		w := newNodes(t, home, tune, Config{})
		for _, n := range w.nodes {
			n.UseMemory(m)
		}
		w.comms = w.createComms(name)
		for kind := range Send {
			for _, x := range []struct{ inPlace, refuses bool }{{false, false}, {true, false}, {true, true}} {
				o := Op{Kind: kind, Type: Float32, Count: 1 + rng.IntN(200), Root: 3}
				m.spreads, m.refuses = 0, x.refuses
				tr := newTrial(o, len(home), form{inPlace: x.inPlace}, rng)
				w.mustIssue(tr.ops)
				where := fmt.Sprintf("%s, %s, %+v", kind, name, x)
				tr.checkReceived(t, where)
				want := 0
				if !x.refuses && (kind == AllReduce || kind == AllGather || kind == Broadcast) {
					want = 2 // processes with several ranks
				}
				if m.spreads != want {
					t.Errorf("%s: %d results were spread, want %d", where, m.spreads, want)
				}
			}
		}
		for _, n := range w.nodes {
			n.Close()
		}
	}
}
