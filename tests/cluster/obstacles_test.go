//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
	"time"
)

// TestObstacleTold: soon after its start a job is told which of its parts cannot be captured, before any checkpoint is
// asked for. What both ranks have is told once in log and comment, and singctl show lists one process and how many more
// have it.
func TestObstacleTold(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-obstacle", "--nodes", "2")
	job := c.submitJob(t, "-N2 --singularity-outside=refuse",
		`srun bash -c 'exec 3<>/dev/tcp/ctl/6817; echo ready; exec sleep 1000'`)
	c.waitForLine(t, job, "ready")
	const what = `sleep (PID `
	const cure = "is connected to 10.77.0.1:6817, which is outside of the job: close it, or submit the job with --singularity-outside=reset"
	waitFor(t, 60*time.Second, func() (bool, string) {
		log := c.jobLog(job)
		return strings.Contains(log, "singularity: no checkpoint can be made: "+what) && strings.Contains(log, " and 1 more) "+cure), log
	})
	if log := c.jobLog(job); strings.Count(log, cure) != 1 {
		t.Errorf("what both ranks have is told more than once:\n%s", log)
	}
	waitFor(t, 20*time.Second, func() (bool, string) {
		said := c.showColumn(t, job, "Comment")
		return strings.HasPrefix(said, "singularity: cannot be captured as it is: "+what), said
	})
	c.checkCommand(t, "alice", "singctl show "+job, 0, `stands in the way of a checkpoint:`, `on n[12]: process [0-9]+ \(sleep\) and 1 more: `+cure)
}

// TestToldInLog: a job with failed checkpoints, that begins anew, has a line about each in its
// own log, once, and Slurm's accounting has the reason after the job has gone.
func TestToldInLog(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-told", "--nodes", "2")
	const obstacle = "is connected to 10.77.0.1:6817, which is outside of the job: close it, or submit the job with --singularity-outside=reset"
	job := c.submitJob(t, "-N2 --singularity-interval=10s --singularity-outside=refuse",
		`[ -e began.$SLURM_JOB_ID ] && { echo again; srun true; `+untilAnewTold+`; exit; }
		touch began.$SLURM_JOB_ID; exec 3<>/dev/tcp/ctl/6817; echo ready; srun --overlap sleep 1000`)
	c.waitForLine(t, job, "ready")
	count := func(text string) int { return strings.Count(c.jobLog(job), text) }
	waitFor(t, 60*time.Second, func() (bool, string) { // three attempts, a line
		said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
		return strings.Count(said, "no checkpoint ") > 2, said
	})
	if n := count("\nsingularity: no checkpoint can be made: slurm_script (PID "); n != 1 || !strings.Contains(c.jobLog(job), obstacle) {
		t.Errorf("%d lines:\n%s", n, c.jobLog(job))
	}
	c.runAsRoot(t, "scontrol requeue "+job)
	c.restartJob(t, job, "")
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	if n := count("\nsingularity: the job ends without a checkpoint (requeue): "); n != 1 {
		t.Errorf("%d lines about the end without a checkpoint:\n%s", n, c.jobLog(job))
	}
	if n := count("singularity: this run begins anew, for there is no checkpoint"); n != 1 {
		t.Errorf("%d lines about a run that begins anew:\n%s", n, c.jobLog(job))
	}
	waitFor(t, 20*time.Second, func() (bool, string) {
		said := c.runAsRoot(t, "sacct --noheader --parsable2 --duplicates --allocations --jobs="+job+" --format=AdminComment")
		return strings.Contains(said, obstacle) && strings.Contains(said, "singularity: begins anew, for there is no checkpoint"), said
	})
}

// TestObstacleLater: an obstacle that a job gets later, and the end of that obstacle, are added to the job's comment,
// and are in singctl show, before any checkpoint is asked for.
func TestObstacleLater(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-later", "--nodes", "2")
	for _, n := range []string{"n1", "n2"} {
		c.runOn(t, n, "", "sh", "-c", "echo 'obstacle_interval: 10s' >> /etc/singularity-slurm/proxyd.yaml").mustSucceed(t)
		runMinicluster(t, "restart", "--name", c.name, n, "proxyd").mustSucceed(t)
	}
	job := c.submitJob(t, "--singularity-outside=refuse --comment=mine", `cd; echo ready
		until [ -e open ]; do sleep 0.2; done; exec 3<>/dev/tcp/ctl/6817
		while [ -e open ]; do sleep 0.2; done; exec 3>&-; sleep 1000`)
	c.waitForLine(t, job, "ready")
	// A site's own comment, which only administrators write, stays.
	c.runAsRoot(t, "scontrol update JobId="+job+" AdminComment='ticket 12'")
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 0)
	const made = "mine; singularity: checkpoint 1 at "
	waitFor(t, 30*time.Second, func() (bool, string) {
		said := c.showColumn(t, job, "Comment")
		return strings.HasPrefix(said, made), said
	})
	const note, what = "; cannot be captured as it is: slurm_script (PID ", "is connected to 10.77.0.1:6817, which is outside of the job"
	c.runOn(t, "ctl", "alice", "touch", "open").mustSucceed(t)
	waitFor(t, 90*time.Second, func() (bool, string) {
		said := c.showColumn(t, job, "Comment")
		return strings.HasPrefix(said, made) && strings.Contains(said, note) && strings.Contains(said, what), said
	})
	c.checkCommand(t, "alice", "singctl show "+job, 0, `stands in the way of a checkpoint:`, what)
	c.runOn(t, "ctl", "alice", "rm", "open").mustSucceed(t)
	waitFor(t, 60*time.Second, func() (bool, string) {
		said := c.showColumn(t, job, "Comment")
		return strings.HasPrefix(said, made) && !strings.Contains(said, "cannot be captured"), said
	})
	if said := c.runOn(t, "ctl", "alice", "singctl", "show", job).mustSucceed(t); strings.Contains(said, "stands in the way") {
		t.Errorf("singctl show has an obstacle that is gone:\n%s", said)
	}
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 0)
	if said := c.showColumn(t, job, "admin_comment"); said != "ticket 12" {
		t.Errorf("the administrator's comment is %q, want the site's", said)
	}

	// A log that Slurm writes for the job in the node's /tmp is named soon after the start, before the job is frozen.
	job = c.submitJob(t, "--singularity --output=/tmp/%j.log", "sleep 1000")
	file := "has /tmp/" + job + ".log open, a file of the node that the job does not see: name another folder in --output"
	waitFor(t, 90*time.Second, func() (bool, string) {
		said := c.showColumn(t, job, "Comment")
		return strings.Contains(said, "cannot be captured as it is: slurm_script (PID ") && strings.Contains(said, file), said
	})
	c.checkCommand(t, "alice", "singctl show "+job, 0, `stands in the way of a checkpoint:`, "has /tmp/"+job+".log open")
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 5, "prepare: ", file)

	// A removed file with another name, which CRIU finds only in the frozen job, is named before. Without the other
	// name the file is no obstacle.
	job = c.submitJob(t, "--singularity", `cd; echo kept >linked; exec 3<linked; ln -f linked other; rm linked; echo ready
		while [ -e other ]; do sleep 0.2; done; echo alone; sleep 1000`)
	c.waitForLine(t, job, "ready")
	linked := "linked open, which was removed but has another name: have it close the file"
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 5, "prepare: ", linked)
	waitFor(t, 90*time.Second, func() (bool, string) {
		said := c.showColumn(t, job, "Comment")
		return strings.Contains(said, linked), said
	})
	c.runOn(t, "ctl", "alice", "rm", "other").mustSucceed(t)
	c.waitForLine(t, job, "alone")
	c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 0)
}
