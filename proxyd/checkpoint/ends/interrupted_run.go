// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"context"
	"errors"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// InterruptedRun is the kind of event by which people are told of a run that ended otherwise than by itself, by a
// capture, or by proxyd. "": people are told of no event.
type InterruptedRun string

// The kinds of interrupted runs.
const (
	RestoreInterrupted InterruptedRun = records.EventCutShort
	NodeLost           InterruptedRun = records.EventNodeLost
	LaunchRefused      InterruptedRun = records.EventLaunchFailed
)

// interruptedRun says how the present run ended of a job of which this node has only the record: the run never had a
// place here, or the node has failed and lost it. If the time line says how the run ended, interruption is "". here:
// the time line has the start of the run, with this node as its first.
func (e Ends) interruptedRun(id uint32) (interruption InterruptedRun, here bool, err error) {
	events, err := e.Timeline.Read(id)
	if err != nil {
		return "", false, err
	}
	for i := len(events) - 1; i >= 0; i-- {
		switch event := events[i]; event.What {
		case records.EventHeld, records.EventRequeued, records.EventRestart:
			return "", false, nil
		case records.EventReleased, records.EventEnded, records.EventCutShort, records.EventNodeLost, records.EventLaunchFailed: // of the run before
			return RestoreInterrupted, false, nil
		case records.EventRestored, records.EventStarted:
			leader, _, _ := strings.Cut(event.Where, ",")
			interruption = NodeLost
			if event.What == records.EventStarted && event.Checkpoint > 0 {
				interruption = RestoreInterrupted
			}
			return interruption, leader == e.Node, nil
		}
	}
	return "", false, nil
}

// reportInterruption tells people of an interrupted run, and of the next run: in the time line, and in the comment of
// the job, which waits.
func (e Ends) reportInterruption(ctx context.Context, id uint32, s *slurm.Job, interruption InterruptedRun) error {
	if interruption == "" {
		return nil
	}
	what := "node " + e.Node + " failed"
	switch interruption {
	case RestoreInterrupted:
		what = "its run on " + e.Node + " was cut short before the job was restored"
	case LaunchRefused:
		what = "requeued: Slurm ended it because " + whyLaunchFailed
	}
	text, err := e.withNextRun(ctx, id, what)
	if err != nil {
		return err
	}
	return errors.Join(
		e.writeEvent(id, string(interruption), text),
		e.slurmComments().Write(ctx, s.String(), text),
	)
}

// withNextRun appends to the reason of a run's end how the next run begins.
func (e Ends) withNextRun(ctx context.Context, id uint32, why string) (string, error) {
	newest, err := e.newestCheckpoint(ctx, id)
	if err != nil || newest == 0 {
		return why + "; without a checkpoint its next run begins anew", err
	}
	return reports.GoesOnFrom(why, newest), nil
}

// newestCheckpoint returns the number of a job's newest checkpoint in the store; 0: there is none.
func (e Ends) newestCheckpoint(ctx context.Context, id uint32) (uint32, error) {
	job := store.PlainJob(e.Cluster, id)
	all, err := e.Store.List(ctx, &job)
	newest := uint32(0)
	for _, c := range all {
		newest = max(newest, c.ID.Number)
	}
	return newest, err
}
