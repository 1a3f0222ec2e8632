// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

const (
	// unpinAgain is how long a job is left alone after any change.
	unpinAgain = 30 * time.Second
	// unpinTries is how often the resume is tried.
	unpinTries = 3
	// unpinner is the requester of such a resume.
	unpinner = "preemptd"
)

// releasePinnedNodes takes nodes back that an action gave to a job which waits for them now: a
// node failed, or Slurm requeued the job, and the job would wait for just these nodes for ever.
// Where that cannot be done, the reason is logged.
func (l *Loop) releasePinnedNodes(ctx context.Context, seen cluster.Observation, k cluster.BuildParameters) (problems []string, err error) {
	for i := range seen.Jobs {
		j := &seen.Jobs[i]
		record, edited := k.Edited[j.ID]
		waits := j.State.Base == slurmrest.Pending && j.State.Flags == 0 && !j.Held
		if !edited || !waits || l.DryRun || k.Action[j.ID] != "" || seen.Time.Sub(k.Acted[j.ID]) < unpinAgain || !record.WaitsForOurNodes(j) {
			continue
		}
		problem, err := l.failedUnpins(ctx, j.ID)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("job %d waits for nodes that it was moved to; taking them back failed %d times, and is given up: %s", j.ID, unpinTries, problem))
			continue
		}
		raw, err := action.Encode(sdk.Resume.String(), action.Args{})
		if err != nil {
			return nil, err
		}
		_, err = l.Journal.Begin(ctx, journal.Request{
			Kind: sdk.Resume.String(), Job: j.ID, User: j.User, Args: raw, Who: unpinner, Why: "it waits for nodes that it was moved to, and may run anywhere",
		})
		if err != nil && !errors.Is(err, journal.ErrBusy) {
			return nil, err
		}
	}
	return problems, nil
}

// failedUnpins says why the last tries to take a job's nodes back failed, if no other action on the job came since.
func (l *Loop) failedUnpins(ctx context.Context, job int64) (string, error) {
	last, err := l.Journal.History(ctx, job, unpinTries)
	if err != nil || len(last) < unpinTries {
		return "", err
	}
	for i := range last {
		if last[i].Who != unpinner || last[i].State == journal.Done {
			return "", nil
		}
	}
	return last[0].Problem, nil
}
