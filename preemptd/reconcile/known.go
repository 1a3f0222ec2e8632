// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/fraction"
	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
)

// collectKnown is the loop's own part of a snapshot, beside Seen.
func (l *Loop) collectKnown(ctx context.Context, settings Settings, seen cluster.Observation) (cluster.BuildParameters, error) {
	l.number++
	k := cluster.BuildParameters{
		Number: l.number, Rules: settings.Rules, Power: settings.Power,
		Tier:   func(qos string) sdk.Tier { return fraction.TierOf(qos, settings.Tiers) },
		Action: map[int64]string{}, Held: map[int64]cluster.Hold{}, Edited: map[int64]cluster.EditedRecord{},
	}
	if l.Rooms != nil {
		k.Rooms = l.Rooms.Kept()
	}
	open, err := l.Journal.Unfinished(ctx)
	if err != nil {
		return k, err
	}
	if err := jobsWithActions(open, k.Action); err != nil {
		return k, err
	}
	latest, err := l.Journal.Latest(ctx)
	if err != nil {
		return k, err
	}
	for i := range latest {
		holder, err := l.findHolder(ctx, &latest[i])
		if err != nil {
			return k, err
		}
		if holder != nil {
			k.Held[holder.Job] = cluster.Hold{Who: holder.Who, Policy: strings.HasPrefix(holder.Who, journal.PolicyPrefix)}
		}
	}
	// Failed actions count too: the same job is not tried again at once.
	if k.Acted, err = l.Journal.Tried(ctx); err != nil {
		return k, err
	}
	origins, err := l.Journal.Origins(ctx)
	if err != nil {
		return k, err
	}
	for job, raw := range origins {
		record, err := jobrequest.Decode(raw)
		if err != nil {
			return k, fmt.Errorf("job %d: %w", job, err)
		}
		k.Edited[job] = cluster.EditedRecord{Record: record, ByPerson: isPerson(record.By), SizedByPerson: isPerson(record.SizedBy.Editor)}
	}
	l.counts.setWindow(settings.Rules.Window)
	l.counts.countJobs(cluster.Build(seen, withoutCounts(k)))
	k.Count, k.Account = l.counts.makeReaders(seen.Time)
	return k, nil
}

func isPerson(who jobrequest.Editor) bool {
	return who.Who != "" && !strings.HasPrefix(who.Who, journal.PolicyPrefix)
}

// maxHolder is how many actions are read to find the holder of a job.
const maxHolder = 100

// findHolder returns the action that made the job's hold, by the job's last action: if the last action found a hold,
// the hold is of an earlier action.
func (l *Loop) findHolder(ctx context.Context, last *journal.Action) (*journal.Action, error) {
	left, err := action.HoldLeftBy(last)
	switch {
	case err != nil || left == action.NotHeld:
		return nil, err
	case left == action.HeldByAction:
		return last, nil
	}
	all, err := l.Journal.History(ctx, last.Job, maxHolder)
	if err != nil {
		return nil, err
	}
	return action.LastHolder(all)
}

// jobsWithActions fills in the actions under way on jobs. A job for which room is being made is being placed: else
// more room would be made for the job with each tick, until the first victim has left.
func jobsWithActions(open []journal.Action, doing map[int64]string) error {
	for i := range open {
		doing[open[i].Job] = open[i].Kind
	}
	for i := range open {
		var args action.Args
		if err := json.Unmarshal(open[i].Args, &args); err != nil {
			return fmt.Errorf("action %d: %w", open[i].ID, err)
		}
		if args.For != 0 && doing[args.For] == "" {
			doing[args.For] = sdk.Place.String()
		}
	}
	return nil
}

// withoutCounts is k with the fractions of jobs before any time is counted.
func withoutCounts(k cluster.BuildParameters) cluster.BuildParameters {
	k.Count = func(sdk.JobID) (float64, time.Duration) { return 1, 0 }
	k.Account = func(string) float64 { return 1 }
	return k
}
