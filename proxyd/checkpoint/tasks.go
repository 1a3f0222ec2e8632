// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/warden"
)

// A checkpoint must have all of a job or none: one that lacks what a node has lost, or
// has not got yet, would be the newest, and the job be restored from it.

// errPartial is why a step is not captured of which tasks are missing. They may be on
// their way.
var errPartial = errors.New("not all tasks are there")

// errLost is what a node says that had a capsule of the run.
var errLost = errors.New("its capsule of this run is gone")

// expect notes how many tasks a step has. Caller holds job.mu.
func (h *held) expect(t warden.Join) {
	if t.Step == batch || t.Tasks == 0 {
		return
	}
	if h.note.Tasks == nil {
		h.note.Tasks = map[string]int{}
	}
	key, _, _ := stepOf(taskName(t.Key, t.Step, t.Task))
	h.note.Tasks[key] = t.Tasks
}

// finished notes a task that ended before the checkpoint, and is not run again: the next
// checkpoint has to say so too.
func (j *job) finished(index int, t warden.Join, program string, status syscall.WaitStatus) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.held[index]
	if h == nil {
		return
	}
	if h.note.Finished == nil {
		h.note.Finished = map[string]syscall.WaitStatus{}
	}
	h.note.Finished[program] = status
	h.expect(t)
	j.save(h)
}

// countTasks says which tasks a capsule has, or had.
func (j *job) countTasks(ctx context.Context, h *held, programs []capsule.Program, r *prepareReply) error {
	ended, err := h.c.Ended(ctx)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.TaskCounts == nil {
		r.TaskCounts, r.TasksHere = map[string]int{}, map[string]int{}
	}
	for key, n := range h.note.Tasks {
		r.TaskCounts[key] = n
	}
	seen := map[string]bool{}
	see := func(program string) {
		if key, _, ok := stepOf(program); ok && !seen[program] {
			seen[program] = true
			r.TasksHere[key]++
		}
	}
	for _, p := range programs {
		see(p.Name)
	}
	for program := range ended {
		see(program)
	}
	for program := range h.note.Finished {
		see(program)
	}
	return nil
}

// checkComplete says whether nothing of the job is missing, as far as it can be known.
func (a *attempt) checkComplete() error {
	j := a.j
	j.mu.Lock()
	from, where := j.from, j.where
	j.mu.Unlock()
	if from != nil {
		for node := range from.nodes(where) {
			if r := a.reports[node]; r == nil || r.Capsules == 0 {
				return fmt.Errorf("node %s: %w", node, errLost)
			}
		}
	}
	steps := a.runningSteps()
	want, have := map[string]int{}, map[string]int{}
	for _, r := range a.reports {
		for key, n := range r.TaskCounts {
			want[key] = max(want[key], n)
		}
		for key, n := range r.TasksHere {
			have[key] += n
		}
	}
	for key, n := range want {
		if slices.Contains(steps, key) && have[key] < n {
			return fmt.Errorf("%w: step %s has %d of %d", errPartial, key, have[key], n)
		}
	}
	return nil
}
