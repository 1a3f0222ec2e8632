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

// isLeavingNodes says that Slurm is taking the job's nodes away, as far as is known here.
func (j *job) isLeavingNodes() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.deciding || j.released || j.givenUp || j.ledAttempt != nil && j.ledAttempt.after != forwardSignal || j.membership != nil && j.membership.release
}

// awaitStayOrEnd returns when the job stays, at least for now, or is gone. Of an srun whose
// failure was not told, Slurm is asked: it may take minutes to do what it has begun.
func (j *job) awaitStayOrEnd(ctx context.Context, lc *localCapsule, key string) error {
	for j.c.findJob(j.id) == j {
		j.mu.Lock()
		doubt := lc.unreportedSruns[key]
		j.mu.Unlock()
		look := pollInterval
		if !j.isLeavingNodes() {
			if !doubt || j.staysOnNodes(ctx) {
				return nil
			}
			look = slurmPollInterval
		}
		if !sleepUnlessDone(ctx, look) {
			return ctx.Err()
		}
	}
	return nil
}

const slurmPollInterval = time.Second

// TellFailure says whether a script is to learn that its srun has failed: not if it is captured
// before it could have done anything about it.
func (c *Conductor) TellFailure(ctx context.Context, dir string) bool {
	j, lc := c.findSrun(dir)
	if j == nil {
		return true
	}
	key := filepath.Base(dir)
	if j.staysOnNodes(ctx) {
		if !j.isStepUnrestored(ctx, key) {
			return true
		}
		// Its script would go on as if its tasks had failed.
		if j.markGivenUp() {
			c.startBackground(func(context.Context) {
				j.endRunLogged(fmt.Errorf("step %s cannot be started again: srun has failed", key))
			})
		}
	}
	// Its tasks' statuses are wanted: the step is to be restored.
	j.mu.Lock()
	lc.unreportedSruns[key] = true
	j.mu.Unlock()
	return false
}

// TellMessage says whether what an srun says of a failure is true of its job.
func (c *Conductor) TellMessage(ctx context.Context, dir string) bool {
	j, _ := c.findSrun(dir)
	return j == nil || j.staysOnNodes(ctx)
}

// findSrun finds the job and the capsule of an srun by its folder.
func (c *Conductor) findSrun(dir string) (*job, *localCapsule) {
	for _, j := range c.allJobs() {
		for _, lc := range j.localCapsules() {
			if filepath.Dir(dir) == c.srunDir(j.id, lc.index) {
				return j, lc
			}
		}
	}
	return nil, nil
}

// staysOnNodes asks Slurm whether it takes the job away, or is about to because its time is up,
// if that is not known. A Slurm that does not answer does nothing to the job.
func (j *job) staysOnNodes(ctx context.Context) bool {
	if j.isLeavingNodes() {
		return false
	}
	j.mu.Lock()
	run := j.run
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, slurmQueryTimeout)
	defer cancel()
	s, err := j.c.Slurm.Show(ctx, jobName(j.id))
	if err != nil {
		return true
	}
	expires := s.Expired() && s.Requeue && j.c.OnTimeLimit != "end"
	return decideVerdict(s, run, j.c.OnTimeLimit) == forwardSignal && !expires
}

// endRunLogged is endRun where nobody waits for it.
func (j *job) endRunLogged(why error) {
	j.log.Error("restore failed", "error", why)
	if err := j.holdOrRestart(why); err != nil {
		j.log.Error("hold the job", "error", err)
	}
}

// isStepUnrestored says that a step is of the checkpoint that this run is restored from, and
// not all of its tasks are back, as far as is known.
func (j *job) isStepUnrestored(ctx context.Context, key string) bool {
	j.mu.Lock()
	point, back := j.resumePoint, j.restored
	j.mu.Unlock()
	if point == nil || back {
		return false
	}
	if tasks, err := point.meta.stepTasks(key); err == nil && len(tasks) == 0 {
		return false // a new one
	}
	left, err := j.unrestoredPrograms(ctx, point)
	return err != nil || slices.ContainsFunc(left, func(program string) bool {
		of, _, ok := parseTaskName(program)
		return ok && of == key
	})
}
