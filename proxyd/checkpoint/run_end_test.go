// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
)

// TestLeadsBeforeFirstTask: Slurm may end a run while its first task still waits for a place. No
// node is known to lead the job then.
func TestLeadsBeforeFirstTask(t *testing.T) {
	c := newLab(t).boot("n1", filepath.Join(t.TempDir(), "stage"), nil)
	if c.jobFor(7).isLeader() {
		t.Error("a node leads a job of which nothing is known")
	}
}

// TestAbandonedBeforeStart: the epilog of a run may be handled before the request of the run's task.
// The job is then settled when the daemon next looks for abandoned jobs.
func TestAbandonedBeforeStart(t *testing.T) {
	q := newQueue(t)
	c := tidyOn(t, "n1", t.TempDir(), q)
	q.set(t, map[uint32]string{7: "RUNNING", 8: stateTimeout})
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

// TestStatesToRequeue: which ends of a run are none of the job's own doing.
func TestStatesToRequeue(t *testing.T) {
	for _, c := range []struct {
		name     string
		released bool
		had      progress
		next     decisions.NextRun
		limit    string
		want     string
	}{
		{"ran", false, ran, decisions.BeginsAnew, "requeue", ""},
		{"captured", true, ran, decisions.Resumes, "requeue", "COMPLETED FAILED NODE_FAIL"},
		{"its handler failed", false, ran, decisions.IsRequeued, "requeue", "FAILED"},
		{"not restored yet", false, unrestored, decisions.Resumes, "requeue", "FAILED NODE_FAIL TIMEOUT"},
		{"not restored yet, and the limit ends jobs", false, unrestored, decisions.Resumes, "end", "FAILED NODE_FAIL"},
		{"not started yet", false, unstarted, decisions.Resumes, "hold", "TIMEOUT"},
		{"not started yet, and the limit ends jobs", false, unstarted, decisions.Resumes, "end", ""},
	} {
		if got := strings.Join(statesToRequeue(c.released, c.had, c.next, c.limit), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
