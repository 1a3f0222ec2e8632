// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
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

// errTaskEnded is the reason for which a restore fails if Slurm has ended the task in which the program was being restored: a
// node of the step or the launch of the step has failed, and Slurm ends all tasks of such a step.
var errTaskEnded = errors.New("its task has ended meanwhile")

// errTasksLate is the reason for which a restore fails if Slurm starts the tasks of a step too late, or not at all.
var errTasksLate = errors.New("no task came for")

// transientErrors are reasons for a failed restore that end without a person's help, because Slurm, a node, a daemon of a node
// or a network was away or too busy. ErrNoJob is the answer of a node that had a part of the run and was started again
// meanwhile: Slurm may not have noticed. ENOSPC is not among the numbers: a person has to make space.
var transientErrors = []error{
	errNoAddress, overlay.ErrUnreachable, ErrAway, ErrNoJob, slurm.ErrSilent, errStepNotStarted, errSharedAway, errTaskEnded,
	errTasksLate, munge.ErrNoMunge, life.ErrDied, context.DeadlineExceeded, os.ErrDeadlineExceeded,
	// of file systems on the network
	syscall.EIO, syscall.EREMOTEIO, syscall.ESTALE, syscall.ENOTCONN, syscall.ESHUTDOWN,
	// of the network
	syscall.ETIMEDOUT, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ECONNREFUSED,
	syscall.ECONNRESET,
	// of a node that is too busy
	syscall.EAGAIN, syscall.ENOMEM, syscall.ENFILE,
}

// transientAnswers are the kinds of answers of other nodes and of the relay with transient reasons.
var transientAnswers = []error{rpc.ErrTransient, rpc.ErrNotHere, rpc.ErrTimeout, rpc.ErrUnreachable}

// errKilled has the text by which os/exec reports a killed program. A restore is killed with the processes of its step,
// which Slurm ends if the step has lost a node, or where there is no memory.
var errKilled = errors.New("signal: killed")

// clusterMayRecover tells whether the failed step may succeed soon: slurmctld, or a node's daemon or network, was away.
func clusterMayRecover(err error) bool {
	return isAnyOf(err, transientErrors) || isAnyOf(err, transientAnswers) || isKilled(err) ||
		isTextOfOldRelease(err, append([]error{errKilled}, transientErrors...)...)
}

// isAnyOf tells whether err is one of the kinds.
func isAnyOf(err error, kinds []error) bool {
	return slices.ContainsFunc(kinds, func(e error) bool { return errors.Is(err, e) })
}

// isKilled tells whether a program that ran for this daemon, such as criu, was killed.
func isKilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// isTextOfOldRelease tells whether a node of an older release has answered a call with the text of one of the kinds.
// Such a node sends rpc.ErrInternal with any error of a restore; a node of this release sends rpc.ErrGivenUp,
// rpc.ErrTransient or rpc.ErrLasting.
func isTextOfOldRelease(err error, kinds ...error) bool {
	var answer *rpc.Error
	if !errors.As(err, &answer) || !errors.Is(answer, rpc.ErrInternal) {
		return false
	}
	text := strings.ToLower(answer.Error()) // criu writes the names of errors with capital letters
	return slices.ContainsFunc(kinds, func(e error) bool { return strings.Contains(text, strings.ToLower(e.Error())) })
}

// answeredError is the error of a call with the kind by which the calling node knows whether the call may succeed soon.
type answeredError struct{ err, kind error }

func (e answeredError) Error() string { return e.err.Error() }

// Unwrap returns the error and its kind.
func (e answeredError) Unwrap() []error { return []error{e.err, e.kind} }

// markTransient gives the error of a call the kind rpc.ErrTransient or rpc.ErrLasting; nil stays nil.
func markTransient(err error) error {
	switch {
	case err == nil:
		return nil
	case clusterMayRecover(err):
		return answeredError{err, rpc.ErrTransient}
	}
	return answeredError{err, rpc.ErrLasting}
}

// retryOrHold ends a run that could not be restored. If the reason is transient the job is
// requeued, and its next run tries the restore again, up to records.MaxUnrestoredRuns times in a row. Else
// the job is held, or begins anew. The caller has marked the run as given up.
func (f failedRun) retryOrHold(why error) error {
	j := f.j
	ctx := context.WithoutCancel(j.c.daemonCtx)
	if isGivenUpElsewhere(why) && f.awaitRunEnd(ctx, restoreCallTimeout) {
		return f.killPrograms(ctx)
	}
	why = withSharedFolder(ctx, j.c, why)
	if !clusterMayRecover(why) {
		return f.holdOrRestart(why)
	}
	tried, err := f.countUnrestoredRun()
	switch {
	case err == nil && tried > records.MaxUnrestoredRuns:
		return f.holdOrRestart(fmt.Errorf("not restored by %d runs in a row: %w", tried, why))
	// The count is in the shared folder. The next run waits for the folder before it tries.
	case err != nil && !errors.Is(why, errSharedAway):
		j.log.Error("cannot count the tries of the restore", "error", err)
		return f.holdOrRestart(why)
	}
	f.freezeEverything(ctx)
	text := strings.NewReplacer(
		ErrNoJob.Error(), "it does not know the job any more, as after a failure",
		errKilled.Error(), "killed, as by Slurm where a step has lost a node",
	).Replace(why.Error())
	j.report.AddEvent(records.EventRequeued, nil, text)
	// Slurm starts a requeued job after about two minutes.
	j.report.SetCommentNow(ctx, fmt.Sprintf("to be restored again when Slurm starts the job next, in two minutes or later (run %d of at most %d): %s",
		tried+1, records.MaxUnrestoredRuns+1, text))
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

// countUnrestoredRun notes in the job's record that this run was not restored, and returns how many runs in a row were
// not. After records.MaxUnrestoredRuns the job is to be held.
func (f failedRun) countUnrestoredRun() (int, error) {
	j := f.j
	rec, err := j.c.records.Load(j.id)
	if err != nil || rec == nil {
		return 0, errors.Join(err, ErrNoJob)
	}
	tried := rec.CountUnrestoredRun(j.run.Snapshot().Number)
	return tried, j.c.records.Save(rec)
}

// isGivenUpElsewhere tells whether a restore failed because another node had given the run up.
// That node holds or requeues the job.
func isGivenUpElsewhere(why error) bool {
	return errors.Is(why, errGivenUp) || isTextOfOldRelease(why, errGivenUp)
}

// awaitRunEnd waits until Slurm has ended this run, and returns false if that has not happened in
// time.
func (f failedRun) awaitRunEnd(ctx context.Context, within time.Duration) bool {
	j := f.j
	for began := time.Now(); time.Since(began) < within; {
		if j.hasRunEnded(ctx) {
			return true
		}
		if !waits.SleepUnlessDone(j.c.daemonCtx, slurmRetryInterval) {
			return false
		}
	}
	return false
}
