// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
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

// commentEndedLeases says in the comments of jobs that were given a size in place that they do not have this size any
// more: leases have ended, or the job has left its nodes. A job is left alone while an action on it is on its way or has
// ended since the look, and a running job until its node has told of the job's run and so of the leases there.
func (l *Loop) commentEndedLeases(ctx context.Context, seen cluster.Observation, snapshot *sdk.Snapshot) {
	if l.DryRun {
		return
	}
	for i := range seen.Jobs {
		j := &seen.Jobs[i]
		gpus := action.SizeInPlace(j.Comment)
		now, ok := snapshot.Job(sdk.JobID(j.ID))
		if gpus == 0 || !ok || now.Action != "" || now.Acted.After(seen.Time) || j.State.Base != slurmrest.Running && j.State.Base != slurmrest.Pending {
			continue
		}
		if j.State.Base == slurmrest.Running {
			p, told := seen.Protected[j.ID]
			if !told || p.Restarts != j.Restarts || now.GPUs == int(gpus*max(j.NodeCount.Or(1), 1)) {
				continue
			}
		}
		comment := action.WithoutSizeInPlace(j.Comment)
		if err := l.Commenter.Update(ctx, j.Ref(), slurmrest.JobUpdate{Comment: &comment}); err != nil {
			l.Log.Info("cannot write the comment of a job whose leases have changed", "job", j.Label(), "error", err)
		}
	}
}
