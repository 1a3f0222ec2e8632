//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// slowReader: the tasks of a step on two nodes write faster than srun's output is read, so that the pipe from srun to its reader,
// and all that Slurm has for output on its way, are full at each checkpoint. Each line arrives once, in its order.
func slowReader(t *testing.T, c protected) {
	const lines = 150_000
	// slurmstepd sends the remaining output of an ended task in pieces of 1024 bytes, whole lines or not, and lines of
	// other tasks may come between the pieces. A line here has 512 bytes, so that a piece is two whole lines.
	const format = "%-511s\n"
	c.runOn(t, "ctl", "alice", "bash", "-c", "rm -f go slowly.read").mustSucceed(t)
	job := c.submitJob(t, "--singularity --singularity-interval=10s -N2 -w n1,n2", fmt.Sprintf(`
		srun perl -e '$| = 1; printf(%q, "$ENV{SLURM_PROCID} $_") for 1..%d' | {
			until [ -e go ]; do IFS= read -r line; echo "$line" >>slowly.read; sleep 0.1; done
			cat >>slowly.read
		}
		echo rc ${PIPESTATUS[0]}`, format, lines))
	captured := func() (n int) {
		comment := c.showColumn(t, job, "Comment")
		if strings.Contains(comment, "no checkpoint") {
			t.Fatalf("the job has an obstacle: %v", comment)
		}
		fmt.Sscanf(comment, "singularity: checkpoint %d at ", &n)
		return n
	}
	waitFor(t, 90*time.Second, func() (bool, string) {
		n := captured()
		return n >= 3, fmt.Sprint("checkpoint ", n)
	})
	c.runAsRoot(t, "scontrol requeue "+job)
	c.restartJob(t, job, "")
	waitFor(t, 60*time.Second, func() (bool, string) {
		s := c.showColumn(t, job, "Comment")
		return strings.Contains(s, "restored"), s
	})
	waitFor(t, 90*time.Second, func() (bool, string) {
		n := captured()
		return n >= 5, fmt.Sprint("checkpoint ", n)
	})
	for _, n := range []string{"n1", "n2"} {
		if c.runOn(t, n, "", "pgrep", "-x", "perl").code != 0 {
			t.Errorf("the task on %s has ended: its output was not held back", n)
		}
	}
	c.runOn(t, "ctl", "alice", "touch", "go").mustSucceed(t)
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job's state at its end, want COMPLETED: %v", s)
	}
	if got := c.jobLog(job); got != "rc 0" {
		t.Errorf("the job's log is not as expected:\n%s", got)
	}
	read, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice/slowly.read"))
	next := map[string]int{"0": 1, "1": 1}
	for line := range strings.Lines(string(read)) {
		rank, _, _ := strings.Cut(line, " ")
		if want := fmt.Sprintf(format, fmt.Sprint(rank, " ", next[rank])); line != want {
			t.Fatalf("read %q, wanted %q", line, want)
		}
		next[rank]++
	}
	if next["0"] != lines+1 || next["1"] != lines+1 || len(next) != 2 {
		t.Errorf("lines: %v", next)
	}
}
