// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/ends"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// errStepNotStarted is the reason for which a restore fails if its srun has failed. The arguments
// of the srun are those with which the step ran before, so the failure is Slurm's: slurmctld or a
// slurmd was away.
var errStepNotStarted = errors.New("cannot be started again: srun has failed")

// errSharedAway is the reason for a restore that fails while a node does not see the shared folder.
var errSharedAway = errors.New("the shared folder is away")

// withSharedFolder adds to the error of a checkpoint or restore that the shared folder is away from this node, if that is so: the
// error itself may only say that a file or the job's record is missing.
func withSharedFolder(ctx context.Context, c *Conductor, err error) error {
	if err == nil || c.CheckShared == nil {
		return err
	}
	if away := c.sharedWatch.CheckNow(context.WithoutCancel(ctx), c.CheckShared); away != nil {
		return fmt.Errorf("%w: node %s: %w (%w)", errSharedAway, c.Node, away, err)
	}
	return err
}

// transientErrors are reasons for a failed restore that end without a person's help. ErrNoJob is the answer of a node that had
// a part of the run and was started again meanwhile: Slurm may not have noticed.
var transientErrors = []error{errNoAddress, overlay.ErrUnreachable, ErrAway, ErrNoJob, slurm.ErrSilent, errStepNotStarted, errSharedAway}

// killedText is how os/exec says that a program was killed. A restore is killed with the processes of its step, which Slurm
// ends if the step has lost a node, or where there is no memory.
const killedText = "signal: killed"

// isTransient tells whether what has failed may succeed soon: slurmctld, or a node's daemon or
// network, was away. An error that has come from another node is only a text.
func isTransient(err error) bool {
	if strings.Contains(err.Error(), killedText) {
		return true
	}
	for _, e := range transientErrors {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

// retryOrHold ends a run that could not be restored. If the reason is transient the job is
// requeued, and its next run tries the restore again, up to ends.MaxUnrestoredRuns times in a row. Else
// the job is held, or begins anew. The caller has marked the run as given up.
func (f failedRun) retryOrHold(why error) error {
	j := f.j
	ctx := context.WithoutCancel(j.c.daemonCtx)
	if isGivenUpElsewhere(why) && f.awaitRunEnd(ctx, restoreCallTimeout) {
		return f.killPrograms(ctx)
	}
	why = withSharedFolder(ctx, j.c, why)
	if !isTransient(why) {
		return f.holdOrRestart(why)
	}
	again, err := f.countUnrestoredRun()
	if err != nil {
		j.log.Error("count the tries of the restore", "error", err)
		// The count is in the shared folder. The next run waits for the folder before it tries.
		again = strings.Contains(why.Error(), errSharedAway.Error())
	}
	if !again {
		return f.holdOrRestart(why)
	}
	f.freezeEverything(ctx)
	text := strings.NewReplacer(
		ErrNoJob.Error(), "it does not know the job any more, as after a failure",
		killedText, "killed, as by Slurm where a step has lost a node",
	).Replace(why.Error())
	j.report.AddEvent(records.EventRequeued, nil, text)
	j.report.SetCommentNow(ctx, "to be restored again: "+text)
	err = f.retrySlurmCommand(ctx, j.c.Slurm.Requeue)
	return errors.Join(err, f.killPrograms(ctx))
}

// endRunLogged is retryOrHold with the error logged.
func (f failedRun) endRunLogged(why error) {
	j := f.j
	j.log.Error("restore failed", "error", why)
	if err := f.retryOrHold(why); err != nil {
		j.log.Error("cannot requeue or hold the job", "error", err)
	}
}

// countUnrestoredRun notes in the job's record that this run was not restored, and tells whether
// another run may try. The count begins again when the job is held: a person then releases it.
func (f failedRun) countUnrestoredRun() (again bool, err error) {
	j := f.j
	rec, err := j.c.records.Load(j.id)
	if err != nil || rec == nil {
		return false, errors.Join(err, ErrNoJob)
	}
	run := j.run.Snapshot().Number
	if rec.UnrestoredRuns > 0 && rec.LastUnrestoredRun == run { // Another node of this run has counted it.
		return true, nil
	}
	rec.UnrestoredRuns++
	rec.LastUnrestoredRun = run
	again = rec.UnrestoredRuns <= ends.MaxUnrestoredRuns
	if !again {
		rec.UnrestoredRuns = 0
	}
	return again, j.c.records.Save(rec)
}

// isGivenUpElsewhere tells whether a restore failed because another node had given the run up.
// That node holds or requeues the job.
func isGivenUpElsewhere(why error) bool {
	return strings.Contains(why.Error(), errGivenUp.Error())
}

// awaitRunEnd waits until Slurm has ended this run, and returns false if that has not happened in
// time.
func (f failedRun) awaitRunEnd(ctx context.Context, within time.Duration) bool {
	j := f.j
	for began := time.Now(); time.Since(began) < within; {
		if j.hasRunEnded(ctx) {
			return true
		}
		if !sleepUnlessDone(j.c.daemonCtx, slurmRetryInterval) {
			return false
		}
	}
	return false
}
