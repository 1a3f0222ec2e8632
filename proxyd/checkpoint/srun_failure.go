// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// The failure of an srun is hidden from its script when Slurm is taking the job away: the script
// is captured, and the step runs again.

// isLeavingNodes tells whether Slurm is taking the job's nodes away, as far as this node knows.
func (j *job) isLeavingNodes() bool {
	// In this order: a decision leads to an attempt, and the attempt to the release.
	if j.termination.CurrentState() == runs.TerminationDeciding {
		return true
	}
	j.mu.Lock()
	led := j.ledAttempt
	j.mu.Unlock()
	if m := j.participant.currentMembership(); led != nil && led.outcome.LeavesNodes() || m != nil && m.release {
		return true
	}
	now := j.run.Snapshot()
	return now.HasBeen(runs.Released) || now.HasBeen(runs.GivenUp)
}

// awaitStayOrEnd returns when the job stays on its nodes for now, or is gone. If the failure of this srun was not
// reported, Slurm is asked repeatedly: Slurm may take minutes to end a job that it is taking away.
func (lc *localCapsule) awaitStayOrEnd(ctx context.Context, key string) error {
	j := lc.j
	for j.c.jobs.findJob(j.id) == j {
		look := pollInterval
		if !j.isLeavingNodes() {
			if !lc.sruns.IsUnreported(key) || j.staysOnNodes(ctx) {
				return nil
			}
			look = slurmPollInterval
		}
		if !waits.SleepUnlessDone(ctx, look) {
			return ctx.Err()
		}
	}
	return nil
}

const slurmPollInterval = time.Second

// TellFailure tells whether a script is to learn that its srun has failed. The answer is no if
// the job is leaving its nodes: the script is captured before it could react.
func (s SrunRequests) TellFailure(ctx context.Context, dir string) bool {
	j, lc := s.findSrun(dir)
	if j == nil {
		return true
	}
	key := filepath.Base(dir)
	if j.staysOnNodes(ctx) {
		if !j.failed.isLaunchToRetry(ctx, key, dir) {
			return true
		}
		// The script would run on as if its tasks had failed.
		if j.failed.markGivenUp() {
			s.c.startBackground(func(context.Context) {
				j.failed.endRunLogged(fmt.Errorf("step %s %w", key, errStepNotStarted))
			})
		}
	}
	// The statuses of the tasks are kept for the restore of the step.
	lc.sruns.MarkUnreported(key)
	return false
}

// TellMessage tells whether a message of an srun about a failure is to reach the user.
func (s SrunRequests) TellMessage(ctx context.Context, dir string) bool {
	j, _ := s.findSrun(dir)
	return j == nil || j.staysOnNodes(ctx)
}

// findSrun returns the job and the capsule of an srun, by the srun's folder.
func (s SrunRequests) findSrun(dir string) (*job, *localCapsule) {
	c := s.c
	for _, j := range c.jobs.allJobs() {
		for _, lc := range j.localCapsules() {
			if filepath.Dir(dir) == c.folders().srunDir(j.id, lc.index) {
				return j, lc
			}
		}
	}
	return nil, nil
}

// staysOnNodes asks Slurm whether the job stays: Slurm neither takes the job away nor is about to
// because of the time limit. If Slurm does not answer, the job stays.
func (j *job) staysOnNodes(ctx context.Context) bool {
	if j.isLeavingNodes() {
		return false
	}
	run := j.run.Snapshot().Number
	ctx, cancel := context.WithTimeout(ctx, slurmQueryTimeout)
	defer cancel()
	s, err := j.c.Slurm.Show(ctx, slurm.JobName(j.id))
	if err != nil {
		return true
	}
	expires := s.Expired() && s.Requeue && j.c.OnTimeLimit != "end"
	return decisions.DecideVerdict(s, run, j.c.OnTimeLimit) == decisions.ForwardSignal && !expires
}

// isStepUnrestored tells whether a step belongs to the restored checkpoint and not all of its
// tasks are restored, as far as this node can find out.
func (j *job) isStepUnrestored(ctx context.Context, key string) bool {
	snap := j.run.Snapshot()
	point := snap.Point
	if point == nil || snap.HasBeen(runs.Running) {
		return false
	}
	if tasks, err := point.Meta.StepTasks(key); err == nil && len(tasks) == 0 {
		return false // a step of this run
	}
	left, err := j.restore.unrestoredPrograms(ctx, point)
	return err != nil || slices.ContainsFunc(left, func(program string) bool {
		of, _, ok := records.ParseTaskName(program)
		return ok && of == key
	})
}

// isLaunchToRetry tells whether the failure of an srun, with its folder, is a failed launch of a step of the restored
// checkpoint, which the job's next run tries again.
func (f failedRun) isLaunchToRetry(ctx context.Context, key, dir string) bool {
	return f.j.isStepUnrestored(ctx, key) || srun.HasLaunchFailed(dir) && f.mayLaunchAgain(key)
}

// mayLaunchAgain tells whether a step that was restored may be launched once more by the job's next run: Slurm has failed the
// launch, as srun says, after the programs were back. A task may write the words of srun, and the next run would end as this
// one, so a job has records.MaxUnrestoredRuns such runs in all.
func (f failedRun) mayLaunchAgain(key string) bool {
	j := f.j
	point := j.run.Snapshot().Point
	if point == nil {
		return false
	}
	if tasks, err := point.Meta.StepTasks(key); err != nil || len(tasks) == 0 {
		return false // a step of this run: its script learns of the failure, as without us
	}
	may, run := false, j.run.Snapshot().Number
	err := j.run.ChangeRecord(j.c.records.Save, func(rec *records.Record) bool {
		if rec.FailedLaunches > 0 && rec.FailedLaunchRun == run { // another step of this run was counted
			may = true
			return false
		}
		if may = rec.FailedLaunches < records.MaxUnrestoredRuns; may {
			rec.FailedLaunches, rec.FailedLaunchRun = rec.FailedLaunches+1, run
		}
		return may
	})
	if err != nil {
		j.log.Error("cannot count the failed launches", "error", err)
	}
	return may && err == nil
}
