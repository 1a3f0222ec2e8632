// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// reportLostActions compares the journal with the actions that jobs' comments name, once for each Loop. A journal
// that was deleted while no preemptd worked is an empty journal, and the jobs of its actions would stay as they are,
// held for instance, without a word. So the job's comment, the job's history and the log tell the fate of the action.
// Such an action is not carried on: which of its steps preemptd had done was in the journal only.
func (l *Loop) reportLostActions(ctx context.Context, seen cluster.Observation) (problems []string, err error) {
	if l.comparedAll || l.DryRun {
		return nil, nil
	}
	for i := range seen.Jobs {
		j := &seen.Jobs[i]
		id, comment := action.WithoutRecord(j)
		if id == 0 || j.State.Finished() {
			continue
		}
		known, err := l.hasAction(ctx, j.ID, id)
		if err != nil {
			return nil, err
		}
		if known {
			continue
		}
		text := fmt.Sprintf("job %s: the journal does not have action %d, of which the job's comment tells", j.Label(), id)
		if j.Held {
			text += fmt.Sprintf("; it is held: scontrol release %d", j.ID)
		}
		e := journal.Event{Job: j.ID, Restarts: j.Restarts, What: "journal lost", At: seen.Time, Text: fmt.Sprintf("action %d is not known any more", id)}
		if err := l.Journal.Note(ctx, e); err != nil {
			return nil, err
		}
		if err := l.Commenter.Update(ctx, j.Ref(), slurmrest.JobUpdate{Comment: &comment}); err != nil {
			return nil, fmt.Errorf("job %s: comment: %w", j.Label(), err)
		}
		problems = append(problems, text)
	}
	l.comparedAll = true
	return problems, nil
}

// hasAction tells whether the journal has an action of a job.
func (l *Loop) hasAction(ctx context.Context, job, id int64) (bool, error) {
	all, err := l.Journal.History(ctx, job, maxHolder)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(a journal.Action) bool { return a.ID == id }), nil
}
