// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestBadOperations(t *testing.T) {
	w := newWorld(t, []int{0, 0, 0}, nil)
	b := func(n int) []byte { return make([]byte, n) }
	for _, c := range []struct {
		name string
		rank int
		op   Op
		says string
	}{
		{"kind", 0, Op{Kind: kinds}, "no such kind"},
		{"a split is none of the caller's", 0, Op{Kind: splitRanks}, "no such kind"},
		{"type", 0, Op{Type: types}, "no such type"},
		{"reduction", 0, Op{Reduction: reductions}, "no such reduction"},
		{"negative count", 0, Op{Count: -1}, "count -1"},
		{"count that overflows", 0, Op{Kind: AllGather, Type: Float64, Count: math.MaxInt / 8}, "count "},
		{"root", 0, Op{Kind: Reduce, Root: 3}, "root 3 of 3 ranks"},
		{"negative root", 0, Op{Kind: Broadcast, Root: -1}, "root -1"},
		{"peer", 0, Op{Kind: Send, Peer: 3}, "peer 3 of 3 ranks"},
		{"short send buffer", 0, Op{Type: Int32, Count: 2, Send: b(7), Recv: b(8)}, "send buffer of 7 bytes, 8 needed"},
		{"short receive buffer", 0, Op{Kind: AllGather, Count: 2, Send: b(2), Recv: b(5)}, "receive buffer of 5 bytes, 6 needed"},
		{"root's receive buffer", 0, Op{Kind: Gather, Count: 2, Send: b(2)}, "receive buffer of 0 bytes, 6 needed"},
		{"no factor", 0, Op{Reduction: PreMulSum, Type: Float32}, "scale of 0 bytes for float32"},
		{"a rank that is not there", 3, Op{}, "rank 3 is not here"},
	} {
		err := w.comms[0].Issue(c.rank, []Op{c.op}, func(error) { t.Errorf("%s: done was called", c.name) })
		if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Issue = %v, want …%s", c.name, err, c.says)
		}
	}
	if issued, _ := w.comms[0].Counts(0); issued != 0 {
		t.Errorf("%d operations were issued", issued)
	}
}

// TestMismatch: ranks that do not agree get an error, whether they are in a single process or in
// two.
func TestMismatch(t *testing.T) {
	b := func() []byte { return make([]byte, 64) }
	good := Op{Kind: AllReduce, Type: Int32, Count: 4, Send: b(), Recv: b()}
	with := func(change func(*Op)) Op {
		o := good
		o.Send, o.Recv = b(), b()
		change(&o)
		return o
	}
	for name, other := range map[string]Op{
		"kind":      with(func(o *Op) { o.Kind = AllGather }),
		"count":     with(func(o *Op) { o.Count = 3 }),
		"type":      with(func(o *Op) { o.Type = Float32 }),
		"reduction": with(func(o *Op) { o.Reduction = Max }),
	} {
		for _, home := range [][]int{{0, 0}, {0, 1}} {
			w := newWorld(t, home, nil)
			err := w.issueGroups(w.comms, map[int][]Op{0: {good}, 1: {other}})
			if !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrAborted) {
				t.Errorf("ranks that differ in the %s, on %s: %v", name, placementName(home), err)
			}
			said := false
			for _, c := range w.comms {
				said = said || errors.Is(c.Err(), ErrMismatch)
			}
			if !said {
				t.Errorf("%s, %s: the error has no reason", name, placementName(home))
			}
		}
	}
}

func TestMismatchedMessage(t *testing.T) {
	for _, home := range [][]int{{0, 0}, {0, 1}} {
		w := newWorld(t, home, nil)
		err := w.issueGroups(w.comms, map[int][]Op{
			0: {{Kind: Send, Count: 3, Peer: 1, Send: make([]byte, 3)}},
			1: {{Kind: Recv, Count: 4, Peer: 0, Recv: make([]byte, 4)}},
		})
		if err == nil || !errors.Is(w.comms[0].Err(), ErrMismatch) {
			t.Errorf("a send of 3 bytes to a receive of 4, on %s: %v", placementName(home), err)
		}
	}
}
