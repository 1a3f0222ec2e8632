// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// scribbler is a Memory that overwrites the buffers that are given up, and counts.
type scribbler struct {
	refuses bool // that any buffers share memory

	mu      sync.Mutex
	given   int
	spreads int
	changed chan struct{} // has an item when given has grown
}

func newScribbler() *scribbler { return &scribbler{changed: make(chan struct{}, 1)} }

func (m *scribbler) CanShare(buffers [][]byte) bool { return !m.refuses && len(buffers) > 1 }

func (m *scribbler) GiveUp(b []byte) {
	for i := range b {
		b[i] = 0xa5
	}
	m.mu.Lock()
	m.given++
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *scribbler) countGiven() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given
}

// waitForGiven waits until so many buffers were given up in all.
func (m *scribbler) waitForGiven(t testing.TB, n int) {
	t.Helper()
	for limit := time.After(patience); m.countGiven() < n; {
		select {
		case <-m.changed:
		case <-limit:
			t.Fatalf("%d buffers were given up, want %d", m.countGiven(), n)
		}
	}
}

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
