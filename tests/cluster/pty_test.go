//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// person is a person on a terminal of ctl that is attached to a session: keys are given to it, and what it shows is
// looked at.
type person struct {
	t     *testing.T
	typed *os.File
	shown string // path
	seen  int    // bytes of the shown text that earlier waits have looked at
}

// attachPerson attaches a person to a session, until the session or the test ends.
func (c protected) attachPerson(t *testing.T, job string) *person {
	t.Helper()
	p := &person{t: t, shown: c.homePath("shown-" + job)}
	typed, err := os.OpenFile(c.homePath("typed-"+job), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	p.typed = typed
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.runOn(t, "ctl", "alice", "bash", "-c", fmt.Sprintf(
			`cd; timeout 300 tail -n +1 -s 0.1 -f typed-%[1]s | timeout 300 script -qfec \
				"tty > tty-%[1]s; stty rows 33 cols 77; singctl session attach %[1]s" /dev/null > shown-%[1]s 2>&1`, job))
	}()
	t.Cleanup(func() {
		typed.Close()
		c.runOn(t, "ctl", "alice", "singctl", "session", "stop", job)
		<-ended
	})
	return p
}

// typeText types a text, and waits until the terminal has shown another that was not shown before.
func (p *person) typeText(text, want string) {
	p.t.Helper()
	if _, err := p.typed.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
	waitFor(p.t, time.Minute, func() (bool, string) {
		b, _ := os.ReadFile(p.shown)
		at := strings.Index(string(b[min(p.seen, len(b)):]), want)
		if at >= 0 {
			p.seen += at + len(want)
		}
		return at >= 0, fmt.Sprintf("no %q in:\n%s", want, b)
	})
}

// TestPty: what srun --pty starts in a protected job has a terminal, and goes on with it when the job is moved.
func TestPty(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-pty", "--nodes", "3")
	t.Run("shell", func(t *testing.T) {
		t.Parallel()
		job := c.runScript(t, `cd; SHELL=/bin/bash singctl session start --sbatch=-N2 --sbatch=-n2 --sbatch=-wn1,n2`)
		p := c.attachPerson(t, job)
		p.typeText("echo rea''dy\n", "ready")
		p.typeText("srun --pty -N1 -n1 -w n2 bash --norc\n", "bash-")
		p.typeText("cd /tmp; keep=41; sleep 1000 & pid=$!; echo is=$((keep)) $(stty size) on $(hostname)\n", "is=41 33 77 on n2")
		p.typeText("echo asle''ep; sleep 2000\n", "asleep")
		p.typeText("\x03", "bash-")
		p.typeText("echo interrupted=$?\n", "interrupted=130")
		c.runScript(t, "cd; stty -F $(cat tty-"+job+") rows 40 cols 90")
		p.typeText("until [ \"$(stty size)\" = '40 90' ]; do sleep 0.1; done; echo window=$LINES\n", "window=40")
		c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
		p.typeText("echo in pla''ce $keep\n", "in place 41")
		c.runAsRoot(t, "scontrol requeue "+job)
		c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
		c.restartJob(t, job, "n1")
		p.typeText("", "in place 41") // shown again: what is typed before the terminal is attached again may be lost
		p.typeText("kill -0 $pid; echo again=$((keep + 1)) $? $PWD $(stty size) on $(hostname)\n", "again=42 0 /tmp 40 90 on n2")
		p.typeText("echo asle''ep; sleep 2000\n", "asleep")
		p.typeText("\x03", "bash-")
		p.typeText("echo interrupted=$?\n", "interrupted=130")
		p.typeText("exit 7\n", "task 0: Exited with exit code 7\r\n")
		p.typeText("", "$ ")
		p.typeText("echo code=$?; stty -a | grep -q -- -icanon || echo mo''de=as before\n", "code=7")
		p.typeText("", "mode=as before")
		p.typeText("srun --pty -n1 bash -c 'seq 30000; kill -9 $$'; echo killed=$?\n", "30000\r\n")
		p.typeText("", "killed=137")
		p.typeText("srun --pty -N2 -n2 bash -c 'echo rank=$SLURM_PROCID; tty'; echo en''ded\n", "rank=0")
		p.typeText("", "ended")
		p.typeText("srun --singularity=off --pty -N1 -n1 bash -c 'tty && exit 4'; echo unpro''tected $?\n", "/dev/pts/")
		p.typeText("", "unprotected 4")
		b, _ := os.ReadFile(p.shown)
		if shown := string(b); strings.Contains(shown, "rank=1") || strings.Contains(shown, "not a tty") {
			t.Errorf("the output of the second task is shown, or the first has no terminal:\n%s", shown)
		}
	})
	t.Run("same node", func(t *testing.T) { // the terminals of session and step have numbers of one capsule
		t.Parallel()
		job := c.runScript(t, "cd; SHELL=/bin/bash singctl session start --sbatch=-n1")
		p := c.attachPerson(t, job)
		p.typeText("echo rea''dy\n", "ready")
		p.typeText("srun --pty bash --norc\n", "bash-")
		p.typeText("keep=41; echo is=$((keep)) $(tty)\n", "is=41 /dev/pts/1")
		node := c.showColumn(t, job, "NodeList")
		p.typeText("scontrol requeue $SLURM_JOB_ID\n", "is being moved")
		c.restartJob(t, job, node)
		p.typeText("", "is=41 /dev/pts/1")
		p.typeText("echo again=$((keep + 1)) $(tty)\n", "again=42 /dev/pts/1")
	})
	t.Run("container", func(t *testing.T) {
		t.Parallel()
		for _, host := range []string{"ctl", "n1", "n2", "n3"} {
			c.runOn(t, host, "", "bash", "-euc", ociConf).mustSucceed(t)
		}
		c.runScript(t, bundleScript)
		job := c.runScript(t, "cd; SHELL=/bin/bash singctl session start --sbatch=-n1")
		p := c.attachPerson(t, job)
		p.typeText("echo rea''dy\n", "ready")
		p.typeText("srun --pty --container $HOME/bundle bash --norc\n", "bash-")
		p.typeText("keep=41; echo is=$((keep)) $(tty) $(cat /etc/os-release)\n", "is=41 /dev/pts/1 ID=image")
		node := c.showColumn(t, job, "NodeList")
		c.runAsRoot(t, "scontrol requeue "+job)
		c.restartJob(t, job, node)
		p.typeText("", "is=41 /dev/pts/1")
		p.typeText("echo again=$((keep + 1)) $(tty) $(cat /etc/os-release)\n", "again=42 /dev/pts/1 ID=image")
	})
	t.Run("no terminal", func(t *testing.T) {
		t.Parallel()
		job := c.submitJob(t, "--singularity", "srun --pty -n1 bash -c 'tty; exit 3' < /dev/null; echo code=$?")
		c.waitForLine(t, job, "code=3")
		c.waitForEnd(t, job)
		if log := c.jobLog(job); !strings.Contains(log, "Not using a pseudo-terminal, disregarding --pty option") || !strings.Contains(log, "not a tty") {
			t.Errorf("the job's log:\n%s", log)
		}
	})
}
