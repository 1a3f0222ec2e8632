// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"runtime"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// TestCutMerged: the gradients of two of four ranks that share a device have been added up, and memory of them was given
// up, when a cut is sought. No cut is found before the other ranks have come, since the two ranks' gradients are nowhere
// else. The cut after that has the sum, which each rank has again on a device of its own.
func TestCutMerged(t *testing.T) {
	const size, mine = 4 * backend.Granule, 64 << 20
	s := serverOf(t, "test", []int{0, 0, 0, 0}, mine)
	job := []*Server{s}
	all := makeRanks(t, s, s, s, s)
	var at []uint64
	for i, r := range all {
		at = append(at, r.alloc(size))
		r.must("cuMemsetD32_v2", at[i], uint32(i+1), uint64(size/4))
		r.must("cuCtxSynchronize")
	}
	saved := func() uint64 { return s.Status().Sharing[0].Saved }
	if saved() != 0 {
		t.Fatalf("%d bytes are common before the sum", saved())
	}
	come := func(i int) {
		data := dispatch.Devptr(at[i])
		all[i].issueCounted(dispatch.Ncclop{Kind: int32(collective.AllReduce), Type: ncclInt32, Count: size / 4, Src: data, Dst: data, Comm: commA})
	}
	come(0)
	come(1)
	for saved() < size {
		runtime.Gosched()
	}
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
	for s.currentAttempt() == nil {
		runtime.Gosched()
	}
	come(2)
	come(3)
	x := <-found
	if x.err != nil {
		t.Fatal(x.err)
	}
	folders, rings := saveAndEnd(t, job, x.cut.Attempt)
	_ = x.cut.Open(t.Context()) // no server is there any more
	if n := heldGroups(t, folders); n != 0 {
		t.Errorf("%d groups were held", n)
	}
	job = []*Server{serverOf(t, "other", nil, mine, mine, mine, mine)}
	reconnectAll(t, job, takePlaces(t, job, folders, rings))
	for i, r := range all {
		for k := uint64(0); k < size; k += backend.Granule / 2 {
			if got := r.readInts(at[i]+k, 1)[0]; got != 1+2+3+4 {
				t.Errorf("rank %d has %d at %#x, want the sum", i, got, k)
			}
		}
	}
	if got := job[0].Status().Sharing; len(got) > 0 && got[0].Saved != 0 {
		t.Errorf("%d bytes are common on devices of their own", got[0].Saved)
	}
	gatesOpen(t, job...)
}
