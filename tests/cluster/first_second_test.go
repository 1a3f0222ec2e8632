//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFirstSecond: Slurm ends a run before the run's first program has started, and Slurm's SIGTERM finds no process.
// proxyd is stopped while the task asks for a place, so that the moment is as long as the test needs.
func TestFirstSecond(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-first-second", "--nodes", "1")
	proxyd := func(sig string) { c.runOn(t, "n1", "", "pkill", "-"+sig, "-x", "proxyd").mustSucceed(t) }
	proxyd("STOP")
	job := c.submitJob(t, "--singularity", count)
	waitFor(t, 60*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "State")
		return s == "RUNNING", s
	})
	waitFor(t, 60*time.Second, func() (bool, string) { // not in the second of its start
		r := c.runOn(t, "ctl", "", "scontrol", "update", "JobId="+job, "EndTime=now")
		return r.code == 0, r.out + r.err
	})
	waitFor(t, 90*time.Second, func() (bool, string) {
		log, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "logs/ctl/slurmctld.log"))
		return strings.Contains(string(log), "Time limit exhausted for JobId="+job), ""
	})
	proxyd("CONT")
	waitFor(t, 90*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "State")
		return s != "RUNNING" && s != "COMPLETING", s
	})
	// The task may have ended before proxyd made the job's record, or after, or after it got its place. Without a record the
	// next run cannot know that the script had not begun.
	record, err := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/singularity/jobs", job+".json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	unbegun := strings.Contains(string(record), `"script_unbegun":true`)
	c.restartJob(t, job, "")
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	if n := c.showColumn(t, job, "RestartCnt"); n != "1" {
		t.Errorf("%s restarts", n)
	}
	if got, told := c.logWithoutStartLine(job); told == unbegun || !strings.HasSuffix(got, undisturbedOutput("n1")) {
		t.Errorf("the record says that no script had begun: %v; the log has the line that the run begins anew: %v; without that line:\n%s", unbegun, told, got)
	}
}

// logWithoutStartLine returns the job's log without proxyd's line that the run begins anew, which comes between any lines of the
// program, and whether it has that line.
func (c protected) logWithoutStartLine(job string) (log string, told bool) {
	before, rest, told := strings.Cut(c.jobLog(job), "singularity: this run begins anew, for there is no checkpoint")
	_, after, _ := strings.Cut(rest, "\n")
	return before + after, told
}
