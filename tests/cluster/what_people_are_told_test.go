//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// checkCommand runs a command as a user and compares the exit code and the output with
// patterns.
func (c protected) checkCommand(t *testing.T, user, command string, code int, patterns ...string) {
	t.Helper()
	r := c.runOn(t, "ctl", user, "bash", "-c", command)
	if r.code != code {
		t.Errorf("%s: exit %d, want %d\n%s%s", command, r.code, code, r.out, r.err)
	}
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(r.out + r.err) {
			t.Errorf("%s: no %q in\n%s%s", command, p, r.out, r.err)
		}
	}
}

// waitUntilQueued waits until a job that was requeued waits for its next run.
func (c protected) waitUntilQueued(t *testing.T, job string) {
	t.Helper()
	waitFor(t, 90*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "State")
		return s == "PENDING", "job " + job + ": " + s
	})
}

// TestWhatPeopleAreTold: messages and lists of jobs and checkpoints that users see.
func TestWhatPeopleAreTold(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-asked", "--nodes", "2")
	folder := filepath.Join("/var/lib/minicluster", c.name, "shared/singularity")
	for name, test := range map[string]func(*testing.T){
		"of a job's life": func(t *testing.T) {
			job := c.submitJob(t, "--singularity -J two -N2 --ntasks=2", `srun bash -c 'for i in $(seq 1 40); do echo $SLURM_PROCID $i; sleep 0.3; done'`)
			c.waitForLine(t, job, "1 3")
			c.checkCommand(t, "alice", "singctl show "+job, 0, `^job `+job+` \(two\) of alice: RUNNING, led by n1$`,
				`^0 +n1 +n1 +\S+ +batch +\d+ +running +.*\d\d:\d\d:\d\d +/bin/bash .*slurm_script`, `^1 +n2 +n2 +\S+ +s0-1\.1 +\d+ +running .*bash -c for i`,
				`started +n1,n2`)
			c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 0)
			c.runAsRoot(t, "scontrol requeue "+job)
			c.waitUntilQueued(t, job)
			c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 5, `^singctl: job `+job+` is not running: PENDING$`)
			c.restartJob(t, job, "")
			c.waitForLine(t, job, "1 30")
			c.checkCommand(t, "alice", "singctl show "+job, 0, `started +n1,n2`, `checkpoint +n1,n2 +1 \(asked\), in`, `checkpoint +n1,n2 +2 \(requeue\), in`, `left +n1,n2 +requeue`,
				`started +n1,n2 +run 2, to resume from checkpoint 2`, `restored +n1,n2 +from checkpoint 2`)
			c.waitForEnd(t, job)
			waitFor(t, 30*time.Second, func() (bool, string) {
				left, _ := filepath.Glob(filepath.Join(folder, "jobs", job+".*"))
				return len(left) == 0, fmt.Sprint(left)
			})
			c.checkCommand(t, "alice", "singctl show "+job, 0, `of alice: COMPLETED`, `^no checkpoint of it is stored$`, `ended +n1,n2`)
			c.checkCommand(t, "alice", "singctl checkpoint "+job, 5, `^singctl: job `+job+` has ended: COMPLETED$`)
		},
		"of a task of an array": func(t *testing.T) {
			job := c.submitJob(t, "--singularity --array=3", `echo ready; sleep 1000`)
			waitFor(t, 60*time.Second, func() (bool, string) {
				r := c.runOn(t, "ctl", "alice", "singctl", "checkpoint", "-q", job+"_3")
				return r.code == 0, r.out + r.err
			})
			c.checkCommand(t, "alice", "singctl show "+job+"_3", 0, `^job `+job+`_3 \(sbatch\) of alice: RUNNING`)
			c.checkCommand(t, "alice", "singctl checkpoints "+job+"_3", 0, ` alice +`+job+`_3$`)
			c.checkCommand(t, "alice", "singctl verify -q "+job+"_3/1", 0, `^1 checkpoint, .* 0 problems`)
			c.checkCommand(t, "alice", "singctl delete "+job+"_3/1", 0, `^deleted checkpoint t-asked/`)
			c.runAsRoot(t, "scancel "+job)
		},
		"of what stands in the way": func(t *testing.T) {
			job := c.submitJob(t, "--singularity --singularity-outside=refuse --comment=mine", `exec 3<>/dev/tcp/ctl/6817; echo ready; sleep 1000`)
			c.waitForLine(t, job, "ready")
			c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 5, `is connected to \S+:6817, which is outside of the job`)
			waitFor(t, 10*time.Second, func() (bool, string) {
				said := c.showColumn(t, job, "Comment")
				return regexp.MustCompile(`^mine; singularity: no checkpoint at [0-9:]+: checkpoint 1: prepare: .*:6817, which is outside`).MatchString(said), said
			})
			c.checkCommand(t, "alice", "singctl show "+job, 0, `which is outside of the job: close it, .* \(since 20`, `no checkpoint +n[12] +checkpoint 1 \([a-z ]+\): prepare`)
			c.runAsRoot(t, "scancel "+job)
		},
		"of damage": func(t *testing.T) {
			job := c.submitJob(t, "--singularity", `echo ready; sleep 1000`)
			c.waitForLine(t, job, "ready")
			c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 0)
			c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 0)
			manifest := filepath.Join(folder, "store/manifests", c.name, job, "1")
			if err := os.WriteFile(manifest, []byte("nonsense"), 0o600); err != nil {
				t.Fatal(err)
			}
			c.checkCommand(t, "alice", "singctl verify -q", 8, `^PROBLEM manifest t-asked/`+job+`/1: not a manifest$`)
			c.checkCommand(t, "alice", "singctl verify -q "+job+"/2", 0, `^1 checkpoint, .* 0 problems`)
			c.checkCommand(t, "alice", "singctl delete "+job+"/1", 4, `is damaged, which leaves it to operators`)
			c.checkCommand(t, "root", "singctl gc -q", 8, `^DAMAGED t-asked/`+job+`/1: manifest`)
			c.checkCommand(t, "root", "singctl delete "+job+"/1", 0, `^deleted checkpoint t-asked/`+job+`/1$`)
			c.checkCommand(t, "root", "singctl gc -q", 0)
			c.checkCommand(t, "alice", "singctl verify -q "+job+"/2", 0, `0 problems`)
			c.runAsRoot(t, "scancel "+job)
		},
		"of another build": func(t *testing.T) {
			for node, program := range map[string]string{"n1": "/bin/sleep", "n2": "/bin/tail"} {
				c.runOn(t, node, "", "cp", program, "/usr/local/bin/doze").mustSucceed(t)
			}
			job := c.submitJob(t, "--singularity -w n1", `echo ready; /usr/local/bin/doze 1000`)
			c.waitForLine(t, job, "ready")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
			c.restartJob(t, job, "n1")
			waitFor(t, 60*time.Second, func() (bool, string) {
				said := c.showColumn(t, job, "Comment")
				return strings.Contains(said, "held: ") && strings.Contains(said, "node n2: incompatible node: /usr/local/bin/doze is another build ("), said
			})
			c.checkCommand(t, "alice", "singctl show "+job, 0, `held +- .*doze is another build`)
			c.runAsRoot(t, "scancel "+job)
		},
		"of nothing": func(t *testing.T) {
			c.checkCommand(t, "alice", "singctl doctor --node n9", 2, `^singctl: node "n9": Slurm knows none of that name$`)
			c.checkCommand(t, "root", "singctl show 4711", 3, `job 4711: neither Slurm nor the store knows it`)
			r := c.runOn(t, "n1", "", "proxyd", "foo")
			if r.code != 2 || !strings.Contains(r.err, `unknown command "foo"`) {
				t.Errorf("proxyd foo: exit %d\n%s", r.code, r.err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}
