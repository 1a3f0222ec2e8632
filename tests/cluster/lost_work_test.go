//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"regexp"
	"testing"
	"time"
)

// TestLostWork: what a job loses with its node is in its comment and in singctl show, from the newest
// checkpoint, or from its beginning.
func TestLostWork(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-lost", "--nodes", "2")
	const slow = "for i in $(seq 60); do echo $i; sleep 0.5; done"
	said := func(t *testing.T, job, comment, event string) {
		t.Helper()
		eventually(t, 60*time.Second, func() (bool, string) {
			now := c.show(t, job, "Comment")
			return regexp.MustCompile(comment).MatchString(now), "comment of the job: " + now
		})
		if shown := c.exec(t, "ctl", "alice", "singctl", "show", job).must(t); !regexp.MustCompile(event).MatchString(shown) {
			t.Errorf("singctl show has nothing of %q:\n%s", event, shown)
		}
	}
	for name, tt := range map[string]struct {
		checkpoint     bool
		comment, event string
	}{
		"with a checkpoint": {true, `restored from checkpoint 1 on n2; at most \d+s of work are lost`, `restored.*from checkpoint 1; at most \d+s of work are lost`},
		"without":           {false, `begins anew, for there is no checkpoint; at most \d+s of work are lost`, `started.*run 2, anew; at most \d+s of work are lost`},
	} {
		t.Run(name, func(t *testing.T) {
			job := c.submit(t, "--singularity -w n1", slow)
			c.reaches(t, job, "4")
			if tt.checkpoint {
				c.exec(t, "ctl", "alice", "singctl", "checkpoint", job).must(t)
			}
			c.reaches(t, job, "12")
			mc(t, "fail", "n1", "--name", c.name).must(t)
			c.ctl(t, "scontrol update NodeName=n1 State=DOWN Reason=test")
			c.ctl(t, "scontrol update ReqNodeList= JobId="+job)
			c.again(t, job, "n1")
			said(t, job, tt.comment, tt.event)
			c.exec(t, "ctl", "alice", "scancel", job).must(t)
			mc(t, "heal", "n1", "--name", c.name).must(t)
			c.sh(t, "scontrol update NodeName=n1 State=RESUME || true")
		})
	}
}
