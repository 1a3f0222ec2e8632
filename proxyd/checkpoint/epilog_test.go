// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
)

// TestLeadsBeforeFirstTask: Slurm may end a run while its first task still waits to be admitted. No
// node is known to lead the job then.
func TestLeadsBeforeFirstTask(t *testing.T) {
	c := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	if c.jobFor(7).isLeader() {
		t.Error("a node leads a job of which nothing is known")
	}
}

// TestAbandonedBeforeStart: the epilog of a run may be handled before the request of the run's task.
// The job is then settled when the daemon next looks for abandoned jobs.
func TestAbandonedBeforeStart(t *testing.T) {
	q := slurmtest.NewQueue(t)
	c := tidyOn(t, "n1", t.TempDir(), q)
	q.Set(t, map[uint32]string{7: "RUNNING", 8: decisions.StateTimeout})
	for _, tt := range []struct {
		name  string
		id    uint32
		asked bool
		want  bool
	}{
		{"runs", 7, true, false},
		{"is over", 8, true, true},
		{"has asked for nothing", 8, false, false},
	} {
		j := c.jobFor(tt.id)
		j.awaitsProtection = tt.asked
		if got := j.ending.isAbandoned(t.Context()); got != tt.want {
			t.Errorf("a job that %s: abandoned: %v, want %v", tt.name, got, tt.want)
		}
	}
}
