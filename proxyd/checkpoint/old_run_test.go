// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// committedWriter is a leader's share that notes whether it was committed.
type committedWriter struct {
	upload.ShareWriter
	committed bool
}

// Commit implements upload.ShareWriter.
func (w *committedWriter) Commit(context.Context, []byte, []store.NodeStreams) error {
	w.committed = true
	return nil
}

// TestOldRunMakesNoCheckpoint: a run that Slurm has given up, but that still runs, makes no checkpoint once a newer run
// has begun, and its end does not decide how the job goes on. Without a newer run, or if Slurm says that there is no
// newer run, the old run is captured as usual.
func TestOldRunMakesNoCheckpoint(t *testing.T) {
	for name, tt := range map[string]struct {
		run      int
		newer    bool // a newer run has begun, on n2
		away     bool // slurmctld, else it shows one restart
		captured bool
	}{
		"the newest run":                       {run: 1, captured: true},
		"requeued, and no newer run has begun": {run: 0, captured: true},
		"a newer run has begun":                {run: 0, newer: true},
		"cut off from slurmctld":               {run: 0, newer: true, away: true},
		"slurmctld has forgotten a requeue":    {run: 1, newer: true, captured: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, q := newLab(t), slurmtest.NewQueue(t)
			q.Set(t, map[uint32]string{7: "RUNNING"})
			if tt.away {
				q.SetAway(t, true)
			}
			begin := func(node string, run int) *job {
				c := l.bootNode(node, filepath.Join(t.TempDir(), "stage"), nil)
				c.Slurm = q.Slurm()
				rec, err := c.records.Load(7)
				noError(t, err)
				if rec == nil {
					rec = recordOf(7)
				}
				j := c.jobFor(7)
				j.run.BeginNext(rec, run, []string{node}, nil)
				runFence{j}.noteBegunRun()
				return j
			}
			j := begin("n1", tt.run)
			if tt.newer {
				begin("n2", tt.run+1)
			}
			want := error(nil)
			if !tt.captured {
				want = errOldRun
			}
			w := &committedWriter{}
			a := &attempt{j: j, log: j.log, writer: w, meta: records.Meta{Capsules: []records.CapsuleMeta{{Programs: []records.ProgramMeta{{Name: records.BatchProgram}}}}}}
			if err := a.commit(t.Context()); !errors.Is(err, want) || w.committed != tt.captured {
				t.Errorf("commit = %v, the writer was committed: %v", err, w.committed)
			}
			if err := a.prepare(t.Context()); errors.Is(err, errOldRun) == tt.captured { // there is no capsule
				t.Errorf("prepare: %v", err)
			}
			noError(t, j.ending.noteNextRun(t.Context(), decisions.BeginsAnew))
			rec, err := j.c.records.Load(7)
			noError(t, err)
			if rec.BeginAnew != tt.captured {
				t.Errorf("the next run begins anew: %v, want %v", rec.BeginAnew, tt.captured)
			}
		})
	}
}
