//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestScale: jobs of up to 64 nodes, and up to 100 jobs at once, are captured while they run, then requeued together
// and restored, and each program has written all of its lines, once. The log has how long the checkpoints took:
// docs/performance.md has the figures.
func TestScale(t *testing.T) {
	c := raiseProtected(t, "t-scale", "--nodes", "64")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("errors and warnings of all nodes:\n%s", c.loggedProblems(t))
		}
	})
	t.Run("nodes", func(t *testing.T) {
		for _, nodes := range []int{1, 4, 16, 64} {
			t.Run(strconv.Itoa(nodes), func(t *testing.T) { c.requeueTogether(t, c.countOnNodes(t, nodes)) })
		}
	})
	t.Run("jobs", func(t *testing.T) {
		for _, jobs := range []int{10, 40, 100} {
			t.Run(strconv.Itoa(jobs), func(t *testing.T) { c.requeueTogether(t, c.countInJobs(t, jobs)) })
		}
	})
}

// countingPrograms are programs of one or more jobs that count until a file appears.
type countingPrograms struct {
	jobs    []string
	outputs []string // one for each program, paths on this machine
	stop    string   // path on this machine of the file that ends them
}

// countScript counts in the shell, and appends to a file, until a file with the job's name appears. A program
// that begins anew appends another 1.
func countScript(output string) string {
	return `i=0; until [ -e "$SLURM_JOB_NAME" ]; do i=$((i + 1)); echo $i; sleep 1; done >> ` + output
}

func (c protected) countOnNodes(t *testing.T, nodes int) countingPrograms {
	t.Helper()
	name := fmt.Sprintf("stop-nodes-%d", nodes)
	job := c.submitJob(t, fmt.Sprintf("--singularity -N%d --ntasks-per-node=1 -J %s", nodes, name),
		"srun bash -c '"+countScript("out.$SLURM_JOB_ID.$SLURM_PROCID")+"'")
	p := countingPrograms{jobs: []string{job}, stop: c.homePath(name)}
	for rank := range nodes {
		p.outputs = append(p.outputs, c.homePath(fmt.Sprintf("out.%s.%d", job, rank)))
	}
	return p
}

func (c protected) countInJobs(t *testing.T, jobs int) countingPrograms {
	t.Helper()
	name := fmt.Sprintf("stop-jobs-%d", jobs)
	submitted := c.runScript(t, fmt.Sprintf(`cd; for n in $(seq %d); do sbatch --parsable --singularity -J %s --output=%%j.log <<'SCRIPT'
#!/bin/bash
%s
SCRIPT
done`, jobs, name, countScript("out.$SLURM_JOB_ID")))
	p := countingPrograms{jobs: strings.Fields(submitted), stop: c.homePath(name)}
	for _, job := range p.jobs {
		p.outputs = append(p.outputs, c.homePath("out."+job))
	}
	return p
}

// requeueTogether captures all of the jobs at once while they run, requeues all of them at once, and
// compares the output of their programs with that of an undisturbed program.
func (c protected) requeueTogether(t *testing.T, p countingPrograms) {
	t.Helper()
	list := strings.Join(p.jobs, " ")
	p.eachCounts(t, 3)
	began := time.Now()
	c.runScript(t, fmt.Sprintf(`for job in %s; do singctl checkpoint -q $job > checkpoint.$job 2>&1 & pids="${pids:-} $!"; done
		for pid in $pids; do wait $pid || { cat checkpoint.*; exit 1; }; done`, list))
	took := time.Since(began)
	t.Logf("%d programs of %d jobs: captured while they run in %.1f s, %.0f ms for each program",
		len(p.outputs), len(p.jobs), took.Seconds(), took.Seconds()*1000/float64(len(p.outputs)))

	c.runAsRoot(t, "scontrol requeue "+strings.Join(p.jobs, ","))
	c.allPending(t, p.jobs)
	// A job that starts in the second of its requeue has a revoked credential (Slurm's).
	c.runAsRoot(t, fmt.Sprintf("sleep 2; for job in %s; do scontrol update JobId=$job StartTime=now; done", list))
	c.allRestored(t, p.jobs)
	p.eachCounts(t, p.mostLines(t)+3) // each has gone on
	if err := os.WriteFile(p.stop, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 10*time.Minute, func() (bool, string) {
		left := c.runAsRoot(t, "squeue --noheader --format='%i %T %k' --jobs="+strings.Join(p.jobs, ","))
		return left == "", "these have not ended:\n" + left
	})
	for _, output := range p.outputs {
		lines := readLines(t, output)
		for i, line := range lines {
			if line != strconv.Itoa(i+1) {
				t.Errorf("%s: line %d is %q; a program that was not disturbed has %d there", output, i+1, line, i+1)
				break
			}
		}
	}
}

func (c protected) allPending(t *testing.T, jobs []string) {
	t.Helper()
	waitFor(t, 10*time.Minute, func() (bool, string) {
		states := strings.Fields(c.runAsRoot(t, "squeue --noheader --format=%T --jobs="+strings.Join(jobs, ",")))
		pending := 0
		for _, s := range states {
			if s == "PENDING" {
				pending++
			}
		}
		return pending == len(jobs), fmt.Sprintf("%d of %d jobs wait to run again: %v", pending, len(jobs), states)
	})
}

// allRestored waits until all jobs run and say that they are restored, and fails at once if one is held.
func (c protected) allRestored(t *testing.T, jobs []string) {
	t.Helper()
	waitFor(t, 10*time.Minute, func() (bool, string) {
		all := c.runAsRoot(t, "squeue --noheader --format='%i %T %k' --jobs="+strings.Join(jobs, ","))
		if strings.Contains(all, "held: ") {
			t.Fatalf("a job is held instead of restored:\n%s", all)
		}
		restored := 0
		for line := range strings.Lines(all) {
			if strings.Contains(line, " RUNNING ") && strings.Contains(line, "restored from checkpoint") {
				restored++
			}
		}
		return restored == len(jobs), fmt.Sprintf("%d of %d jobs are restored:\n%s", restored, len(jobs), all)
	})
}

// loggedProblems returns the errors and warnings in the logs of proxyd and Slurm's daemons on all nodes.
func (c protected) loggedProblems(t *testing.T) string {
	t.Helper()
	return c.logLines(t, "*/proxyd.log", "level=ERROR", "level=WARN") + c.logLines(t, "*/slurm*.log", "error:")
}

// logLines returns the lines of logs that have one of the words.
func (c protected) logLines(t *testing.T, logs string, words ...string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("/var/lib/minicluster", c.name, "logs", logs))
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
				fmt.Fprintf(&found, "%s: %s", filepath.Base(filepath.Dir(path)), line)
			}
		}
	}
	return found.String()
}

// eachCounts waits until each program has written so many lines.
func (p countingPrograms) eachCounts(t *testing.T, lines int) {
	t.Helper()
	waitFor(t, 10*time.Minute, func() (bool, string) {
		for _, output := range p.outputs {
			if n := len(readLines(t, output)); n < lines {
				return false, fmt.Sprintf("%s has %d lines of %d", output, n, lines)
			}
		}
		return true, ""
	})
}

// mostLines returns the largest number of lines that a program has written.
func (p countingPrograms) mostLines(t *testing.T) int {
	t.Helper()
	most := 0
	for _, output := range p.outputs {
		most = max(most, len(readLines(t, output)))
	}
	return most
}

// readLines returns the lines of a file that are complete.
func readLines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	return lines[:len(lines)-1]
}
