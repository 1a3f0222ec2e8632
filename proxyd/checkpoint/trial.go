// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
)

// trialDelay is the time from the start of a run to the look for what would keep the job from being
// captured. By then programs have opened what they work with, and little work is done.
const trialDelay = 30 * time.Second

// tryLater looks, some time after the start of a run, for what would keep the job from being
// captured, and tells the user: there is still time to do something about it.
func (j *job) tryLater(ctx context.Context, run int) {
	if !sleepUnlessDone(ctx, trialDelay) || j.c.jobs.findJob(j.id) != j {
		return
	}
	snap := j.run.Snapshot()
	if snap.Number != run {
		return
	}
	found := j.obstaclesOf(j.viewAll(ctx, snap.Placement.Today))
	if len(found) == 0 {
		return
	}
	j.mu.Lock()
	j.lastObstacles = found
	j.mu.Unlock()
	err := &ObstacleError{found}
	j.log.Info("the job cannot be captured as it is", "error", err)
	j.report.SetComment("cannot be captured as it is: " + err.Error())
	j.report.TellObstacle(ctx, err)
}

// obstaclesOf returns the obstacles in views of capsules.
func (j *job) obstaclesOf(views []calls.CapsuleView) []processes.Obstacle {
	j.mu.Lock()
	before := j.lastObstacles
	j.mu.Unlock()
	now := time.Now()
	var found []processes.Obstacle
	for _, v := range views {
		for _, o := range v.Obstacles {
			found = append(found, o.WithSince(v.Capsule.GetNode(), now, before))
		}
	}
	return found
}
