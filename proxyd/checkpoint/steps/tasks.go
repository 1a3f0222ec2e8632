// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// A checkpoint must contain all of a job. A checkpoint without a part, because a node has lost the
// part or not started it yet, would be the newest, and the job would be restored from that checkpoint.

// ErrTasksMissing prevents a checkpoint while tasks of a step are missing. They may be about to
// start.
var ErrTasksMissing = errors.New("not all tasks have started")

// Counts says of each step, by key, how many tasks there are.
type Counts struct {
	Everywhere map[string]int // on all nodes, as Slurm has said
	Here       map[string]int // that ran on this node, or still run
}

// Count counts the tasks of a capsule: programs that run or wait, tasks that ended in this run, tasks
// that ended before the restored checkpoint, and tasks that ended before their programs began.
func Count(said map[string]int, programs []capsule.Program, ended, finished map[string]syscall.WaitStatus, notBegun []string) Counts {
	c := Counts{Everywhere: map[string]int{}, Here: map[string]int{}}
	for key, n := range said {
		c.Everywhere[key] = n
	}
	seen := map[string]bool{}
	see := func(program string) {
		if key, _, ok := records.ParseTaskName(program); ok && !seen[program] {
			seen[program] = true
			c.Here[key]++
		}
	}
	for _, p := range programs {
		see(p.Name)
	}
	for program := range ended {
		see(program)
	}
	for program := range finished {
		see(program)
	}
	for _, program := range notBegun {
		see(program)
	}
	return c
}

// CheckComplete returns ErrTasksMissing if a step that runs has fewer tasks on the nodes together than Slurm has said.
func CheckComplete(running []string, nodes []Counts) error {
	want, have := map[string]int{}, map[string]int{}
	for _, c := range nodes {
		for key, n := range c.Everywhere {
			want[key] = max(want[key], n)
		}
		for key, n := range c.Here {
			have[key] += n
		}
	}
	for key, n := range want {
		if slices.Contains(running, key) && have[key] < n {
			return fmt.Errorf("%w: step %s has %d of %d", ErrTasksMissing, key, have[key], n)
		}
	}
	return nil
}

// EndedCaptured returns the programs that ended between the mark as captured and the freeze. A
// program that was killed is an error: the program did not end by itself.
func EndedCaptured(programs []capsule.Program) (map[string]syscall.WaitStatus, error) {
	late := map[string]syscall.WaitStatus{}
	for _, p := range programs {
		if !p.Captured || !p.Ended {
			continue
		}
		if p.Status.Signaled() && p.Status.Signal() == syscall.SIGKILL {
			return nil, fmt.Errorf("program %s was killed", p.Name)
		}
		late[p.Name] = p.Status
	}
	return late, nil
}
