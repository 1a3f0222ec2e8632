// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// errGivenUp prevents a checkpoint of a run after this node has ended its programs because the run could not be
// restored. Such a checkpoint would lack these programs, and would be the newest.
var errGivenUp = rpc.ErrGivenUp

// failedRun ends the present run of a job if the run cannot go on: it could not be restored, or has lost a part. The
// job runs again, is held, or begins anew. The type has no state: GivenUp is a state of the run.
type failedRun struct{ j *job }

// giveUpRun ends a run that cannot be restored. If the reason is transient the job is requeued and
// restored again; else it is held with the reason in its comment, or begins anew if its user chose
// that. The checkpoint stays. It returns when Slurm has accepted the command: a task that ended
// before that would be taken for the end of the job.
func (f failedRun) giveUpRun(why error) error {
	if !f.markGivenUp() {
		return nil // Several programs may fail; the first has given the reason.
	}
	return f.retryOrHold(why)
}

// markGivenUp marks the run as given up: from now on it is not captured, and its script learns of
// no failure. It returns false if the run was marked before, or is leaving anyway.
func (f failedRun) markGivenUp() bool {
	return f.j.run.EnterState(runs.GivenUp) == nil
}

func (f failedRun) isGivenUp() bool {
	return f.j.run.Snapshot().HasBeen(runs.GivenUp)
}

// holdOrRestart holds the job, or has it begin anew. The caller has marked the run as given up.
func (f failedRun) holdOrRestart(why error) error {
	j := f.j
	ctx := context.WithoutCancel(j.c.daemonCtx)
	rec := j.run.SavedRecord()
	if rec == nil { // The run was not looked up in Slurm yet.
		var err error
		if rec, err = j.c.records.Load(j.id); err != nil || rec == nil {
			return errors.Join(err, ErrNoJob)
		}
	}
	if cmp.Or(rec.Options.OnFailure, j.c.OnFailure) == "restart" {
		again := *rec
		again.BeginAnew = true
		if err := j.c.records.Save(&again); err != nil {
			return err
		}
		j.report.AddEvent(records.EventRestart, nil, why.Error())
		j.report.SetComment("begins anew, as asked for: " + why.Error())
		return f.retrySlurmCommand(ctx, j.c.Slurm.Requeue)
	}
	// The comment is written before the requeue, because the end of the run makes other nodes write "no checkpoint"
	// comments, and after the requeue, because another node may have replaced the comment meanwhile, even by "restored".
	writeComment := func() {
		if !isGivenUpElsewhere(why) { // The node that gave the run up has written a more precise reason.
			j.report.SetCommentNow(ctx, reports.Held+why.Error())
		}
	}
	if !isGivenUpElsewhere(why) {
		j.report.AddEvent(records.EventHeld, nil, why.Error())
	}
	writeComment()
	err := f.retrySlurmCommand(ctx, j.c.Slurm.RequeueHold)
	// Programs that are restored must not run on until Slurm kills them.
	err = errors.Join(err, f.killPrograms(ctx))
	writeComment()
	return err
}

// killPrograms kills the programs of this node.
func (f failedRun) killPrograms(ctx context.Context) (err error) {
	for _, lc := range f.j.localCapsules() {
		programs, _ := lc.capsule.Programs(ctx)
		for _, p := range programs {
			if p.Waiting || p.Ended {
				continue
			}
			if e := lc.capsule.Signal(ctx, p.Name, syscall.SIGKILL); !isGone(e) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// requeueRun ends a run that has lost a part, and has the job resume from its newest checkpoint.
func (f failedRun) requeueRun(ctx context.Context, why error) error {
	j := f.j
	if !f.markGivenUp() {
		return nil
	}
	f.freezeEverything(ctx)
	j.report.AddEvent(records.EventRequeued, nil, why.Error())
	j.report.SetCommentNow(ctx, "to be run again: "+why.Error())
	err := f.retrySlurmCommand(ctx, j.c.Slurm.Requeue)
	return errors.Join(err, f.killPrograms(ctx))
}

// giveUpAndHold is requeueRun for a run that would fail again in the same way: the job is held with the
// reason.
func (f failedRun) giveUpAndHold(ctx context.Context, why error) error {
	if !f.markGivenUp() {
		return nil
	}
	f.freezeEverything(ctx)
	return f.holdOrRestart(why)
}

// freezeEverything freezes the programs of this node, before they notice their loss and fail.
func (f failedRun) freezeEverything(ctx context.Context) {
	j := f.j
	for _, lc := range j.localCapsules() {
		programs, err := processes.RunningPrograms(ctx, lc.capsule)
		for _, p := range programs {
			err = errors.Join(err, lc.capsule.Freeze(ctx, p.Name))
		}
		if err != nil && !isGone(err) {
			j.log.Warn("cannot freeze a capsule", "capsule", lc.index, "error", err)
		}
	}
}

// slurmCommandTimeout bounds a try of retrySlurmCommand, slurmRetryInterval the pause after it.
const (
	slurmCommandTimeout = 30 * time.Second
	slurmRetryInterval  = 2 * time.Second
)

// retrySlurmCommand repeats a command until Slurm accepts it, or has ended the run by itself. It
// outlasts a restart of slurmctld.
func (f failedRun) retrySlurmCommand(ctx context.Context, do func(context.Context, string) error) error {
	j := f.j
	run := j.run.Snapshot().Number
	for {
		try, cancel := context.WithTimeout(ctx, slurmCommandTimeout)
		err := do(try, j.slurmName())
		cancel()
		if err == nil {
			return nil
		}
		j.log.Warn("Slurm refused a command; trying again", "error", err)
		try, cancel = context.WithTimeout(ctx, slurmCommandTimeout)
		s, looked := j.c.Slurm.Show(try, slurm.JobName(j.id))
		cancel()
		if errors.Is(looked, slurm.ErrNoJob) || looked == nil && (!s.Runs() || s.Restarts > run && f.isLookedUp()) || !waits.SleepUnlessDone(j.c.daemonCtx, slurmRetryInterval) {
			return err
		}
	}
}

// isLookedUp tells whether the run was looked up in Slurm.
func (f failedRun) isLookedUp() bool {
	return f.j.run.Snapshot().Record != nil
}
