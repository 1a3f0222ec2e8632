//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cluster is a minicluster with singularity-slurm.
type cluster struct{ name string }

// alice is the user of the jobs.
const alice = 1001

// raiseCluster brings a cluster up for the whole test, with the agent in /shared/bench.
func raiseCluster(t *testing.T, options ...string) *cluster {
	t.Helper()
	c := &cluster{*name}
	down := func() { exec.Command(*mcProgram, "down", "--name", c.name).Run() }
	down()
	t.Cleanup(down)
	c.runMinicluster(t, "up", options...)
	if err := os.Mkdir(c.sharedPath(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(c.sharedPath(), alice, alice); err != nil {
		t.Fatal(err)
	}
	runCommand(t, exec.Command("cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", c.sharedPath("agent"), "testdata/agent.c"))
	return c
}

// runCommand runs a command and returns the command's standard output.
func runCommand(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(out.String() + errs.String())
		t.Fatalf("command %q: %v: %s", cmd.Args, err, said[max(0, len(said)-1000):])
	}
	return strings.TrimSpace(out.String())
}

func (c *cluster) runMinicluster(t *testing.T, verb string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	return runCommand(t, exec.CommandContext(ctx, *mcProgram, append([]string{verb, "--name", c.name}, args...)...))
}

// runScript runs a shell script on a host.
func (c *cluster) runScript(t *testing.T, host, user, script string) string {
	t.Helper()
	return c.runMinicluster(t, "exec", host, "--user", user, "--", "bash", "-euc", script)
}

// sharedPath is a path below /shared/bench, as this machine sees it.
func (c *cluster) sharedPath(path ...string) string {
	return filepath.Join(append([]string{"/var/lib/minicluster", c.name, "shared/bench"}, path...)...)
}

// daemonLog returns the log of a daemon of a host.
func (c *cluster) daemonLog(t *testing.T, host, daemon string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "logs", host, daemon+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// submitJob submits a script as alice, in /shared/bench, and returns the job's id and how long
// sbatch took, in seconds.
func (c *cluster) submitJob(t *testing.T, options, script string) (job string, took float64) {
	t.Helper()
	said := c.runScript(t, "ctl", "alice", fmt.Sprintf("cd /shared/bench; echo $EPOCHREALTIME; sbatch --parsable --output=%%j.log %s <<'SCRIPT'\n#!/bin/bash\n%s\nSCRIPT\necho $EPOCHREALTIME", options, script))
	var began, ended float64
	if _, err := fmt.Sscan(said, &began, &job, &ended); err != nil {
		t.Fatalf("sbatch: %q: %v", said, err)
	}
	return job, ended - began
}

// waitForEnd waits until Slurm is done with a job, its epilog included.
func (c *cluster) waitForEnd(t *testing.T, job string) {
	t.Helper()
	c.runScript(t, "ctl", "root", "for ((i = 0; i < 600; i++)); do "+
		"case $(squeue --noheader --states=all --jobs="+job+" --Format=State:40 2>/dev/null) in *COMPLETED*|*CANCELLED*|'') exit 0;; *FAILED*) exit 1;; esac; sleep 0.05; done; exit 1")
}

// agent is a job that obeys orders, a line at a time.
type agent struct {
	c         *cluster
	job, name string
	in, out   *os.File
	lines     *bufio.Reader
}

// script of an agent. Its program reads orders from $in and answers to $out.
const plainAgent = "exec ../agent <$in >$out"

// startAgent starts an agent, which ends with the test.
func (c *cluster) startAgent(t *testing.T, name, options, script string) *agent {
	t.Helper()
	a := &agent{c: c, name: name}
	dir := c.sharedPath(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, alice, alice); err != nil {
		t.Fatal(err)
	}
	for end, f := range map[string]**os.File{"in": &a.in, "out": &a.out} {
		path := filepath.Join(dir, end)
		os.Remove(path)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, alice, alice); err != nil {
			t.Fatal(err)
		}
		// Both ends, so that the open does not wait for the job.
		var err error
		if *f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
			t.Fatal(err)
		}
	}
	a.lines = bufio.NewReader(a.out)
	a.job, _ = c.submitJob(t, options, fmt.Sprintf("cd /shared/bench/%s; in=in out=out\n%s", name, script))
	t.Cleanup(a.dismiss)
	if said := a.hearLine(t, time.Minute); said != "ready" {
		t.Fatalf("agent %s: %q", name, said)
	}
	return a
}

func (a *agent) hearLine(t *testing.T, within time.Duration) string {
	t.Helper()
	if err := a.out.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	line, err := a.lines.ReadString('\n')
	if err != nil {
		log, _ := os.ReadFile(a.c.sharedPath(a.job + ".log"))
		t.Fatalf("agent %s, job %s: %v; its log: %s", a.name, a.job, err, log)
	}
	return strings.TrimSpace(line)
}

// giveOrder gives an order and returns the answer.
func (a *agent) giveOrder(t *testing.T, order string) string {
	t.Helper()
	if _, err := a.in.WriteString(order + "\n"); err != nil {
		t.Fatal(err)
	}
	return a.hearLine(t, 2*time.Minute)
}

// askNumbers gives an order and returns the numbers of the answer.
func (a *agent) askNumbers(t *testing.T, order string, n int) []float64 {
	t.Helper()
	words := strings.Fields(a.giveOrder(t, order))
	if len(words) != n {
		t.Fatalf("agent %s: %s: %q: want %d numbers", a.name, order, words, n)
	}
	all := make([]float64, n)
	for i, w := range words {
		if _, err := fmt.Sscan(w, &all[i]); err != nil {
			t.Fatalf("agent %s: %s: %q: %v", a.name, order, words, err)
		}
	}
	return all
}

func (a *agent) dismiss() {
	if a.in == nil {
		return
	}
	exec.Command(*mcProgram, "exec", "--name", a.c.name, "ctl", "--", "scancel", a.job).Run()
	a.in.Close()
	a.out.Close()
	a.in = nil
}

// startBoth starts two agents on the same nodes; the second agent is protected.
func (c *cluster) startBoth(t *testing.T, name, options, script string) (plain, ours *agent) {
	t.Helper()
	plain = c.startAgent(t, name+"-plain", options, script)
	ours = c.startAgent(t, name+"-ours", options+" --singularity", script)
	return plain, ours
}

// inTurns measures both in turns; each of the two is the first equally often.
func inTurns(n int, plain, ours func() float64) (s turns) {
	for i := range n {
		var a, b float64
		if i%2 == 0 {
			a = plain()
			b = ours()
		} else {
			b = ours()
			a = plain()
		}
		s.add(a, b)
	}
	return s
}
