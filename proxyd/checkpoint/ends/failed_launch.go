// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// A slurmctld that dies right after it has launched a run of a job has forgotten that, and launches the run once more.
// The node refuses to start the run twice. Slurm then ends the run on its nodes, and holds the job until a person
// releases it. The run counts as one that ended before the job was restored: the job goes on from its checkpoint, up to
// records.MaxUnrestoredRuns times in a row.
//
// Slurm shows such a job to all nodes, and the node that led the run may be gone: so the elected daemon releases the job.

// whyLaunchFailed and whyHeldByLaunch are for people.
const (
	whyLaunchFailed = "the launch of its run had failed, as after a failure of slurmctld"
	whyHeldByLaunch = "Slurm held it because " + whyLaunchFailed
)

// releaseFailedLaunches releases the jobs that Slurm holds after a failed launch.
func (e Ends) releaseFailedLaunches(ctx context.Context, recs []*records.Record, jobs map[uint32]*slurm.Job) (err error) {
	for _, rec := range recs {
		if s := jobs[rec.Job]; s == nil || !decisions.IsHeldForLaunch(s) || s.UID != rec.UID {
			continue
		}
		if one := e.releaseFailedLaunch(ctx, rec.Job); one != nil {
			err = errors.Join(err, fmt.Errorf("job %d: %w", rec.Job, one))
		}
	}
	return err
}

// releaseFailedLaunch releases a job that Slurm holds after a failed launch, if the job has a checkpoint and its run has
// ended on all nodes. A job that a person, proxyd or an action of preemptd's holds stays held.
func (e Ends) releaseFailedLaunch(ctx context.Context, id uint32) error {
	newest, err := e.newestCheckpoint(ctx, id)
	if err != nil || newest == 0 {
		return err
	}
	if err := e.checkRunEnded(ctx, id); err != nil {
		return err
	}
	rec, err := e.Records.Load(id)
	if err != nil || rec == nil || rec.BeginAnew {
		return err
	}
	said, err := e.Slurm.Said(ctx, rec.Slurm)
	if err != nil || reports.NamesHold(said) {
		return err
	}
	s, err := e.Slurm.Show(ctx, rec.Slurm) // The nodes may have taken their time: the hold may be another's by now.
	if err != nil || !decisions.IsHeldForLaunch(s) {
		return err
	}
	rec, err = e.Records.Load(id) // Slurm may have taken its time: a node may have written the record meanwhile.
	if err != nil || rec == nil || rec.BeginAnew {
		return err
	}
	tried := rec.CountUnrestoredRun(s.Restarts - 1)
	if err := e.Records.Save(rec); err != nil {
		return err
	}
	if tried > records.MaxUnrestoredRuns {
		why := fmt.Sprintf("%d runs in a row ended before the job was restored, last: %s", tried, whyHeldByLaunch)
		return errors.Join(e.writeEvent(id, records.EventHeld, why), e.slurmComments().Write(ctx, s.String(), reports.Held+why))
	}
	if err := e.Slurm.Release(ctx, s.String()); err != nil {
		return err
	}
	e.Log.Info("released a job that Slurm held after a failed launch", "job", id)
	text := reports.GoesOnFrom("released: "+whyHeldByLaunch, newest)
	return errors.Join(e.writeEvent(id, records.EventLaunchFailed, text), e.slurmComments().Write(ctx, s.String(), text))
}

// checkRunEnded returns an error unless all nodes of a job's newest run say that they have no capsule of the job: Slurm
// ends a run on the nodes of the launch that has failed, and the run may live on others.
func (e Ends) checkRunEnded(ctx context.Context, id uint32) error {
	events, err := e.Timeline.Read(id)
	if err != nil {
		return err
	}
	for _, event := range slices.Backward(events) {
		if event.What != records.EventStarted {
			continue
		}
		for node := range strings.SplitSeq(event.Where, ",") {
			if lives, err := e.Capsules.AreOn(ctx, node, id); err != nil || lives {
				return errors.Join(fmt.Errorf("it stays held: its run may live on node %s", node), err)
			}
		}
		return nil
	}
	return nil
}
