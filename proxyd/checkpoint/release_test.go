// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

// TestRequeuePreempted: a preempted job is requeued while the job runs. Slurm refuses to requeue a job that is
// completing, and the job is completing for as long as the attempt waits.
func TestRequeuePreempted(t *testing.T) {
	q := slurmtest.NewQueue(t)
	const scontrol = `#!/bin/sh
cd "$(dirname "$0")"; echo "$*" >>asked
if grep -q RUNNING jobs; then exit 0; fi
echo "Job is in the process of being completing" >&2; exit 1
`
	if err := os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(scontrol), 0o755); err != nil {
		t.Fatal(err)
	}
	c := (&Conductor{Deps: Deps{Slurm: q.Slurm()}}).linkPartsToConductor()
	for _, tt := range []struct {
		state string
		run   int // of the job; Slurm has restarted it once
		asked bool
		want  error
	}{
		{"RUNNING", 1, true, nil},
		{"COMPLETING", 1, false, errJobEnded},
		{"CANCELLED", 1, false, errJobEnded},
		{"COMPLETING", 0, false, nil}, // by Slurm's own requeue
		{"PENDING", 0, false, nil},
	} {
		t.Run(fmt.Sprintf("%s, run %d", tt.state, tt.run), func(t *testing.T) {
			q.Set(t, map[uint32]string{7: tt.state})
			a := &attempt{j: (&job{c: c, id: 7, run: runs.NewRunAt(runs.Snapshot{Number: tt.run})}).linkPartsToJob(), log: slog.New(slog.DiscardHandler)}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := a.requeuePreempted(ctx)
			b, _ := os.ReadFile(filepath.Join(q.Dir, "asked"))
			_ = os.Remove(filepath.Join(q.Dir, "asked"))
			if !errors.Is(err, tt.want) || strings.Contains(string(b), "requeue 7") != tt.asked {
				t.Errorf("error %v, commands sent: %q", err, b)
			}
		})
	}
}

// TestWasReleased: after its leader has died a job runs on if Slurm runs the job, also while the store is unreachable.
func TestWasReleased(t *testing.T) {
	l, q := newLab(t), slurmtest.NewQueue(t)
	l.openStore(l.storeBackend()) // makes it
	whole, broken := l.bootNode("n1", t.TempDir()+"/s", nil), l.bootNode("n2", t.TempDir()+"/s", storetest.NewFault(l.storeBackend(), 1, storetest.Before))
	l.commitCheckpoint(whole, 3)
	if err := broken.Store.Delete(t.Context(), l.checkpointID(3)); !errors.Is(err, storetest.ErrCrashed) {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		c       *Conductor
		state   string
		run     int // of the job; Slurm has restarted it once
		number  uint32
		release bool
		want    bool
		fails   bool
	}{
		{"it was not to leave", broken, "COMPLETING", 0, 3, false, false, false},
		{"it runs", whole, "RUNNING", 1, 3, true, false, false},
		{"it runs, and the store is away", broken, "RUNNING", 1, 3, true, false, false},
		{"it was requeued", whole, "COMPLETING", 0, 3, true, true, false},
		{"it was requeued, and runs elsewhere", whole, "RUNNING", 0, 3, true, true, false},
		{"it was requeued, and the store is away", broken, "COMPLETING", 0, 3, true, false, true},
		{"it was requeued, and nothing came of the checkpoint", whole, "COMPLETING", 0, 4, true, false, false},
		{"it has ended", whole, "", 0, 3, true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states := map[uint32]string{}
			if tt.state != "" {
				states[7] = tt.state
			}
			q.Set(t, states)
			tt.c.Slurm = q.Slurm()
			j := (&job{c: tt.c, id: 7, run: runs.NewRunAt(runs.Snapshot{Number: tt.run, Record: &records.Record{Job: 7, Submitted: "then", Nodes: []string{"n1"}, Addresses: []netip.Addr{{}}}})}).linkPartsToJob()
			got, err := j.participant.wasReleased(t.Context(), l.checkpointID(tt.number), tt.release)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("wasReleased = %v, %v", got, err)
			}
		})
	}
}
