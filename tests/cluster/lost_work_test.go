//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLostWork: the work that a job loses with its node is in its comment, in singctl show and history, counted from the newest
// checkpoint, or from the job's beginning.
func TestLostWork(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-lost", "--nodes", "2", "--controller")
	const slow = "for i in $(seq 10000); do echo $i; sleep 0.5; done"
	said := func(t *testing.T, job, comment, event, history string) {
		t.Helper()
		waitFor(t, 3*time.Minute, func() (bool, string) {
			now := c.showColumn(t, job, "Comment")
			return regexp.MustCompile(comment).MatchString(now), "comment of the job: " + now
		})
		if shown := c.runOn(t, "ctl", "alice", "singctl", "show", job).mustSucceed(t); !regexp.MustCompile(event).MatchString(shown) {
			t.Errorf("singctl show has nothing of %q:\n%s", event, shown)
		}
		waitFor(t, 30*time.Second, func() (bool, string) {
			told := c.runOn(t, "ctl", "alice", "singctl", "history", job)
			return regexp.MustCompile(history).MatchString(told.out), "history of the job: " + told.out + told.err
		})
	}
	for name, tt := range map[string]struct {
		checkpoint              bool
		comment, event, history string
	}{
		"with a checkpoint": {true, `restored from checkpoint 1 on n2; at most \d+s of work are lost`, `restored.*from checkpoint 1; at most \d+s of work are lost`,
			`work lost .* at most \d+s of work are lost: restored from checkpoint 1 on n2`},
		"without": {false, `begins anew, for there is no checkpoint; at most \d+s of work are lost`, `started.*run 2, anew; at most \d+s of work are lost`,
			`work lost .* at most \d+s of work are lost: begins anew, for there is no checkpoint`},
	} {
		t.Run(name, func(t *testing.T) {
			job := c.submitJob(t, "--singularity -w n1", slow)
			c.waitForLine(t, job, "4")
			if tt.checkpoint {
				c.runOn(t, "ctl", "alice", "singctl", "checkpoint", job).mustSucceed(t)
			}
			// The job has run on during the checkpoint, for an unknown time: the four seconds of work count from here
			// on.
			c.waitForLine(t, job, strconv.Itoa(8+strings.Count(c.jobLog(job), "\n")))
			runMinicluster(t, "fail", "n1", "--name", c.name).mustSucceed(t)
			c.checkShownWithoutNode(t, job, tt.checkpoint)
			c.runAsRoot(t, "scontrol update NodeName=n1 State=DOWN Reason=test")
			c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
			c.restartJob(t, job, "n1")
			said(t, job, tt.comment, tt.event, tt.history)
			c.runOn(t, "ctl", "alice", "scancel", job).mustSucceed(t)
			runMinicluster(t, "heal", "n1", "--name", c.name).mustSucceed(t)
			c.runScript(t, "scontrol update NodeName=n1 State=RESUME || true")
		})
	}
}

// checkShownWithoutNode: while the node of a job is dead, singctl show names the node, and shows the facts that others
// know.
func (c protected) checkShownWithoutNode(t *testing.T, job string, checkpoint bool) {
	t.Helper()
	shown := c.runOn(t, "ctl", "alice", "singctl", "show", job)
	said := shown.mustSucceed(t)
	if want := "node n1 does not answer: this is what the other nodes know"; !strings.Contains(shown.err, want) {
		t.Errorf("singctl show says on standard error %q, want %q", shown.err, want)
	}
	for _, want := range []string{`(?m)^job ` + job + ` .*of alice: RUNNING`, `(?m)^0 +n1 `, `(?m)^\S+ \S+ +started +n1`} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("singctl show has nothing of %q:\n%s", want, said)
		}
	}
	if has := strings.Contains(said, c.name+"/"+job+"/1 "); has != checkpoint {
		t.Errorf("singctl show has checkpoint 1: %v, want %v:\n%s", has, checkpoint, said)
	}
}
