//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSummary: a job is captured and resumes twice, and loses its node once. The runs of its summary are the runs of
// sacct, and its work adds up: each moment is counted once, and no more work counts as saved than the job did.
func TestSummary(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-summary", "--nodes", "2")
	job := c.submitJob(t, "--singularity", "for i in $(seq 400); do echo $i; sleep 0.5; done")
	for _, line := range []string{"6", "12"} {
		c.waitForLine(t, job, line)
		node := c.showColumn(t, job, "NodeList")
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, node)
	}
	c.waitForLine(t, job, "24")
	node := c.showColumn(t, job, "NodeList")
	runMinicluster(t, "fail", node, "--name", c.name).mustSucceed(t)
	c.runAsRoot(t, "scontrol update NodeName="+node+" State=DOWN Reason=test")
	c.restartJob(t, job, node)
	waitFor(t, 60*time.Second, func() (bool, string) {
		said := c.showColumn(t, job, "Comment")
		return strings.Contains(said, "of work are lost"), "comment of the job: " + said
	})
	resumed := time.Now()
	waitFor(t, 60*time.Second, func() (bool, string) { // the restored job has passed line 24 again
		return strings.Count("\n"+c.jobLog(job), "\n26\n") > 0, c.jobLog(job)
	})
	c.runOn(t, "ctl", "alice", "scancel", job).mustSucceed(t)
	var runs []string
	waitFor(t, 60*time.Second, func() (bool, string) { // slurmdbd hears of the end a little later
		said := c.runAsRoot(t, "sacct --noheader --parsable2 --duplicates --allocations --jobs="+job+" --format=State,NodeList,ElapsedRaw,End")
		runs = strings.Split(said, "\n")
		return len(runs) == 4 && !strings.Contains(said, "Unknown"), said
	})
	var s struct {
		Runs []struct {
			State, Nodes string
			Ran          float64
		}
		Ran   float64
		Moves int
		Work  struct{ Worked, Saved, Lost, Anew float64 }
	}
	printed := c.runOn(t, "ctl", "alice", "singctl", "summary", "--json", job).mustSucceed(t)
	if err := json.Unmarshal([]byte(printed), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Runs) != len(runs) {
		t.Fatalf("%d runs, and sacct has %d: %s", len(s.Runs), len(runs), printed)
	}
	var ran, before float64
	for i, r := range s.Runs {
		if said := fmt.Sprintf("%s|%s|%.0f|", r.State, r.Nodes, r.Ran); !strings.HasPrefix(runs[i], said) {
			t.Errorf("run %d is %s, and sacct has %s", i+1, said, runs[i])
		}
		if ran += r.Ran; i < len(s.Runs)-1 {
			before += r.Ran
		}
	}
	const clocks = 4 // seconds by which Slurm rounds four runs
	w := s.Work
	if s.Ran != ran || s.Moves != 3 || w.Worked > ran+clocks || w.Saved > before+clocks || w.Saved < 5 || w.Lost < 3 || w.Anew != 0 ||
		w.Saved+w.Lost > w.Worked || w.Worked-w.Saved-w.Lost > time.Since(resumed).Seconds()+clocks {
		t.Errorf("ran %.0f s, %.0f of them before the last run: %s", ran, before, printed)
	}
}
