//go:build harm

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// counter is a job that counts into a file until the test stops the job, and then prints the last number and the sum;
// or a job that trains on a GPU and writes its losses to the file.
type counter struct {
	w      *world
	id     int64
	folder string // below /shared
	losses []byte // of an undisturbed training, at least as many lines as the job may write; nil: the job counts
}

const (
	inBash = `#!/bin/bash
exec 3>>numbers
sum=0 i=0
until [ -e stop ]; do
	i=$((i + 1)) sum=$((sum + i))
	echo $i >&3
	sleep 0.1
done
echo end $i $sum >&3
`
	inPython = `#!/usr/bin/python3
import os, time
i = total = 0
with open("numbers", "a") as out:
    while not os.path.exists("stop"):
        i += 1
        total += i
        print(i, file=out, flush=True)
        time.sleep(0.1)
    print("end", i, total, file=out)
`
)

// inTraining trains two ranks. Its pipe is short and its reader slow: it never computes far
// ahead of the written lines, and leaves the processors to other programs.
const inTraining = `#!/bin/bash
echo >>begins
lines=0
/shared/bin/mlp --ranks 2 --steps 0 | {
	python3 -c 'import fcntl; fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, 4096)'
	while [[ $lines -lt LINES && ! -e stop ]] && read -r line; do
		echo "$line"
		((++lines))
		sleep 0.1
	done
} >numbers
echo ended
`

// submitCounter submits a counter of alice's.
func (w *world) submitCounter(ctx context.Context, name, script string, options ...string) (*counter, error) {
	c := &counter{w: w, folder: "kills/" + name}
	folder := w.Shared(c.folder)
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o755), os.Chown(folder, aliceID, aliceID)); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "script"), []byte(script), 0o755); err != nil {
		return nil, err
	}
	args := append([]string{"env", "--chdir=/shared/" + c.folder, "sbatch", "--parsable", "--singularity", "--time=60", "--output=log"}, options...)
	said, err := w.Exec(ctx, "ctl", "alice", append(args, "script")...)
	if err != nil {
		return nil, err
	}
	c.id, err = strconv.ParseInt(strings.TrimSpace(said), 10, 64)
	return c, err
}

func (c *counter) readCount() int {
	b, _ := os.ReadFile(c.w.Shared(c.folder, "numbers"))
	return strings.Count(string(b), "\n")
}

// waitForCounting waits until the job has counted on.
func (c *counter) waitForCounting(ctx context.Context) error {
	from := c.readCount()
	return waitFor(ctx, 3*time.Minute, func() (bool, string) {
		now := c.readCount()
		from = min(from, now) // the job went back to its checkpoint
		return now >= from+3, fmt.Sprintf("job %d stands still at %d: %v", c.id, now, c.readSituation(ctx))
	})
}

// situation has the fields of a job in Slurm.
type situation struct {
	state, reason, nodes, excluded, comment string
	restarts                                int
	held                                    bool
}

func (s situation) String() string {
	return fmt.Sprintf("%s (%s) on %q, %d restarts, held %v, comment %q", s.state, s.reason, s.nodes, s.restarts, s.held, s.comment)
}

func (s situation) hasEnded() bool {
	return s.state == "COMPLETED" || s.state == "CANCELLED" || s.state == "FAILED" || s.state == "TIMEOUT" || s.state == "BOOT_FAIL"
}

// readSituation returns empty while Slurm does not answer.
func (c *counter) readSituation(ctx context.Context) situation {
	id := strconv.FormatInt(c.id, 10)
	out, err := c.w.runAsRoot(ctx, "scontrol", "show", "job", "--oneliner", id)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") { // long over: slurmctld has forgotten the job
		out, _ = c.w.runAsRoot(ctx, "sacct", "-X", "-n", "-P", "-j", id, "-o", "State")
		word, _, _ := strings.Cut(strings.TrimSpace(out), " ")
		return situation{state: word}
	}
	if err != nil {
		return situation{}
	}
	s := situation{state: fieldOf(out, "JobState"), reason: fieldOf(out, "Reason"), nodes: fieldOf(out, "NodeList"), excluded: fieldOf(out, "ExcNodeList")}
	s.restarts, _ = strconv.Atoi(fieldOf(out, "Restarts"))
	s.held = fieldOf(out, "Priority") == "0" && !s.hasEnded()
	if _, after, ok := strings.Cut(out, " Comment="); ok {
		s.comment, _, _ = strings.Cut(after, " StdErr=")
	}
	return s
}

// isHeldForLaunch tells whether Slurm itself holds the job, because a node has refused to start a run.
func (s situation) isHeldForLaunch() bool {
	return s.held && strings.HasPrefix(strings.ReplaceAll(s.reason, "_", " "), "launch failed")
}

// fieldOf finds KEY=VALUE in the output of scontrol.
func fieldOf(out, key string) string {
	_, after, _ := strings.Cut(" "+out, " "+key+"=")
	value, _, _ := strings.Cut(after, " ")
	return value
}

// checkpoint has the fields of a checkpoint in the output of singctl checkpoints --json.
type checkpoint struct{ Reason, Problem string }

// listCheckpoints returns the checkpoints of the job.
func (c *counter) listCheckpoints(ctx context.Context) ([]checkpoint, error) {
	var all struct{ Checkpoints []checkpoint }
	err := c.w.askSingctl(ctx, &all, "root", "checkpoints", strconv.FormatInt(c.id, 10), "--node", "n1")
	return all.Checkpoints, err
}

// countCheckpoints counts the checkpoints that an action asked for.
func (c *counter) countCheckpoints(ctx context.Context) (map[string]int, error) {
	all, err := c.listCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	made := map[string]int{}
	for _, one := range all {
		if token, ok := strings.CutPrefix(one.Reason, "action "); ok && one.Problem == "" {
			token, _, _ = strings.Cut(token, ":")
			made[token]++
		}
	}
	return made, nil
}

// stop has the job come to its end.
func (c *counter) stop() error { return os.WriteFile(c.w.Shared(c.folder, "stop"), nil, 0o644) }

// finishAndCheck tells the job to stop, waits for its end, and checks the job's output.
func (c *counter) finishAndCheck(ctx context.Context) error {
	if err := c.stop(); err != nil {
		return err
	}
	var s situation
	err := waitFor(ctx, 4*time.Minute, func() (bool, string) {
		s = c.readSituation(ctx)
		if s.state == "PENDING" && !s.held { // Slurm waits for two minutes after a requeue
			_ = c.w.Scontrol(ctx, "update", fmt.Sprintf("JobId=%d", c.id), "StartTime=now")
		}
		return s.hasEnded(), s.String()
	})
	if err != nil {
		return fmt.Errorf("job %d: %w", c.id, err)
	}
	if s.state != "COMPLETED" {
		return fmt.Errorf("job %d: %s", c.id, s)
	}
	return c.checkOutput()
}

// checkOutput returns an error if the output differs from that of an undisturbed job.
func (c *counter) checkOutput() error {
	b, err := os.ReadFile(c.w.Shared(c.folder, "numbers"))
	if err != nil {
		return err
	}
	if c.losses != nil {
		if !bytes.HasPrefix(c.losses, b) {
			return fmt.Errorf("job %d: its losses are not those of a run that nothing disturbs:\n%.2000s", c.id, b)
		}
		return nil
	}
	n := strings.Count(string(b), "\n") - 1
	var want strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&want, i)
	}
	fmt.Fprintf(&want, "end %d %d\n", n, n*(n+1)/2)
	if string(b) != want.String() {
		return fmt.Errorf("job %d: it counted\n%.2000s", c.id, b)
	}
	return nil
}
