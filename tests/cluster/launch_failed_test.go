//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// heldMemory is a step of tasks with so much memory that a restore takes a while. Each task counts in a file.
const heldMemory = `srun python3 -c '
import os, time
held, n = os.urandom(200 << 20), 0
name = "count." + os.environ["SLURM_PROCID"]
while not os.path.exists("go." + os.environ["SLURM_JOB_ID"]):
    n += 1
    open(name + ".new", "w").write(str(n))
    os.rename(name + ".new", name)
    time.sleep(0.05)
'; echo rc $?`

// TestLaunchFails: Slurm fails to start the step of a restored job, or ends the step, while a node restores the step's program.
// That is not the job's fault: the job's next run is restored.
func TestLaunchFails(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-launch", "--nodes", "2")
	for _, n := range []string{"n1", "n2"} {
		c.runOn(t, n, "", "sh", "-c", "echo 'log: {level: debug}' >> /etc/singularity-slurm/proxyd.yaml").mustSucceed(t)
		runMinicluster(t, "restart", "--name", c.name, n, "proxyd").mustSucceed(t)
	}
	job := c.submitJob(t, "--singularity -N2 --ntasks=2 -w n1,n2", heldMemory)
	c.waitForInit(t, job)
	c.waitForCounts(t)
	goOn := c.stopInRestore(t, job)
	leaderGoesOn := c.stopProxyd(t, "n1") // so that n2 is the first to notice
	step := c.runAsRoot(t, "squeue --steps --noheader --format=%i --jobs="+job+" | grep -v batch")
	c.runAsRoot(t, "scancel --signal=KILL "+step) // as srun does when the launch has failed on a node
	waitFor(t, time.Minute, func() (bool, string) {
		r := c.runOn(t, "n2", "", "pgrep", "-x", "sing-warden")
		return r.code == 1, "wardens: " + r.out + r.err
	})
	goOn()
	c.waitForLog(t, "n2", `msg="restore failed" job=`+job)
	leaderGoesOn()
	waitFor(t, 3*time.Minute, func() (bool, string) {
		said := c.showColumn(t, job, "State") + " " + c.showColumn(t, job, "Reason") + " " + c.showColumn(t, job, "Comment")
		if strings.Contains(said, "held: ") || strings.Contains(said, "HOLD") {
			t.Fatalf("the job is held: %s", said)
		}
		return strings.HasPrefix(said, "PENDING"), "the job is not run again: " + said
	})
	c.runAsRoot(t, "sleep 2; scontrol update StartTime=now JobId="+job)
	c.waitForCounts(t)
	if n := c.showColumn(t, job, "RestartCnt"); n != "2" {
		t.Errorf("%s restarts, want one for the checkpoint and one for the restore that failed", n)
	}
	if said := c.runOn(t, "ctl", "alice", "singctl", "show", job).mustSucceed(t); !strings.Contains(said, "to be run again") {
		t.Errorf("singctl show does not say that the restore was tried again:\n%s", said)
	}
	c.endScript(t, job)
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	if log := c.jobLog(job); !strings.HasSuffix(log, "rc 0") {
		t.Errorf("the job's log is not as expected:\n%s", log)
	}
}

// stopInRestore requeues a job, and stops n2's proxyd while the daemon restores the program of n2. The result continues
// the daemon.
func (c protected) stopInRestore(t *testing.T, job string) (goOn func()) {
	t.Helper()
	daemon := c.daemonPID(t, "n2")
	c.runAsRoot(t, "scontrol requeue "+job)
	c.restartJob(t, job, "")
	waitFor(t, 3*time.Minute, func() (bool, string) {
		return strings.Contains(c.proxydLog("n2"), `msg="step begins" job=`+job+` step=restore program=`), "no restore on n2:\n" + c.proxydLog("n2")
	})
	if err := unix.Kill(daemon, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn = func() { _ = unix.Kill(daemon, unix.SIGCONT) }
	t.Cleanup(goOn)
	if log := c.proxydLog("n2"); strings.Contains(log, `msg="program restored" job=`+job) {
		t.Fatalf("n2's proxyd was stopped too late:\n%s", log)
	}
	return goOn
}

// daemonPID returns the PID of a node's proxyd on this machine, which can be sent a signal at once, without a process of the node.
func (c protected) daemonPID(t *testing.T, node string) int {
	t.Helper()
	shared, err := os.Stat(filepath.Join("/var/lib/minicluster", c.name, "shared"))
	if err != nil {
		t.Fatal(err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range processes {
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		host, _ := os.ReadFile(filepath.Join(dir, "root/etc/hostname"))
		if string(name) != "proxyd\n" || strings.TrimSpace(string(host)) != node {
			continue
		}
		commands, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		of, err := os.Stat(filepath.Join(dir, "root/shared"))
		if err != nil || !os.SameFile(shared, of) || !strings.HasPrefix(string(commands), "proxyd\x00daemon") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatalf("no proxyd on %s", node)
	return 0
}

// waitForCounts waits until both tasks of heldMemory have counted on.
func (c protected) waitForCounts(t *testing.T) {
	t.Helper()
	read := func(rank string) int {
		b, _ := os.ReadFile(c.homePath("count." + rank))
		n, _ := strconv.Atoi(string(b))
		return n
	}
	was := [2]int{read("0"), read("1")}
	waitFor(t, 3*time.Minute, func() (bool, string) {
		return read("0") > was[0] && read("1") > was[1], "a task does not count:\n" + c.logTails()
	})
}
