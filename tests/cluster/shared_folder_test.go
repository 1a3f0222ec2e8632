//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
	"time"
)

// TestSharedFolder: a shared folder or a store that is missing, or is another cluster's, never has a job begin anew over
// its own output. The folder is taken away on a single node by an empty file system that is mounted over the folder: a
// node without its mount looks the same.
func TestSharedFolder(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-shared", "--nodes", "2")
	const folder = "/shared/singularity"
	cover := func(t *testing.T, node string) (uncover func()) {
		t.Helper()
		c.runOn(t, node, "", "mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder).mustSucceed(t)
		covered := true
		uncover = func() {
			if covered {
				covered = false
				c.runOn(t, node, "", "umount", "-l", folder).mustSucceed(t)
			}
		}
		t.Cleanup(uncover)
		return uncover
	}
	captured := func(t *testing.T) (job string) {
		t.Helper()
		job = c.submitJob(t, "--singularity --exclude=n2", count)
		c.waitForLine(t, job, "5")
		c.runAsRoot(t, "scontrol requeuehold "+job)
		waitFor(t, 60*time.Second, func() (bool, string) {
			said := c.showColumn(t, job, "Comment")
			return strings.Contains(said, "singularity: checkpoint "), "comment of the job: " + said
		})
		return job
	}

	t.Run("unmounted while proxyd runs", func(t *testing.T) {
		job := captured(t)
		uncover := cover(t, "n2")
		c.restartJob(t, job, "n1")
		waitFor(t, 120*time.Second, func() (bool, string) {
			said := c.showColumn(t, job, "Comment")
			return strings.Contains(said, "waits for the shared folder"), "comment of the job: " + said
		})
		if log := c.jobLog(job); strings.Count("\n"+log, "\n1\n") != 1 {
			t.Errorf("the job has begun anew:\n%s", log)
		}
		uncover()
		if end := c.waitForEnd(t, job); !strings.Contains(end, "COMPLETED") {
			t.Errorf("the folder is back, and the job is %s", end)
		}
		if got := c.jobLog(job); got != undisturbedOutput("n1") {
			t.Errorf("the job's log differs from an undisturbed one:\n%s", got)
		}
	})

	t.Run("a job that has not begun", func(t *testing.T) {
		uncover := cover(t, "n2")
		job := c.submitJob(t, "--singularity --nodelist=n2", count)
		waitFor(t, 60*time.Second, func() (bool, string) {
			said := c.showColumn(t, job, "Comment")
			return strings.Contains(said, "waits for the shared folder"), "comment of the job: " + said
		})
		uncover()
		c.waitForLine(t, job, "1")
		waitFor(t, 20*time.Second, func() (bool, string) {
			said := c.showColumn(t, job, "Comment")
			return !strings.Contains(said, "waits for the shared folder"), "comment of the job, which runs: " + said
		})
		c.waitForEnd(t, job)
	})

	t.Run("unmounted when proxyd starts", func(t *testing.T) {
		uncover := cover(t, "n2")
		c.runOn(t, "n2", "", "sh", "-c", "kill $(pidof -s proxyd)").mustSucceed(t)
		c.waitForLog(t, "n2", `it has no mark of a cluster\. .*`)
		if made := c.runOn(t, "n2", "", "ls", "-A", folder).mustSucceed(t); strings.TrimSpace(made) != "" {
			t.Errorf("proxyd made in the folder that is not the cluster's: %s", made)
		}
		// An administrator marks the empty folder by mistake.
		c.runOn(t, "n2", "", "proxyd", "init").mustSucceed(t)
		c.waitForLog(t, "n2", `it is another cluster's folder: .*shared-id.*`)
		ready := strings.Count(c.proxydLog("n2"), "msg=ready")
		uncover()
		waitFor(t, 60*time.Second, func() (bool, string) {
			return strings.Count(c.proxydLog("n2"), "msg=ready") > ready, "proxyd of n2 does not start again"
		})
	})

	t.Run("of a user when proxyd starts", func(t *testing.T) {
		giveBack := func() { c.runOn(t, "n2", "", "chown", "root", folder).mustSucceed(t) }
		t.Cleanup(giveBack)
		ready := strings.Count(c.proxydLog("n2"), "msg=ready")
		c.runOn(t, "n2", "", "chown", "alice", folder).mustSucceed(t)
		c.runOn(t, "n2", "", "sh", "-c", "kill $(pidof -s proxyd)").mustSucceed(t)
		c.waitForLog(t, "n2", `root alone must be able to write it: .* `+folder+` belongs to user \d+: chown root `+folder+`, .*`)
		if got := strings.Count(c.proxydLog("n2"), "msg=ready"); got != ready {
			t.Errorf("proxyd of n2 was ready %d times before the folder was a user's, and %d times now", ready, got)
		}
		giveBack()
		waitFor(t, 60*time.Second, func() (bool, string) {
			return strings.Count(c.proxydLog("n2"), "msg=ready") > ready, "proxyd of n2 does not start again"
		})
	})

	t.Run("a staging folder of a user when proxyd starts", func(t *testing.T) {
		const staging, configuration = "/var/lib/staging", "/etc/singularity-slurm/proxyd.yaml"
		giveBack := func() { c.runOn(t, "n2", "", "mv", configuration+".was", configuration).mustSucceed(t) }
		ready := strings.Count(c.proxydLog("n2"), "msg=ready")
		c.runOn(t, "n2", "", "bash", "-euc", "cp "+configuration+"{,.was}; mkdir -m 700 "+staging+"; chown alice "+staging+
			"; printf 'staging:\n  folder: "+staging+"\n' >>"+configuration).mustSucceed(t)
		t.Cleanup(func() { c.runOn(t, "n2", "", "rmdir", staging) })
		c.runOn(t, "n2", "", "sh", "-c", "kill $(pidof -s proxyd)").mustSucceed(t)
		c.waitForLog(t, "n2", `not root's alone: `+staging+` belongs to user \d+: chown root `+staging+`.*`)
		if got := strings.Count(c.proxydLog("n2"), "msg=ready"); got != ready {
			t.Errorf("proxyd of n2 was ready %d times before its staging folder was a user's, and %d times now", ready, got)
		}
		giveBack()
		waitFor(t, 60*time.Second, func() (bool, string) {
			return strings.Count(c.proxydLog("n2"), "msg=ready") > ready, "proxyd of n2 does not start again"
		})
	})

	// The shared folder stays, and its store goes away: in its place is an empty folder, on all nodes.
	replaceStore := func(t *testing.T) (back func()) {
		t.Helper()
		c.runOn(t, "n1", "", "sh", "-ec", "cd "+folder+"; mv store store.away; mkdir -m 700 store").mustSucceed(t)
		away := true
		back = func() {
			if away {
				away = false
				c.runOn(t, "n1", "", "sh", "-ec", "cd "+folder+"; rmdir store; mv store.away store").mustSucceed(t)
			}
		}
		t.Cleanup(back)
		return back
	}
	waitsAndResumes := func(t *testing.T, job string, back func()) {
		t.Helper()
		waitFor(t, 120*time.Second, func() (bool, string) {
			said := c.showColumn(t, job, "Comment")
			return strings.Contains(said, "waits for the shared folder: store "+folder+"/store: it is not there"), "comment of the job: " + said
		})
		if log := c.jobLog(job); strings.Count("\n"+log, "\n1\n") != 1 {
			t.Errorf("the job has begun anew:\n%s", log)
		}
		if made := c.runOn(t, "n2", "", "ls", "-A", folder+"/store").mustSucceed(t); strings.TrimSpace(made) != "" {
			t.Errorf("proxyd made in the store that is not the cluster's: %s", made)
		}
		back()
		if end := c.waitForEnd(t, job); !strings.Contains(end, "COMPLETED") {
			t.Errorf("the store is back, and the job is %s", end)
		}
		if got := c.jobLog(job); got != undisturbedOutput("n1") {
			t.Errorf("the job's log differs from an undisturbed one:\n%s", got)
		}
	}

	t.Run("the store is made anew while proxyd runs", func(t *testing.T) {
		job := captured(t)
		back := replaceStore(t)
		c.waitForLog(t, "n2", `shared folder or the store is away: .*`)
		c.restartJob(t, job, "n1")
		waitsAndResumes(t, job, back)
		c.waitForLog(t, "n2", `shared folder and the store are back.*`)
	})

	t.Run("the store is another one when proxyd starts", func(t *testing.T) {
		job := captured(t)
		ready := strings.Count(c.proxydLog("n2"), "msg=ready")
		back := replaceStore(t)
		c.runOn(t, "n2", "", "sh", "-c", "kill $(pidof -s proxyd)").mustSucceed(t)
		c.waitForLog(t, "n2", `waits for the shared folder, and tasks that start wait .*`)
		c.restartJob(t, job, "n1")
		waitsAndResumes(t, job, back)
		if strings.Count(c.proxydLog("n2"), "msg=ready") != ready+1 {
			t.Error("proxyd of n2 did not go on by itself")
		}
	})

	t.Run("replaced by an empty one", func(t *testing.T) {
		job := captured(t)
		c.runOn(t, "n1", "", "sh", "-ec", "cd "+folder+"; mkdir away; mv jobs/* away/; rm -rf store/manifests/*/"+job).mustSucceed(t)
		c.restartJob(t, job, "")
		waitFor(t, 120*time.Second, func() (bool, string) {
			said := c.showColumn(t, job, "Comment")
			return strings.Contains(said, "held: checkpoint 1 was made"), "comment of the job: " + said
		})
		if log := c.jobLog(job); strings.Contains(log, "sum") || strings.Count("\n"+log+"\n", "\n1\n") != 1 {
			t.Errorf("the job has begun anew:\n%s", log)
		}
		c.restartJob(t, job, "")
		if end := c.waitForEnd(t, job); !strings.Contains(end, "COMPLETED") {
			t.Errorf("released, the job is %s", end)
		}
		if got, told := c.logWithoutStartLine(job); !told || !strings.HasSuffix(got, undisturbedOutput("n1")) && !strings.HasSuffix(got, undisturbedOutput("n2")) {
			t.Errorf("released, the job did not begin anew, or proxyd's line is missing (it is there: %v):\n%s", told, got)
		}
	})
}
