// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
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

// TestForgottenRunRequeued: slurmctld has forgotten a run, has it killed, and ends the job because its next launch is refused.
// The node that led the run has the job requeued.
func TestForgottenRunRequeued(t *testing.T) {
	c, dir, program := startJob(t, 1)
	c.Overlay = &overlay.Overlay{}
	noError(t, c.records.Save(recordOf(7)))
	plain, err := c.jobFor(7).lookUpRun(t.Context(), nodesocket.Join{Job: 7, Step: records.BatchProgram, UID: 1001, Warden: program})
	if plain != "" || err != nil {
		t.Fatalf("the run is not known: %q, %v", plain, err)
	}
	show := func(state, reason, nodes string) {
		t.Helper()
		line := "7|1001|" + state + "|" + reason + "|1|1|1|" + nodes + "|2026-07-01T12:00:05|N/A|7|N/A|N/A|N/A|" + nodes + "|2026-07-01T12:00:00|N/A|\n"
		// At once: to a look at an empty file, Slurm would have forgotten the job.
		noError(t, os.WriteFile(filepath.Join(dir, "jobs.new"), []byte(line), 0o644))
		noError(t, os.Rename(filepath.Join(dir, "jobs.new"), filepath.Join(dir, "jobs")))
	}
	show("PENDING", "BeginTime", "")
	looks := countLooks(t, dir)
	noError(t, c.End(t.Context(), 7))
	waitUntil(t, "the daemon looks at the job again and again", func() bool { return looks() >= 5 })
	show("FAILED", "NonZeroExitCode", "n1")
	waitUntil(t, "the job is requeued", func() bool {
		asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
		return strings.Contains(string(asked), "requeue 7")
	})
}

// countLooks has the squeue in a folder note when a job is looked at, but not when its comment is, and returns a function
// that counts the looks.
func countLooks(t *testing.T, dir string) func() int {
	t.Helper()
	path := filepath.Join(dir, "squeue")
	script, err := os.ReadFile(path)
	noError(t, err)
	noted := strings.Replace(string(script), "#!/bin/sh\n", "#!/bin/sh\ncase \"$*\" in *Comment*) ;; *) echo x >>\"$(dirname \"$0\")/looks\" ;; esac\n", 1)
	noError(t, os.WriteFile(path, []byte(noted), 0o755))
	return func() int {
		all, _ := os.ReadFile(filepath.Join(dir, "looks"))
		return strings.Count(string(all), "x")
	}
}

// waitUntil waits until ok is true, and fails the test with the name of the event that has not come after 20 seconds.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come that %s", what)
		}
	}
}
