// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"context"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// A slurmctld that dies right after it has launched a run of a job has forgotten that, and shows the job as waiting. When
// the nodes register, slurmctld has them kill the run, and launches the job once more. A launch in the same second as the
// kill is refused: slurmd compares whole seconds (cred_revoked), and takes the credential of the launch for revoked.
// slurmctld then ends the job as FAILED, with exit code 1 ("Killing non-startable batch"). The job is requeued: its
// script was killed, and has not failed. A launch before the kill is refused as well, and Slurm then holds the job
// (failed_launch.go).

// CutRun is a run that neither its job nor proxyd has ended.
type CutRun struct {
	Job    uint32
	Number int
	Ended  time.Time
	Killed bool // its batch script ran, and was killed
}

// launchWithin bounds the time from the end of a run that slurmctld has forgotten to the refusal of its launch: the node
// refuses a launch in the second of the kill.
const launchWithin = 30 * time.Second

// refusalLongestWait is the longest time between two looks at the job.
const refusalLongestWait = 2 * time.Second

// RequeueRefusedLaunch requeues a job that Slurm ends because a node refuses to launch a forgotten run once more. It
// returns when Slurm has decided otherwise, and at the latest launchWithin after the end of the run.
func (e Ends) RequeueRefusedLaunch(ctx context.Context, run CutRun) error {
	forgotten := run.Killed
	for wait := settleFirstWait; time.Since(run.Ended) < launchWithin; wait = min(2*wait, refusalLongestWait) {
		s, err := e.Slurm.Show(ctx, slurm.JobName(run.Job))
		switch {
		case err != nil: // slurmctld will answer, or know the job again
		case s.Restarts != run.Number:
			return nil
		case s.Waits(): // a requeue would have counted a restart
			forgotten = true
		case s.Over():
			if !forgotten || !decisions.IsEndedForLaunch(s) {
				return nil
			}
			return e.requeueUnlessBegun(ctx, run, s)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// requeueUnlessBegun requeues the job of a run that has failed in Slurm, unless the job has begun another run since: then
// that run has failed.
func (e Ends) requeueUnlessBegun(ctx context.Context, run CutRun, s *slurm.Job) error {
	rec, err := e.Records.Load(run.Job)
	if err != nil || rec == nil || rec.BeginAnew {
		return err
	}
	events, err := e.Timeline.Read(run.Job)
	if err != nil {
		return err
	}
	for _, event := range events {
		if event.What == records.EventStarted && event.At.After(run.Ended) {
			return nil
		}
	}
	e.Log.Info("a node has refused to launch a run that slurmctld had forgotten", "job", run.Job)
	return e.requeueUnrestored(ctx, run.Job, s, LaunchRefused)
}
