// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// TestNumbersAreUsedOnce: also numbers of checkpoints that were deleted, lost or never made.
func TestNumbersAreUsedOnce(t *testing.T) {
	l := newLab(t)
	n1 := l.bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	j := n1.jobFor(7)
	rec := &records.Record{Job: 7, Slurm: "7", Nodes: []string{"n1"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1")}}
	j.run.BeginNext(rec, 0, nil, nil)
	noError(t, n1.records.Save(rec))
	own := uint32(0)
	next := func(want uint32) {
		t.Helper()
		got, err := n1.nextNumber(t.Context(), 7, own)
		noError(t, err)
		if got != want {
			t.Fatalf("the next number is %d, want %d", got, want)
		}
	}
	took := func(number uint32) {
		t.Helper()
		next(number)
		noError(t, j.reserveNumber(number))
		l.commitCheckpoint(n1, number)
	}
	next(1)
	took(1)
	took(2)
	noError(t, n1.Store.Delete(t.Context(), l.checkpointID(2)))
	next(3)
	noError(t, j.reserveNumber(3)) // and then the checkpoint failed
	took(4)
	noError(t, n1.newEnds().DeleteCheckpoints(t.Context(), 7)) // a run that begins anew
	next(5)

	// An attempt that tries again.
	noError(t, j.reserveNumber(5))
	next(6)
	own = 5
	next(5)
	l.commitCheckpoint(n1, 5)
	next(6)
	own = 0

	// A checkpoint that is on its way, or was lost on the way.
	noError(t, records.WriteJSON(filepath.Join(n1.records.Dir, "7.upload"), upload.Record{Job: 7, Number: 7, Leader: "n1", Nodes: []string{"n1"}, Lost: "why"}))
	next(8)

	// A restarted daemon has the number from the record. The record of an older version has no number: then it comes from
	// the store.
	rec, err := n1.records.Load(7)
	noError(t, err)
	rec.LastNumber = 0
	noError(t, n1.records.Save(rec))
	l.commitCheckpoint(n1, 9)
	next(10)
}

// commitCheckpoint puts a checkpoint into the store.
func (l *lab) commitCheckpoint(c *Conductor, number uint32) {
	l.t.Helper()
	w, err := c.Store.Create(l.t.Context(), store.Upload{ID: l.checkpointID(number), Node: c.Node})
	noError(l.t, err)
	_, err = w.Commit(l.t.Context(), []byte("meta"))
	noError(l.t, err)
}
