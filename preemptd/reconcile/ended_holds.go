// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// commentEndedHolds removes a hold from the comments of jobs that run: a person has released them by scontrol, which
// leaves the comment as it was.
func (l *Loop) commentEndedHolds(ctx context.Context, seen cluster.Observation) {
	if l.DryRun {
		return
	}
	for i := range seen.Jobs {
		j := &seen.Jobs[i]
		comment, isStale := action.WithoutEndedHold(j.Comment)
		if !isStale || j.Held || j.State.Base != slurmrest.Running {
			continue
		}
		if err := l.Commenter.Update(ctx, j.Ref(), slurmrest.JobUpdate{Comment: &comment}); err != nil {
			l.Log.Info("cannot write the comment of a job that is no longer held", "job", j.Label(), "error", err)
		}
	}
}
