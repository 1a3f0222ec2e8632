// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// What becomes of an srun depends on its job: where Slurm takes that away, its failure is not the
// script's to hear.

// leaving says that Slurm is taking the job's nodes away, as far as is known here.
func (j *job) leaving() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.judging || j.left || j.gaveUp || j.ledAttempt != nil && j.ledAttempt.after != passOn || j.membership != nil && j.membership.release
}

// awaitFate returns when the job stays, at least for now, or is gone. Of an srun whose
// failure was not told, Slurm is asked: it may take minutes to do what it has begun.
func (j *job) awaitFate(ctx context.Context, h *held, key string) error {
	for j.c.known(j.id) == j {
		j.mu.Lock()
		doubt := h.kept[key]
		j.mu.Unlock()
		look := quietLook
		if !j.leaving() {
			if !doubt || j.stays(ctx) {
				return nil
			}
			look = doubtLook
		}
		if !sleepUnlessDone(ctx, look) {
			return ctx.Err()
		}
	}
	return nil
}

const doubtLook = time.Second

// Ended says whether a script is to learn that its srun has failed: not if it is captured
// before it could have done anything about it.
func (c *Conductor) Ended(ctx context.Context, dir string) bool {
	j, h := c.srunIn(dir)
	if j == nil {
		return true
	}
	key := filepath.Base(dir)
	if j.stays(ctx) {
		if !j.unrestored(ctx, key) {
			return true
		}
		// Its script would go on as if its tasks had failed.
		if j.markGivenUp() {
			c.spawn(func(context.Context) { j.holdFor(fmt.Errorf("step %s cannot be started again: srun has failed", key)) })
		}
	}
	// Its tasks' statuses are wanted: the step is to be restored.
	j.mu.Lock()
	h.kept[key] = true
	j.mu.Unlock()
	return false
}

// Stays says whether what an srun says of a failure is true of its job.
func (c *Conductor) Stays(ctx context.Context, dir string) bool {
	j, _ := c.srunIn(dir)
	return j == nil || j.stays(ctx)
}

// srunIn finds the job and the capsule of an srun by its folder.
func (c *Conductor) srunIn(dir string) (*job, *held) {
	for _, j := range c.every() {
		for _, h := range j.capsules() {
			if filepath.Dir(dir) == c.srunDir(j.id, h.index) {
				return j, h
			}
		}
	}
	return nil, nil
}

// stays asks Slurm whether it takes the job away, or is about to because its time is up,
// if that is not known. A Slurm that does not answer does nothing to the job.
func (j *job) stays(ctx context.Context) bool {
	if j.leaving() {
		return false
	}
	j.mu.Lock()
	run := j.run
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, verdictDeadline)
	defer cancel()
	s, err := j.c.Slurm.Show(ctx, name(j.id))
	if err != nil {
		return true
	}
	expires := s.Expired() && s.Requeue && j.c.OnTimeLimit != "end"
	return why(s, run, j.c.OnTimeLimit) == passOn && !expires
}

// holdFor is endRun where nobody waits for it.
func (j *job) holdFor(why error) {
	j.log.Error("restore failed", "error", why)
	if err := j.endRun(why); err != nil {
		j.log.Error("hold the job", "error", err)
	}
}

// unrestored says that a step is of the checkpoint that this run is restored from, and
// not all of its tasks are back, as far as is known.
func (j *job) unrestored(ctx context.Context, key string) bool {
	j.mu.Lock()
	from, back := j.from, j.back
	j.mu.Unlock()
	if from == nil || back {
		return false
	}
	if tasks, err := from.meta.tasks(key); err == nil && len(tasks) == 0 {
		return false // a new one
	}
	left, err := j.leftThere(ctx, from)
	return err != nil || slices.ContainsFunc(left, func(program string) bool {
		of, _, ok := stepOf(program)
		return ok && of == key
	})
}
