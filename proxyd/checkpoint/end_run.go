// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// jobEnds removes what ended runs and jobs leave behind, and requeues the jobs that are to run on.
// The type has no state: what is still to be done is in the jobs' records.
type jobEnds struct{ c *Conductor }

// runEnding waits, at the end of a job's run on this node, for what is still decided about the run.
type runEnding struct{ j *job }

// End is called by the epilog: Slurm has ended a run of a job on this node. It waits for a
// checkpoint in progress, so that the requeued job cannot start before the checkpoint exists.
// Then it removes the run.
func (c *Conductor) End(ctx context.Context, id uint32) error {
	j := c.jobs.findJob(id)
	if lc := c.leases.findBorrower(id); lc != nil {
		return c.leases.endLease(ctx, lc, id)
	}
	if j == nil {
		c.startBackground(func(ctx context.Context) { c.ends.settleUnstartedRun(ctx, id, false) })
		return nil
	}
	j.ending.awaitLeaderDecision(ctx)
	j.ending.awaitScriptEndEvent(ctx)
	if err := j.ending.awaitNoCheckpoint(ctx); err != nil {
		return err
	}
	j.capsulesMu.Lock()
	defer j.capsulesMu.Unlock()
	next := decisions.Resumes
	if j.isLeader() {
		next = j.ending.runEnd(ctx).Next()
		if err := j.ending.noteEnd(next); err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
	}
	snap := j.run.Snapshot()
	rec, run, nodes := snap.Record, snap.Number, slices.Clone(snap.Placement.Today)
	leads := rec != nil && snap.Placement.NodeOf(0) == c.Node
	again := statesToRequeue(snap.HasBeen(runs.Released), j.ending.progressOf(snap), next, c.OnTimeLimit)
	j.mu.Lock()
	asked := j.awaitsProtection
	j.mu.Unlock()
	outlasts := rec != nil && rec.RequeuedBy != ""
	if leads && len(again) == 0 && !outlasts {
		j.report.AddEvent(records.EventEnded, nodes, "")
	}
	if rec != nil {
		c.jobs.rememberEndedRun(id, run)
	} else {
		c.startBackground(func(ctx context.Context) { c.ends.settleUnstartedRun(ctx, id, asked) })
	}
	if err := j.removeRun(ctx); err != nil {
		return fmt.Errorf("job %d: %w", id, err)
	}
	c.jobs.forgetJob(id)
	if !leads {
		return nil
	}
	// In the background: the epilog need not wait for the shared folder.
	c.startBackground(func(ctx context.Context) {
		if err := c.ends.settleEndedRun(ctx, id, run, again); err != nil {
			c.Log.Error("clean up after the end of a run", "job", id, "error", err)
		}
	})
	return nil
}

// sweepEvery bounds the time for which an ended job stays on this node if its epilog called
// nobody: the plugin was missing, or did not know that a step of the job was protected.
const sweepEvery = time.Minute

// sweepPeriodically removes what ended jobs left on this node, until ctx is done.
func (c *Conductor) sweepPeriodically(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	cleaner := &endedJobsCleaner{c: c}
	defer cleaner.stopCleaning()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, j := range c.jobs.allJobs() {
			if j.ending.isAbandoned(ctx) {
				j.log.Warn("the job has ended without an epilog")
				if err := c.End(ctx, j.id); err != nil && ctx.Err() == nil {
					j.log.Error("remove an ended job", "error", err)
				}
			}
		}
		c.leases.endAbandoned(ctx)
		if err := c.uploads.DropUnneededShares(); err != nil && ctx.Err() == nil {
			c.Log.Warn("delete unneeded shares", "error", err)
		}
		if !cleaner.isElected() {
			continue
		}
		if err := cleaner.removeEnded(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.Log.Warn("remove ended jobs", "error", err)
		}
		if err := cleaner.forgetPast(time.Now()); err != nil {
			c.Log.Warn("remove time lines of jobs that are over", "error", err)
		}
	}
}

// isAbandoned tells whether Slurm runs neither a task nor an epilog of the job on this node any
// more, while this daemon still has capsules of the job, or was asked for a place and has given none:
// the epilog may be handled before the request of a task, if both come while the daemon is busy.
func (e runEnding) isAbandoned(ctx context.Context) bool {
	j := e.j
	for _, lc := range j.localCapsules() {
		programs, err := lc.capsule.Programs(ctx)
		if err == nil && len(programs) > 0 {
			return false
		}
	}
	j.mu.Lock()
	busy := j.ledAttempt != nil || len(j.capsules) == 0 && !j.awaitsProtection
	j.mu.Unlock()
	run := j.run.Snapshot().Number
	if busy || j.part.currentMembership() != nil || j.termination.CurrentState() == runs.TerminationDeciding {
		return false
	}
	s, err := j.c.Slurm.Show(ctx, jobName(j.id))
	if errors.Is(err, slurm.ErrNoJob) {
		return true
	}
	return err == nil && !s.Runs() && s.State != "COMPLETING" && (s.Restarts > run || !s.Waits())
}

// leaderDecisionTimeout is longer than Slurm lets a job's processes live after it has ended the
// job.
const leaderDecisionTimeout = 40 * time.Second

// awaitLeaderDecision waits until the leader has decided about the job. The epilog comes at once
// on a node without tasks, whose capsule may still be needed for the checkpoint; also for a
// checkpoint that the leader's daemon takes after a restart.
func (e runEnding) awaitLeaderDecision(ctx context.Context) {
	j := e.j
	snap := j.run.Snapshot()
	leads := snap.Record == nil || snap.Placement.NodeOf(0) == j.c.Node
	if leads {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaderDecisionTimeout)
	defer cancel()
	if err := j.c.callNodeRetrying(ctx, unreachableTimeout, j.leaderNode(), j.id, callAwaitDecision, empty{}, nil); err != nil && !errors.Is(err, ErrNoJob) {
		j.log.Info("the leader does not say whether the job is still needed", "error", err)
	}
}

// awaitDecisionHere returns, on the leader, when the job's end is decided or its batch script is
// gone.
func (e runEnding) awaitDecisionHere(ctx context.Context) error {
	j := e.j
	for j.c.jobs.findJob(j.id) == j {
		j.mu.Lock()
		lc := j.capsules[0]
		leads := j.ledAttempt != nil
		j.mu.Unlock()
		if j.termination.CurrentState() == runs.TerminationDecided && !leads || lc == nil {
			break
		}
		if !runsBatchScript(ctx, lc) {
			break
		}
		if !sleepUnlessDone(ctx, pollInterval) {
			return ctx.Err()
		}
	}
	return nil
}

// runsBatchScript tells whether the batch script runs in a capsule.
func runsBatchScript(ctx context.Context, lc *localCapsule) bool {
	programs, err := processes.RunningPrograms(ctx, lc.capsule)
	return err == nil && slices.ContainsFunc(programs, func(p capsule.Program) bool { return p.Name == records.BatchProgram })
}

// awaitNoCheckpoint waits until this node takes part in no checkpoint and handleTermination does
// not run.
func (e runEnding) awaitNoCheckpoint(ctx context.Context) error {
	j := e.j
	for {
		j.mu.Lock()
		lead := j.ledAttempt
		j.mu.Unlock()
		busy := j.part.currentMembership() != nil || j.termination.CurrentState() == runs.TerminationDeciding
		switch {
		case lead != nil:
			select {
			case <-lead.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		case busy:
			// Another node leads. Its call, or the leader timeout, ends the membership.
			select {
			case <-time.After(pollInterval):
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			return nil
		}
	}
}

const pollInterval = 50 * time.Millisecond

// settleEndedRun waits for Slurm's last word about an ended run. If the job is over, it removes
// what the job has on the shared folder; if the job waits to run again, everything stays; if the
// job is in one of the states again, the job is requeued.
func (e jobEnds) settleEndedRun(ctx context.Context, id uint32, run int, again []string) error {
	c := e.c
	for wait := settleFirstWait; ; wait = min(2*wait, settleLongestWait) {
		s, err := c.Slurm.Show(ctx, jobName(id))
		if errors.Is(err, slurm.ErrNoJob) {
			return e.deleteJob(ctx, id)
		}
		switch {
		case err != nil: // slurmctld will answer later
			c.Log.Warn("clean up after the end of a run", "job", id, "error", err)
		case s.Restarts > run || s.Waits():
			return nil
		case len(again) > 0 && s.Runs(): // Slurm will notice the end
		case s.Runs():
			return nil
		case s.State == "COMPLETING": // Slurm sends no notice of the end
		case slices.Contains(again, s.State):
			return e.requeueUnrestored(ctx, id, s)
		case s.State == "COMPLETED":
			return e.deleteJob(ctx, id)
		case s.State == stateTimeout || s.State == "PREEMPTED":
			return e.keepCheckpoints(id) // to be requeued; else GC deletes the checkpoints by age
		default:
			// Failed or cancelled: a person may want the checkpoints.
			return errors.Join(c.Pool.Give(ctx, jobName(id)), e.deleteRecord(id))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keepCheckpoints makes a job that is over resume from its newest checkpoint if a person requeues it.
func (e jobEnds) keepCheckpoints(id uint32) error {
	c := e.c
	rec, err := c.records.Load(id)
	if err != nil || rec == nil || !rec.BeginAnew {
		return err
	}
	rec.BeginAnew = false
	return c.records.Save(rec)
}

const (
	settleFirstWait   = 200 * time.Millisecond
	settleLongestWait = 10 * time.Second
)

// deleteJob deletes a job's checkpoints, addresses and record.
func (e jobEnds) deleteJob(ctx context.Context, id uint32) error {
	c := e.c
	return errors.Join(e.deleteCheckpoints(ctx, id), c.Pool.Give(ctx, jobName(id)), e.deleteRecord(id))
}

// deleteRecord deletes a job's record and the files beside it, and keeps the time line for people. A
// second call is harmless.
func (e jobEnds) deleteRecord(id uint32) error {
	c := e.c
	rec, err := c.records.Load(id)
	if err == nil && rec != nil {
		err = c.timeline.KeepPast(rec)
	}
	err = errors.Join(err, c.records.RemoveScript(id))
	return errors.Join(err, c.uploads.RemoveEnded(id), c.records.RemoveChangedFiles(id), c.records.Remove(id), c.timeline.Remove(id))
}

// deleteCheckpoints deletes a job's checkpoints.
func (e jobEnds) deleteCheckpoints(ctx context.Context, id uint32) error {
	c := e.c
	if err := c.uploads.Abandon(ctx, id); err != nil {
		return err
	}
	job := c.storeJob(id)
	all, err := c.Store.List(ctx, &job)
	for _, s := range all {
		err = errors.Join(err, e.deleteCheckpoint(ctx, s.ID))
	}
	return err
}

// deleteExpired deletes checkpoints of a running job by the retention rule.
func (e jobEnds) deleteExpired(ctx context.Context, id uint32) error {
	c := e.c
	job := c.storeJob(id)
	all, err := c.Store.List(ctx, &job)
	if err != nil {
		return err
	}
	keep := c.Keep
	keep.Needs = c.IsNeededAsBase
	for _, old := range keep.Expired(time.Now(), all) {
		err = errors.Join(err, e.deleteUnlessBase(ctx, old))
	}
	return err
}

// deleteUnlessBase deletes a checkpoint unless a newer checkpoint has become dependent on it
// meanwhile.
func (e jobEnds) deleteUnlessBase(ctx context.Context, id store.ID) error {
	c := e.c
	return c.uploads.UnlessBase(id, func() error { return e.deleteCheckpoint(ctx, id) })
}

func (e jobEnds) deleteCheckpoint(ctx context.Context, id store.ID) error {
	c := e.c
	err := c.Store.Delete(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
