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
	"sync"
	"testing"
	"time"
)

// tries is how often a moment may be missed: the event that a test waits for always comes, but the test may be too slow
// for the moment after the event.
const tries = 8

// TestDaemonsStopped: events at moments between two steps of the daemons. A daemon is stopped, so that the moment lasts
// until the test has seen it.
func TestDaemonsStopped(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-moments", "--nodes", "2")
	for _, n := range []string{"n1", "n2"} {
		c.runOn(t, n, "", "sh", "-c", "echo 'log: {level: debug}' >> /etc/singularity-slurm/proxyd.yaml").mustSucceed(t)
		runMinicluster(t, "restart", "--name", c.name, n, "proxyd").mustSucceed(t)
	}
	t.Run("the script ends before it is frozen", c.endsBeforeFreeze)
	t.Run("the script ends when it is requeued", c.endsRequeued)
	t.Run("the script ends while proxyd is away", c.endsWithoutProxyd)
	t.Run("the leader dies before all are open", c.diesBeforeOpen)
}

// stopProxyd stops a node's proxyd by SIGSTOP, and returns a function that continues the daemon. The end of the test
// calls the function if the test has not.
func (c protected) stopProxyd(t *testing.T, node string) (goOn func()) {
	t.Helper()
	goOn = sync.OnceFunc(func() { c.runOn(t, node, "", "pkill", "-CONT", "-x", "proxyd").mustSucceed(t) })
	t.Cleanup(goOn)
	c.runOn(t, node, "", "pkill", "-STOP", "-x", "proxyd").mustSucceed(t)
	return goOn
}

// homePath is a path of this machine that leads into alice's home.
func (c protected) homePath(path ...string) string {
	return filepath.Join(append([]string{"/var/lib/minicluster", c.name, "shared/home/alice"}, path...)...)
}

// copyPrograms puts programs of testdata into alice's home.
func (c protected) copyPrograms(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		program, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.homePath(name), program, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// endScript lets the script of untilTold end.
func (c protected) endScript(t *testing.T, job string) {
	t.Helper()
	if err := os.WriteFile(c.homePath("go."+job), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// untilTold is a script that ends by finish.
const untilTold = `echo begin; while [ ! -e go.$SLURM_JOB_ID ]; do sleep 0.05; done; echo end`

// waitForCall waits until another node's proxyd has called a node's proxyd, which is stopped.
func (c protected) waitForCall(t *testing.T, node string) {
	t.Helper()
	waitFor(t, 60*time.Second, func() (bool, string) {
		said := c.runOn(t, node, "", "ss", "-tnH", "state", "established", "( sport = :6830 )").mustSucceed(t)
		return unread.MatchString(said), "nobody asks proxyd of " + node + ":\n" + said
	})
}

// unread begins a line about a socket with bytes that its owner has not read.
var unread = regexp.MustCompile(`(?m)^[1-9][0-9]*\s`)

// waitForLog waits for a line in the log of a node's proxyd.
func (c protected) waitForLog(t *testing.T, node, pattern string) {
	t.Helper()
	line := regexp.MustCompile("(?m)^.* " + pattern + "( .*)?$")
	waitFor(t, 60*time.Second, func() (bool, string) {
		return line.MatchString(c.proxydLog(node)), "no line of " + pattern
	})
}

// endsBeforeFreeze: the leader has seen the script and waits until another node tells which programs it has; the script
// ends; the other node answers. A checkpoint without the script would have the job begin anew, beside the rest of its
// steps.
func (c protected) endsBeforeFreeze(t *testing.T) {
	for range tries {
		job := c.submitJob(t, "--singularity -N2 --ntasks=2 -w n1,n2", "srun sleep 1000 &>/dev/null &\n"+untilTold)
		waitFor(t, 60*time.Second, func() (bool, string) {
			said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
			return strings.Contains(said, " s0-1.0 ") && strings.Contains(said, " s0-1.1 "), said
		})
		c.waitForInit(t, job)
		answers := c.stopProxyd(t, "n2")
		answer := make(chan result, 1)
		go func() { answer <- c.runOn(t, "ctl", "alice", "singctl", "checkpoint", job) }()
		c.waitForLog(t, "n1", `msg="phase begins" job=`+job+` .*phase=prepare`)
		c.waitForCall(t, "n2")
		c.endScript(t, job)
		c.waitForLog(t, "n1", `msg="program ended" job=`+job+` .*program=batch`)
		answers()
		r := <-answer
		if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
			t.Fatalf("the job ended as %s, want COMPLETED", s)
		}
		if got := c.jobLog(job); got != "begin\nend" {
			t.Fatalf("the job's log is not as expected:\n%s", got)
		}
		if strings.Contains(r.err, ": prepare: ") { // phase prepare waits for a node only for a time
			t.Logf("too late: %s", r.err)
			continue
		}
		if r.code == 0 || !strings.Contains(r.err, "the batch script has ended") {
			t.Errorf("singctl checkpoint: exit %d, %s%s", r.code, r.out, r.err)
		}
		committed := regexp.MustCompile(`(?m)^.*msg=phase .*job=` + job + ` .*phase=commit.*$`)
		if l := committed.FindString(c.proxydLog("n1")); l != "" {
			t.Errorf("a checkpoint without the script exists: %s", l)
		}
		return
	}
	t.Fatal("the moment was always missed")
}

// endsRequeued: Slurm requeues the job and signals its script, which ends by itself before proxyd hears of the requeue
// or the signal. Slurm runs the job again from its beginning, as without proxyd.
func (c protected) endsRequeued(t *testing.T) {
	job := c.submitJob(t, "--singularity -w n1", untilTold)
	c.waitForLine(t, job, "begin")
	c.waitForInit(t, job)
	hears := c.stopProxyd(t, "n1")
	c.runAsRoot(t, "scontrol requeue "+job)
	waitFor(t, 60*time.Second, func() (bool, string) { // the capsule's init says that Slurm's signal is there
		said := c.runOn(t, "n1", "", "sh", "-c", `ss -xnpH | awk '/"proxyd"/ && $2 == "ESTAB" { print $3, $0 }'`).mustSucceed(t)
		return unread.MatchString(said), "no word from init: " + said
	})
	c.endScript(t, job)
	c.waitForNoWarden(t)
	waitFor(t, 60*time.Second, func() (bool, string) { // the epilog has come, too
		said := strings.Fields(c.runOn(t, "n1", "", "ss", "-xlnH", "src", "/run/singularity-slurm/spank.sock").out)
		return len(said) > 2 && said[2] != "0", strings.Join(said, " ")
	})
	hears()
	c.waitForLog(t, "n1", `msg="the batch script had ended" job=`+job)
	c.restartJob(t, job, "")
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	if n := c.showColumn(t, job, "RestartCnt"); n != "1" {
		t.Errorf("%s restarts", n)
	}
	if got := c.jobLog(job); got != "begin\nend\nbegin\nend" {
		t.Errorf("the script was not run anew:\n%s", got)
	}
}

// endsWithoutProxyd: proxyd is killed, and has not heard of the end of the script; the next daemon logs that end.
func (c protected) endsWithoutProxyd(t *testing.T) {
	job := c.submitJob(t, "--singularity -w n1", untilTold+"; exit 3")
	c.waitForLine(t, job, "begin")
	c.waitForInit(t, job)
	c.stopProxyd(t, "n1")
	c.endScript(t, job)
	c.waitForNoWarden(t)
	c.runOn(t, "n1", "", "pkill", "-KILL", "-x", "proxyd").mustSucceed(t) // the daemon is started again by itself
	c.waitForLog(t, "n1", `msg="program ended" job=`+job+` capsule=0 program=batch status="exit code 3"`)
	if s := c.waitForEnd(t, job); !strings.Contains(s, "FAILED") {
		t.Errorf("the job ended as %s, want FAILED", s)
	}
}

// waitForNoWarden waits until all tasks on n1 have ended, for Slurm as well.
func (c protected) waitForNoWarden(t *testing.T) {
	t.Helper()
	waitFor(t, 60*time.Second, func() (bool, string) {
		r := c.runOn(t, "n1", "", "pgrep", "-x", "sing-warden")
		return r.code == 1, "wardens: " + r.out + r.err
	})
}

// diesBeforeOpen: the leader of a restore has all programs back and is about to have every node let packets pass. The
// leader dies while another node's capsules are still shut. The leader's own capsules must be shut, too: otherwise its
// successor would take the restore for finished, and the ranks would wait for each other forever.
func (c protected) diesBeforeOpen(t *testing.T) {
	program, err := os.ReadFile("../faults/testdata/count.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.homePath("count.py"), program, 0o644); err != nil {
		t.Fatal(err)
	}
	c.runScript(t, "mkdir ~/ranks")
	job := c.submitJob(t, "--singularity -N2 --ntasks=2 -w n1,n2", `srun python3 count.py "$(hostname)" ranks 1; echo rc $?`)
	c.waitForCounting(t)
	held := c.holdAtUnlock(t, job)
	c.runAsRoot(t, "scontrol requeue "+job)
	c.restartJob(t, job, "")
	held()
	if !c.isCapsuleShut(t, "n2", job) {
		t.Fatal("the network of the capsule on n2 is unlocked before the leader has unlocked it")
	}
	if !c.isCapsuleShut(t, "n1", job) {
		t.Error("the leader's own capsule is open before that of n2 is")
	}
	c.runOn(t, "n1", "", "pkill", "-KILL", "-x", "proxyd").mustSucceed(t) // the daemon is started again by itself
	c.runOn(t, "n1", "", "rm", "/run/hold").mustSucceed(t)
	waitFor(t, 3*time.Minute, func() (bool, string) {
		return !c.isCapsuleShut(t, "n2", job), "n2 is still shut"
	})
	c.waitForCounting(t)
	if err := os.WriteFile(c.homePath("ranks/stop"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	if log := c.jobLog(job); !strings.HasSuffix(log, "\nrc 0") {
		t.Errorf("the job's log is not as expected:\n%s", log)
	}
}

// holdAtUnlock has n1 ask no other node for anything from the moment on when n1 begins to let
// packets pass, until /run/hold is gone: each question needs a credential, and munge waits.
// The result waits for that moment.
func (c protected) holdAtUnlock(t *testing.T, job string) (held func()) {
	t.Helper()
	script := `#!/bin/sh
if [ -e /run/hold ] && grep -q 'msg="step begins" job=` + job + ` step=unlock' /var/log/slurm/proxyd.log; then
	touch /run/held
	while [ -e /run/hold ]; do sleep 0.1; done
fi
exec /usr/bin/munge.real "$@"
`
	c.runOn(t, "n1", "", "sh", "-euc", `touch /run/hold; printf %s "$1" > /usr/bin/munge.new; chmod 755 /usr/bin/munge.new
		cp -a /usr/bin/munge /usr/bin/munge.real; mv /usr/bin/munge.new /usr/bin/munge`, "sh", script).mustSucceed(t)
	return func() {
		t.Helper()
		waitFor(t, 3*time.Minute, func() (bool, string) {
			return c.runOn(t, "n1", "", "test", "-e", "/run/held").code == 0, "no restore:\n" + c.proxydLog("n1")
		})
	}
}

// isCapsuleShut tells whether a node's capsule of a job lets no packet pass.
func (c protected) isCapsuleShut(t *testing.T, node, job string) bool {
	t.Helper()
	return strings.Contains(c.readNote(t, node, job), `"shut":true`)
}

// waitForInit waits until the leader has read the report of the capsule's init about the script's start.
func (c protected) waitForInit(t *testing.T, job string) {
	t.Helper()
	waitFor(t, 60*time.Second, func() (bool, string) {
		said := c.readNote(t, "n1", job)
		return strings.Contains(said, `"now":`), "proxyd has not heard of the script: " + said
	})
}

// readNote returns the note that a node's proxyd keeps of its capsule of a job.
func (c protected) readNote(t *testing.T, node, job string) string {
	t.Helper()
	return c.runOn(t, node, "", "sh", "-c", fmt.Sprintf("cat /var/lib/singularity-slurm/notes/%s.*.json || true", job)).mustSucceed(t)
}

// waitForCounting waits until the ranks of count.py have counted on.
func (c protected) waitForCounting(t *testing.T) {
	t.Helper()
	read := func() (n int) {
		b, _ := os.ReadFile(c.homePath("ranks/latest1"))
		fmt.Sscan(string(b), &n)
		return n
	}
	from := read()
	waitFor(t, 3*time.Minute, func() (bool, string) {
		n := read()
		return n > from+3, fmt.Sprintf("the ranks are at %d, and were at %d", n, from)
	})
}
