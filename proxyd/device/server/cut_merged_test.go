// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// TestCutMerged: the gradients of two of four ranks that share a device have been added up, and memory of them was given
// up, when a cut is sought; the gradients of another bucket wait behind. No cut is found before the other ranks have
// come, since the two ranks' gradients are nowhere else. The cut after that has the sum, which each rank has again on any
// number of devices. There the other bucket is added up, too, and both once more. If a cut comes behind the other bucket,
// the trial is made again.
func TestCutMerged(t *testing.T) {
	for _, x := range []struct {
		name   string
		order  []int // of the restored server
		memory []uint64
	}{
		{"a device", []int{0, 0, 0, 0}, []uint64{testMemory}},
		{"two devices", []int{0, 1, 1, 0}, []uint64{testMemory, testMemory}},
		{"devices of their own", nil, []uint64{testMemory, testMemory, testMemory, testMemory}},
	} {
		for _, first := range []int{0, 2} { // the pair that comes first
			t.Run(fmt.Sprintf("%s, ranks %d and %d", x.name, first, first+1), func(t *testing.T) {
				const most = 20
				for n := 1; cutWhileMerged(t, first, x.order, x.memory) == 0; n++ {
					if n == most {
						t.Fatalf("the other bucket was never held in %d cuts", most)
					}
				}
			})
		}
	}
}

// cutWhileMerged cuts while gradients of two ranks have been added up, and restores the ranks; see TestCutMerged. The result is
// how many groups of the other bucket were held: 0 if all ranks came to these before the cut was decided.
func cutWhileMerged(t *testing.T, first int, order []int, memory []uint64) (held int) {
	t.Helper()
	m := makeMerger(t, 1, 2)
	m.fillBuffer(0)
	m.fillBuffer(1)
	job := []*Server{m.s}
	m.comeInPairs(first, first+1, 0)
	m.giveVector(first, 1)
	m.giveVector(first+1, 1)
	if c, err := findCut(t, cut.Options{Deadline: 300 * time.Millisecond}, job...); err == nil {
		_ = c.Open(t.Context())
		t.Fatal("a cut was found while two ranks' gradients are a sum")
	}
	type result struct {
		cut *cut.Cut
		err error
	}
	found := make(chan result)
	go func() {
		c, err := findCut(t, cut.Options{}, job...)
		found <- result{c, err}
	}()
	for m.s.currentAttempt() == nil {
		runtime.Gosched()
	}
	for _, i := range []int{2 - first, 3 - first} {
		m.giveVector(i, 0)
		m.giveVector(i, 1)
	}
	c := <-found
	if c.err != nil {
		t.Fatal(c.err)
	}
	folders, rings := saveAndEnd(t, job, c.cut.Attempt)
	_ = c.cut.Open(t.Context()) // no server is there any more
	if held = heldGroups(t, folders); held != len(m.all) && held != 0 {
		t.Errorf("groups of %d of %d ranks were held", held, len(m.all))
	}
	m.s = serverOf(t, "other", order, memory...)
	job = []*Server{m.s}
	reconnectAll(t, job, takePlaces(t, job, folders, rings))
	for i := range m.all {
		m.wantSum("after the restore", i, 0, 1+2+3+4)
		m.wantSum("after the restore", i, 1, 1+2+3+4)
	}
	for _, i := range rand.New(rand.NewPCG(5, 5)).Perm(len(m.all)) {
		m.giveVector(i, 0)
		m.giveVector(i, 1)
	}
	for i := range m.all {
		m.wantSum("added up again", i, 0, 4*(1+2+3+4))
		m.wantSum("added up again", i, 1, 4*(1+2+3+4))
	}
	if got := job[0].Status().Sharing; order == nil && len(got) > 0 && got[0].Saved != 0 {
		t.Errorf("%d bytes are common on devices of their own", got[0].Saved)
	}
	gatesOpen(t, job...)
	return held
}
