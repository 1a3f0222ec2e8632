// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// TestUnknownJobIsKept: a slurmctld that was started without its state knows no job. The files of a job that ends a run
// meanwhile stay, and the job is settled once the state is back.
func TestUnknownJobIsKept(t *testing.T) {
	settle := func(again ...string) func(t *testing.T, e Ends) {
		return func(t *testing.T, e Ends) {
			if err := e.SettleEndedRun(t.Context(), 7, 2, again, ""); err != nil {
				t.Error(err)
			}
		}
	}
	afterTimeLimit := func(t *testing.T, e Ends) {
		rec := recordOf(7)
		rec.RequeuedBy = "n1"
		if err := e.Records.Save(rec); err != nil {
			t.Error(err)
		}
		e.RequeueAfterTimeLimit(t.Context(), *rec)
	}
	for name, tt := range map[string]struct {
		act      func(t *testing.T, e Ends)
		later    string // state of the job that Slurm shows after five minutes; "": it never knows the job again
		kept     bool
		requeued bool
	}{
		"for ever":                            {act: settle(), kept: true},
		"and then waits to run again":         {act: settle(), later: "PENDING", kept: true},
		"and then is complete":                {act: settle(), later: "COMPLETED"},
		"and then is to be requeued":          {act: settle("FAILED"), later: "FAILED", kept: true, requeued: true},
		"for ever, after its time limit":      {act: afterTimeLimit, kept: true},
		"and then has reached its time limit": {act: afterTimeLimit, later: "TIMEOUT", kept: true, requeued: true},
		"and then waits after its time limit": {act: afterTimeLimit, later: "PENDING", kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := slurmtest.NewQueue(t)
			e := endsOn(t, "n1", t.TempDir(), q, 7)
			e.Store = storeWithCheckpoint(t)
			if err := os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(requeuingControl), 0o755); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				if tt.later != "" {
					time.AfterFunc(UnknownGrace/2, func() { restartedJob(t, q, tt.later) })
				}
				tt.act(t, e)
			})
			job := store.PlainJob(e.Cluster, 7)
			all, err := e.Store.List(t.Context(), &job)
			rec, recErr := e.Records.Load(7)
			if err := errors.Join(err, recErr); err != nil {
				t.Fatal(err)
			}
			if kept := len(all) == 1 && rec != nil; kept != tt.kept {
				t.Errorf("the job is kept: %v, want %v: %d checkpoints, record %v", kept, tt.kept, len(all), rec)
			}
			asked, _ := os.ReadFile(filepath.Join(q.Dir, "asked"))
			if requeued := strings.Contains(string(asked), "requeue 7"); requeued != tt.requeued {
				t.Errorf("requeued: %v, want %v; asked:\n%s", requeued, tt.requeued, asked)
			}
		})
	}
}

// TestRequeueKeepsRecord: if the requeue after the time limit has been done already, the fields that the next run has
// written to the record stay.
func TestRequeueKeepsRecord(t *testing.T) {
	q := slurmtest.NewQueue(t)
	e := endsOn(t, "n1", t.TempDir(), q, 7)
	restartedJob(t, q, "RUNNING")
	before := recordOf(7)
	before.RequeuedBy = "n1"
	now := *before
	now.LastNumber, now.RunsBegun, now.BeginAnew = 4, 3, true
	if err := e.Records.Save(&now); err != nil {
		t.Fatal(err)
	}
	e.RequeueAfterTimeLimit(t.Context(), *before)
	rec, err := e.Records.Load(7)
	if err != nil || rec.RequeuedBy != "" || rec.LastNumber != 4 || rec.RunsBegun != 3 || !rec.BeginAnew {
		t.Errorf("the record is %+v, %v", rec, err)
	}
}
