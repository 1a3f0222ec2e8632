// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

type splitResult struct {
	old, rank int
	comm      *Comm
	err       error
}

func (w *world) splitAll(colours, keys []int) []splitResult {
	w.t.Helper()
	results := make(chan splitResult, len(colours))
	for r, colour := range colours {
		err := w.comms[w.home[r]].Split(r, colour, keys[r], func(c *Comm, rank int, err error) {
			results <- splitResult{r, rank, c, err}
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	all := make([]splitResult, len(colours))
	for range colours {
		s := waitForValue(w.t, results)
		if s.err != nil {
			w.t.Fatalf("a rank's split: %v", s.err)
		}
		all[s.old] = s
	}
	return all
}

func TestSplitCommunicators(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	w := newWorld(t, []int{0, 0, 1, 2, 1, 2}, nil)
	for _, c := range []struct {
		name          string
		colours, keys []int
		ranks         []int // in the new communicator
		number        int
	}{
		{"two halves", []int{0, 0, 0, 1, 1, 1}, []int{0, 0, 0, 0, 0, 0}, []int{0, 1, 2, 0, 1, 2}, 1},
		{"keys turn them round", []int{4, 4, 4, 4, 4, 4}, []int{6, 5, 4, -3, -3, -8}, []int{5, 4, 3, 1, 2, 0}, 2},
		{"some in none", []int{-1, 2, -1, 2, -1, 2}, []int{0, 1, 0, 1, 0, 0}, []int{0, 1, 0, 2, 0, 0}, 3},
		{"each alone", []int{0, 1, 2, 3, 4, 5}, []int{0, 0, 0, 0, 0, 0}, []int{0, 0, 0, 0, 0, 0}, 4},
		{"all in none", []int{-1, -1, -1, -1, -1, -1}, []int{0, 0, 0, 0, 0, 0}, []int{0, 0, 0, 0, 0, 0}, 5},
	} {
		done := make(chan error, 6)
		issued := 0
		sends, got := make([][]byte, 6), make([][]byte, 6)
		for _, s := range w.splitAll(c.colours, c.keys) {
			if c.colours[s.old] < 0 {
				if s.comm != nil {
					t.Errorf("%s: rank %d is in a communicator", c.name, s.old)
				}
				continue
			}
			if id := branchID("world", c.number, c.colours[s.old]); s.comm.ID() != id || s.rank != c.ranks[s.old] {
				t.Fatalf("%s: rank %d is %d of %s, want %d of %s", c.name, s.old, s.rank, s.comm.ID(), c.ranks[s.old], id)
			}
			// A communicator may be used before its creation has ended.
			sends[s.old], got[s.old] = randomVector(Float32, 9, rng), make([]byte, 36*s.comm.Size())
			op := Op{Kind: AllGather, Type: Float32, Count: 9, Send: sends[s.old], Recv: got[s.old]}
			if err := s.comm.Issue(s.rank, []Op{op}, func(err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
			issued++
		}
		for range issued {
			if err := waitForValue(t, done); err != nil {
				t.Fatalf("an all-gather in the new communicators of %q: %v", c.name, err)
			}
		}
		for me, colour := range c.colours {
			for other, same := range c.colours {
				if colour < 0 || same != colour {
					continue
				}
				if at := c.ranks[other] * 36; !bytes.Equal(got[me][at:at+36], sends[other]) {
					t.Errorf("%s: rank %d did not get what rank %d sent", c.name, me, other)
				}
			}
		}
	}
	if err := w.comms[0].Split(0, -2, 0, nil); !errors.Is(err, ErrArgument) {
		t.Errorf("colour -2: %v", err)
	}
	if err := w.comms[0].Split(5, 0, 0, nil); !errors.Is(err, ErrArgument) {
		t.Errorf("a rank of another member: %v", err)
	}
}

// TestSplitOutlivesParent: a split of a split, after the first communicator is gone.
func TestSplitOutlivesParent(t *testing.T) {
	w := newWorld(t, []int{0, 1, 0, 1}, nil)
	first := w.splitAll([]int{0, 0, 0, 0}, []int{0, 0, 0, 0})
	for _, c := range w.comms {
		c.Abort()
		waitForValue(t, c.Done())
	}
	w.comms = []*Comm{first[0].comm, first[1].comm}
	second := w.splitAll([]int{7, 7, -1, -1}, []int{1, 0, 0, 0})
	if id := second[1].comm.ID(); id != branchID(branchID("world", 1, 0), 1, 7) || second[1].rank != 0 {
		t.Errorf("after the second split, rank 1 is %d of %s", second[1].rank, id)
	}
	w.ready(second[0].comm)
	w.ready(second[1].comm)
}
