// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"errors"
	"strings"
	"testing"
)

// TestRankLeaves: no rank waits for a rank of the same process that has destroyed the communicator:
// before or after the operation which needs that rank.
func TestRankLeaves(t *testing.T) {
	f := func(o Op) Op {
		o.Type, o.Count, o.Send, o.Recv = Int8, 1, make([]byte, 3), make([]byte, 3)
		return o
	}
	for _, tc := range []struct {
		name string
		home []int
		op   Op // of rank 0; rank 1 leaves
	}{
		{"collective", []int{0, 0, 0}, f(Op{Kind: AllReduce})},
		{"collective over two processes", []int{0, 0, 1}, f(Op{Kind: AllReduce})},
		{"send", []int{0, 0, 0}, f(Op{Kind: Send, Peer: 1})},
		{"receive", []int{0, 0, 1}, f(Op{Kind: Recv, Peer: 1})},
	} {
		for _, before := range []bool{true, false} {
			name := tc.name + ", and then it leaves"
			if before {
				name = tc.name + " after it left"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, tc.home, nil)
				var ops []Op
				for range tc.home {
					ops = append(ops, f(Op{Kind: AllReduce}))
				}
				w.mustIssue(ops) // an operation that all take part in
				done := make(chan error, 1)
				steps := []func(){
					func() {
						if err := w.comms[0].Destroy(1); err != nil {
							t.Error(err)
						}
					},
					func() {
						if err := w.comms[0].Issue(0, []Op{tc.op}, func(err error) { done <- err }); err != nil {
							t.Error(err)
						}
					},
				}
				if !before {
					steps[0], steps[1] = steps[1], steps[0]
				}
				for _, step := range steps {
					step()
				}
				if err := waitForValue(t, done); !errors.Is(err, ErrLeft) {
					t.Errorf("an operation that needs the rank that left: %v, want %v", err, ErrLeft)
				}
				<-w.comms[len(w.comms)-1].Failed()
			})
		}
	}
}

// TestFail: a reason reaches all processes, and these return ErrAborted with it.
func TestFail(t *testing.T) {
	w := newWorld(t, []int{0, 1}, nil)
	w.comms[0].Fail(errors.New("the moon is full"))
	for p, c := range w.comms {
		waitForValue(t, c.Failed())
		if err := c.Err(); !errors.Is(err, ErrAborted) || !strings.Contains(err.Error(), "the moon is full") {
			t.Errorf("Err of process %d = %v, want ErrAborted with the reason", p, err)
		}
	}
}
