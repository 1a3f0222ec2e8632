// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// SettleEndedRun waits for Slurm's last word about an ended run. If the job is over, SettleEndedRun removes the job's
// files on the shared folder; if the job waits to run again, everything stays; if the job is in one of the states
// again, the job is requeued. interruption is told of a job that runs again, if interruption is not "".
//
// The answer that Slurm does not know the job does not count as its last word: a slurmctld that was started without its
// state knows no job until the state is back. SettleEndedRun goes on for UnknownGrace, and then leaves the job to the
// Cleaner, which keeps the checkpoints.
func (e Ends) SettleEndedRun(ctx context.Context, id uint32, run int, again []string, interruption InterruptedRun) error {
	var unknownSince time.Time
	for wait := settleFirstWait; ; wait = min(2*wait, settleLongestWait) {
		s, err := e.Slurm.Show(ctx, slurm.JobName(id))
		isUnknown := errors.Is(err, slurm.ErrNoJob)
		if !isUnknown {
			unknownSince = time.Time{}
		} else if unknownSince.IsZero() {
			unknownSince = time.Now()
			e.Log.Warn("Slurm does not know a job whose run has ended", "job", id)
		}
		switch {
		case isUnknown && time.Since(unknownSince) >= UnknownGrace:
			return nil
		case isUnknown:
		case err != nil: // slurmctld will answer later
			e.Log.Warn("cannot clean up after the end of a run", "job", id, "error", err)
		case s.Restarts > run || s.Waits():
			if !s.Waits() {
				return nil
			}
			return e.reportInterruption(ctx, id, s, interruption)
		case len(again) > 0 && s.Runs(): // Slurm will notice the end
		case s.Runs():
			return nil
		case s.State == "COMPLETING": // Slurm sends no notice of the end
		case slices.Contains(again, s.State):
			return e.requeueUnrestored(ctx, id, s, interruption)
		case s.State == "COMPLETED":
			return e.DeleteJob(ctx, id)
		case s.State == decisions.StateTimeout || s.State == "PREEMPTED":
			return e.keepCheckpoints(id) // to be requeued; else GC deletes the checkpoints by age
		case s.State != stateCancelled && e.willResume(id):
			return nil // all stays, should a person requeue the job; the Cleaner removes the record
		default:
			// Failed or cancelled: a person may want the checkpoints.
			return errors.Join(e.Addresses.Give(ctx, slurm.JobName(id)), e.DeleteRecord(id))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// willResume tells whether the next run of a job resumes from a checkpoint, if there is a next run and a checkpoint. A record
// that cannot be read stays.
func (e Ends) willResume(id uint32) bool {
	rec, err := e.Records.Load(id)
	return err != nil || rec != nil && !rec.BeginAnew
}

// keepCheckpoints makes a job that is over resume from its newest checkpoint if a person requeues it.
func (e Ends) keepCheckpoints(id uint32) error {
	rec, err := e.Records.Load(id)
	if err != nil || rec == nil || !rec.BeginAnew {
		return err
	}
	rec.BeginAnew = false
	return e.Records.Save(rec)
}

// stateCancelled is the state of a job that a person has ended.
const stateCancelled = "CANCELLED"

const (
	settleFirstWait   = 200 * time.Millisecond
	settleLongestWait = 10 * time.Second
)

// SettleUnstartedRun handles a run that ended before a task of the run was admitted on this node. asked:
// a task has asked to be admitted, and was not answered. If this node is the run's first, the run ended
// before the restore, or before the start.
func (e Ends) SettleUnstartedRun(ctx context.Context, id uint32, asked bool) {
	rec, err := e.Records.Load(id)
	if err == nil && rec == nil && !asked {
		return
	}
	var s *slurm.Job
	if err == nil {
		s, err = e.Slurm.Show(ctx, slurm.JobName(id))
	}
	had := decisions.Unrestored
	if rec == nil {
		had = decisions.Unstarted
	}
	interruption, here := InterruptedRun(""), false
	if err == nil && rec != nil {
		interruption, here, err = e.interruptedRun(id)
	}
	first := err == nil && s.BatchHost == e.Node && !e.Jobs.HasRunEnded(id, s.Restarts)
	switch {
	case first && (s.Restarts > 0 || rec == nil && s.Requeue):
		err = e.SettleEndedRun(ctx, id, s.Restarts, decisions.StatesToRequeue(false, had, decisions.Resumes, e.OnTimeLimit), interruption)
	case first && rec != nil && s.Requeue: // its first run, with its node; Slurm runs it again by itself
		err = e.SettleEndedRun(ctx, id, s.Restarts, nil, interruption)
	case here && s.Waits() && s.Restarts > 0 && !e.Jobs.HasRunEnded(id, s.Restarts-1): // Slurm was quicker
		err = e.reportInterruption(ctx, id, s, interruption)
	}
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		e.Log.Warn("cannot clean up after a run that never began", "job", id, "error", err)
	}
}

// requeueUnrestored requeues a job that Slurm takes to be over, or holds it after
// records.MaxUnrestoredRuns. A run that ended before the job had a record is counted by Slurm.
func (e Ends) requeueUnrestored(ctx context.Context, id uint32, s *slurm.Job, interruption InterruptedRun) error {
	rec, err := e.Records.Load(id)
	if err != nil {
		return err
	}
	times := s.Restarts + 1
	if rec != nil {
		times = rec.CountUnrestoredRun(s.Restarts)
		if err := e.Records.Save(rec); err != nil {
			return err
		}
	}
	switch {
	case times > records.MaxUnrestoredRuns:
		why := fmt.Sprintf("%d runs in a row ended before the job was restored", times) + e.lastFailure(id)
		return errors.Join(
			e.writeEvent(id, records.EventHeld, why),
			e.slurmComments().Write(ctx, s.String(), reports.Held+why),
			e.Slurm.RequeueHold(ctx, s.String()),
		)
	case s.State == decisions.StateTimeout && e.OnTimeLimit == "hold":
		return e.Slurm.RequeueHold(ctx, s.String())
	}
	if err := e.Slurm.Requeue(ctx, s.String()); err != nil {
		return err
	}
	return e.reportInterruption(ctx, id, s, interruption) // Slurm takes no comment of a job that is over
}

// lastFailure returns, as the end of a sentence, the newest reason of a failed run that the time line has; "" if it has
// none.
func (e Ends) lastFailure(id uint32) string {
	events, err := e.Timeline.Read(id)
	if err != nil {
		e.Log.Info("read the time line", "job", id, "error", err)
	}
	for _, event := range slices.Backward(events) {
		switch event.What {
		case records.EventRequeued, records.EventCutShort, records.EventNodeLost, records.EventLaunchFailed:
			return ", last: " + event.Text
		}
	}
	return ""
}
