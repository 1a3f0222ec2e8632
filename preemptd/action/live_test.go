// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build live

package action

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/leader"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// The live test runs on the controller of a minicluster, as root; tests/cluster does that.
// Where the cluster has no proxyd, jobs begin anew, and only Slurm's part is tried.
var (
	socketFlag = flag.String("rest.socket", "unix:/run/slurmrestd/slurmrestd.sock", "slurmrestd with rest_auth/local")
	proxydFlag = flag.Bool("proxyd", false, "the cluster has proxyd: jobs must come out right")
)

// patience is for a machine that does much else.
const patience = 3 * time.Minute

// live is a cluster with preemptd's part.
type live struct {
	*testing.T
	c *slurmrest.Client
	j *journal.Journal
	r *Runner
}

func newLive(t *testing.T) live {
	t.Helper()
	l := live{T: t}
	l.runScript("sacctmgr -i add user slurmrestd account=root adminlevel=operator >/dev/null || true")
	var err error
	if l.c, err = slurmrest.New(slurmrest.Config{Address: *socketFlag, Scontrol: slurmrest.ExecScontrol{}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.c.Close)
	if l.j, err = journal.Open(t.Context(), filepath.Join(t.TempDir(), "preemptd.db"), "live"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.j.Close() })
	if err := l.j.Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	l.r = &Runner{Slurm: l.c, Proxyd: shelf{t.TempDir()}, Journal: l.j}
	if *proxydFlag {
		l.r.Proxyd = &leader.Finder{Node: l.c.Node, Port: rpc.Port, Here: host, Coder: munge.Programs{}}
	}
	return l
}

func (l live) runScript(script string) string {
	l.Helper()
	out, err := exec.Command("bash", "-euc", script).CombinedOutput()
	if err != nil {
		l.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// submitJob submits a job of alice's that counts, and waits until the job has counted to 5.
func (l live) submitJob(options, script string) int64 {
	l.Helper()
	if *proxydFlag {
		options += " --singularity"
	}
	var id int64
	said := l.runScript(fmt.Sprintf("cd /shared/home/alice; setpriv --reuid alice --regid alice --init-groups env HOME=/shared/home/alice sbatch --parsable --open-mode=append --output=%%j.log --comment=mine %s <<'END'\n#!/bin/bash\n%s\nEND", options, script))
	if _, err := fmt.Sscan(said, &id); err != nil {
		l.Fatal(said, err)
	}
	return id
}

const count = `sum=0; for i in $(seq 1 40); do sum=$((sum + i)); echo $i; sleep 0.25; done; echo sum $sum`

func expectedOutput() string {
	var b strings.Builder
	for i := 1; i <= 40; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String() + "sum 820"
}

func (l live) jobLog(id int64) string {
	b, _ := os.ReadFile(fmt.Sprintf("/shared/home/alice/%d.log", id))
	var mine []string
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, "error: *** ") && !strings.HasPrefix(line, "srun: ") {
			mine = append(mine, line)
		}
	}
	return strings.TrimSpace(strings.Join(mine, ""))
}

// waitFor waits until ok returns true.
func (l live) waitFor(what string, ok func() (string, bool)) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	for {
		said, is := ok()
		if is {
			return
		}
		select {
		case <-ctx.Done():
			l.Fatalf("%s: %s", what, said)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l live) waitForLine(id int64, line string) {
	l.Helper()
	l.waitFor("log", func() (string, bool) {
		log := l.jobLog(id)
		return log, strings.Contains("\n"+log+"\n", "\n"+line+"\n")
	})
}

func (l live) readJob(id int64) slurmrest.Job {
	l.Helper()
	j, err := l.c.Job(l.Context(), slurmrest.JobID(id))
	if err != nil {
		l.Fatal(err)
	}
	return j
}

// runAction does an action and returns the job after the action.
func (l live) runAction(id int64, name string, args Args) slurmrest.Job {
	l.Helper()
	raw, err := Encode(name, args)
	if err != nil {
		l.Fatal(err)
	}
	a, err := l.j.Begin(l.Context(), journal.Request{Kind: name, Job: id, Args: raw, Who: "operator", Why: "a test"})
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	began := time.Now()
	a, err = l.r.Run(ctx, a)
	lines, _ := l.j.Lines(l.Context(), a.ID)
	for i, line := range lines {
		if i > 0 {
			l.Logf("%s %6.2fs %s %s %s", name, line.At.Sub(began).Seconds(), line.State, line.Step, line.Text)
		}
	}
	if err != nil || a.State != journal.Done {
		l.Fatalf("%v: %s: %s\n%s", err, a.State, a.Problem, l.runScript(fmt.Sprintf("scontrol show job %d", id)))
	}
	return l.readJob(id)
}

// waitForEnd waits for the job's end and checks the job's output.
func (l live) waitForEnd(id int64, want string) slurmrest.Job {
	l.Helper()
	var j slurmrest.Job
	l.waitFor("end", func() (string, bool) {
		j = l.readJob(id)
		return j.State.String() + " " + j.Reason + " " + j.Comment, j.State.Finished()
	})
	if j.State.Base != slurmrest.Completed {
		l.Errorf("the job is %s: %s", j.State, j.Comment)
	}
	if got := l.jobLog(id); *proxydFlag && got != want {
		l.Errorf("log:\n%s", got)
	}
	return j
}

func TestLive(t *testing.T) {
	for name, test := range map[string]func(live){
		"migrate to":   liveMigrateTo,
		"migrate away": liveMigrateAway,
		"hold, resume": liveHold,
		"fewer nodes":  liveFewer,
		"GPUs":         liveGPUs,
		"QOS":          liveQOS,
		"cancelled":    liveCancelled,
		"waiting":      liveWaiting,
	} {
		t.Run(name, func(t *testing.T) { test(newLive(t)) })
	}
}

func liveMigrateTo(l live) {
	id := l.submitJob("-w n1", count)
	l.waitForLine(id, "5")
	j := l.runAction(id, "migrate", Args{Nodes: []string{"n2"}})
	if j.Nodes != "n2" || j.Restarts != 1 || j.RequiredNodes != "n2" || !strings.HasPrefix(j.Comment, "mine; preemptd: migrated to n2 by operator: a test (action 1)") {
		l.Errorf("nodes %q, restarts %d, required %q, comment %q", j.Nodes, j.Restarts, j.RequiredNodes, j.Comment)
	}
	j = l.runAction(id, "preempt", Args{})
	if j.RequiredNodes != "n1" {
		l.Errorf("its own wish was n1, and it is %q", j.RequiredNodes)
	}
	if j := l.waitForEnd(id, expectedOutput()); j.Nodes != "n1" || j.Restarts != 2 {
		l.Errorf("nodes %q, restarts %d", j.Nodes, j.Restarts)
	}
}

func liveMigrateAway(l live) {
	id := l.submitJob("-N2 --ntasks=2", "srun -l bash -c '"+count+"' | grep sum | sort; "+count)
	l.waitFor("running", func() (string, bool) { s := l.readJob(id).State; return s.String(), s.Base == slurmrest.Running })
	l.waitFor("a step", func() (string, bool) {
		s := l.runScript(fmt.Sprintf("squeue -h -s -j %d -o %%i", id))
		return s, strings.Contains(s, ".0")
	})
	from, err := slurmrest.Hosts(l.readJob(id).Nodes)
	if err != nil {
		l.Fatal(err)
	}
	j := l.runAction(id, "migrate", Args{Avoid: from[:1]})
	if now, err := slurmrest.Hosts(j.Nodes); err != nil || len(now) != 2 || now[0] == from[0] || now[1] == from[0] {
		l.Errorf("from %v to %v: %v", from, now, err)
	}
	l.waitForEnd(id, "0: sum 820\n1: sum 820\n"+expectedOutput())
}

func liveHold(l live) {
	id := l.submitJob("", count)
	l.waitForLine(id, "5")
	j := l.runAction(id, "preempt", Args{Hold: true})
	if !isHeld(&j) || j.State.Base != slurmrest.Pending || j.Restarts != 1 || !strings.Contains(j.Comment, fmt.Sprintf("held until singctl resume %d", id)) {
		l.Errorf("%s, held %v, comment %q", j.State, isHeld(&j), j.Comment)
	}
	l.runAction(id, "resume", Args{})
	l.waitForEnd(id, expectedOutput())
}

// Two capsules on a single node.
func liveFewer(l live) {
	id := l.submitJob("-N2 --ntasks=2", count)
	l.waitForLine(id, "5")
	j := l.runAction(id, "resize", Args{NodeCount: 1})
	if nodes, err := slurmrest.Hosts(j.Nodes); err != nil || len(nodes) != 1 || j.Tasks.Value != 2 {
		l.Errorf("nodes %v, tasks %v: %v", nodes, j.Tasks, err)
	}
	l.waitForEnd(id, expectedOutput())
}

func liveGPUs(l live) {
	if *proxydFlag {
		l.Skip("proxyd does not capture jobs that hold GPUs")
	}
	id := l.submitJob("--gpus-per-node=2", count)
	l.waitForLine(id, "5")
	if j := l.runAction(id, "resize", Args{GPUs: 1}); !strings.Contains(j.TRESAllocated, "gres/gpu=1") {
		l.Errorf("the job has %q", j.TRESAllocated)
	}
	l.waitForEnd(id, "")
}

func liveQOS(l live) {
	id := l.submitJob("--qos=basic", count)
	l.waitForLine(id, "5")
	if j := l.runAction(id, "requeue", Args{QOS: "premium"}); j.QOS != "premium" {
		l.Errorf("QOS %q", j.QOS)
	}
	l.waitForEnd(id, expectedOutput())
}

// A user cancels the job in the middle of an action.
func liveCancelled(l live) {
	id := l.submitJob("", count)
	l.waitForLine(id, "5")
	raw, err := Encode("preempt", Args{Hold: true})
	if err != nil {
		l.Fatal(err)
	}
	a, err := l.j.Begin(l.Context(), journal.Request{Kind: "preempt", Job: id, Args: raw, Who: "operator", Why: "a test"})
	if err != nil {
		l.Fatal(err)
	}
	r := *l.r
	r.Journal = cancels{Journal: l.j, at: "leave", do: func() { l.runScript(fmt.Sprintf("scancel %d", id)) }}
	a, err = r.Run(l.Context(), a)
	if err != nil || a.State != journal.Dropped {
		l.Errorf("%v %s %s", err, a.State, a.Problem)
	}
	if j := l.readJob(id); j.State.Base != slurmrest.Cancelled {
		l.Errorf("the job is %s", j.State)
	}
}

// cancels calls do when a step is reached.
type cancels struct {
	Journal
	at string
	do func()
}

func (c cancels) Save(ctx context.Context, a *journal.Action, text string) error {
	err := c.Journal.Save(ctx, a, text)
	if a.Step == c.at && a.Attempt == 0 {
		c.do()
	}
	return err
}

// A job that waits is held, released and placed; and an action that Slurm refuses is undone.
func liveWaiting(l live) {
	id := l.submitJob("--begin=now+1hour", "echo ran")
	if j := l.runAction(id, "hold", Args{}); !isHeld(&j) {
		l.Errorf("the job that was to be held is %s", j.State)
	}
	raw, err := Encode("place", Args{Nodes: []string{"n99"}})
	if err != nil {
		l.Fatal(err)
	}
	a, err := l.j.Begin(l.Context(), journal.Request{Kind: "place", Job: id, Args: raw, Who: "operator", Why: "a test"})
	if err != nil {
		l.Fatal(err)
	}
	a, err = l.r.Run(l.Context(), a)
	if j := l.readJob(id); err != nil || a.State != journal.Undone || !isHeld(&j) || j.RequiredNodes != "" {
		l.Errorf("%v %s %s: %+v", err, a.State, a.Problem, j)
	}
	if errors.Is(err, context.Canceled) {
		return
	}
	l.Logf("refused: %s", a.Problem)
	l.runAction(id, "release", Args{})
	if j := l.waitForEnd(id, "ran"); j.Restarts != 0 {
		l.Errorf("restarts %d", j.Restarts)
	}
}
