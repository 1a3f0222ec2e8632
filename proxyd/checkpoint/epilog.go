// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/ends"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// runEnding waits, at the end of a job's run on this node, until pending decisions about the run are made.
type runEnding struct{ j *job }

// End is called by the epilog: Slurm has ended a run of a job on this node. It waits for a
// checkpoint in progress, so that the requeued job cannot start before the checkpoint exists.
// Then it removes the run.
func (c *Conductor) End(ctx context.Context, id uint32) error {
	if to := c.leases.findBorrower(id); to != nil {
		return c.leases.endLease(ctx, to, id)
	}
	j := c.jobs.findJob(id)
	if j == nil {
		c.settleUnstartedRun(id, false)
		return nil
	}
	j.ending.awaitLeaderDecision(ctx)
	j.ending.awaitScriptEndEvent(ctx)
	if err := j.ending.awaitNoCheckpoint(ctx); err != nil {
		return err
	}
	j.capsulesMu.Lock()
	defer j.capsulesMu.Unlock()
	ended, err := j.ending.concludeRun(ctx)
	if err != nil {
		return fmt.Errorf("job %d: %w", id, err)
	}
	if ended.known {
		c.jobs.rememberEndedRun(id, ended.number)
	} else {
		c.settleUnstartedRun(id, ended.awaitedProtection)
	}
	if err := j.removeRun(ctx); err != nil {
		return fmt.Errorf("job %d: %w", id, err)
	}
	c.jobs.forgetJob(id)
	if ended.led {
		c.settleEndedRun(id, ended)
	}
	return nil
}

// runConclusion is what must be known of a run once its capsules are removed from this node.
type runConclusion struct {
	number            int
	known             bool                // the run was looked up in Slurm
	led               bool                // this node has led the run
	awaitedProtection bool                // a task has asked to be admitted, and Slurm was not asked about the run yet
	statesToRequeue   []string            // see decisions.StatesToRequeue
	interruption      ends.InterruptedRun // "": none
	cut               bool                // see decisions.RunEnd.IsCut
	scriptKilled      bool                // of a run that was cut: its batch script ran, and was killed
	at                time.Time           // of the end
}

// concludeRun says how a run has ended on this node. The leader notes in the job's record how the next run begins, and
// in the time line that the run has ended. Caller holds capsulesMu, and the run's capsules are there.
func (e runEnding) concludeRun(ctx context.Context) (runConclusion, error) {
	j := e.j
	next, howEnded, end := decisions.Resumes, "", decisions.RunEnd{}
	if j.isLeader() {
		end = e.describeEnd(ctx)
		next, howEnded = end.Next(), end.DescribeOwnRequeue()
		if err := e.noteNextRun(ctx, next); err != nil {
			return runConclusion{}, err
		}
	}
	snap := j.run.Snapshot()
	rec, progress, released := snap.Record, e.progressOf(snap), snap.HasBeen(runs.Released)
	ended := runConclusion{
		number: snap.Number, known: rec != nil, led: rec != nil && snap.Placement.NodeOf(0) == j.c.Node,
		statesToRequeue: decisions.StatesToRequeue(released, progress, next, j.c.OnTimeLimit),
		cut:             end.IsCut(), scriptKilled: end.ScriptEnded, at: time.Now(),
	}
	if progress == decisions.Unrestored && !released {
		ended.interruption = ends.RestoreInterrupted
	}
	j.mu.Lock()
	ended.awaitedProtection = j.awaitsProtection
	j.mu.Unlock()
	awaitsRequeue := rec != nil && rec.RequeuedBy != ""
	if ended.led && len(ended.statesToRequeue) == 0 && !awaitsRequeue {
		j.report.AddEvent(records.EventEnded, slices.Clone(snap.Placement.ThisRun), howEnded)
	}
	return ended, nil
}

// settleUnstartedRun handles, in the background, a run of which this node knows nothing from Slurm. asked: a task of the
// run has asked to be admitted.
func (c *Conductor) settleUnstartedRun(id uint32, asked bool) {
	c.startBackground(func(ctx context.Context) { c.newEnds().SettleUnstartedRun(ctx, id, asked) })
}

// settleEndedRun asks Slurm what follows a run that this node has led. In the background: the epilog need not wait for
// the shared folder.
func (c *Conductor) settleEndedRun(id uint32, ended runConclusion) {
	cut := ends.CutRun{Job: id, Number: ended.number, Ended: ended.at, Killed: ended.scriptKilled}
	c.startBackground(func(ctx context.Context) {
		err := c.newEnds().SettleEndedRun(ctx, id, ended.number, ended.statesToRequeue, ended.interruption)
		if err == nil && ended.cut {
			err = c.newEnds().RequeueRefusedLaunch(ctx, cut)
		}
		if err != nil {
			c.Log.Error("cannot clean up after the end of a run", "job", id, "error", err)
		}
	})
}

// describeEnd returns how this run of a job has ended. Only the leader knows that. It must be called
// while the run's capsules are there.
func (e runEnding) describeEnd(ctx context.Context) decisions.RunEnd {
	j := e.j
	j.mu.Lock()
	lc := j.capsules[0]
	j.mu.Unlock()
	snap := j.run.Snapshot()
	end := decisions.RunEnd{
		Released: snap.HasBeen(runs.Released), Terminated: snap.HasBeen(runs.Terminated), GivenUp: snap.HasBeen(runs.GivenUp), RequeuedItself: snap.HasBeen(runs.RequeuedItself),
		ResumedOwnRequeue: snap.Point != nil && snap.Point.Meta.Itself,
	}
	if lc == nil {
		return end
	}
	all, err := lc.capsule.Ended(ctx)
	if err != nil {
		return end
	}
	end.Status, end.ScriptEnded = all[records.BatchProgram]
	if end.ScriptEnded && end.Next() != decisions.Resumes {
		end.NodeLost = e.hasLostNode(ctx)
	}
	return end
}

// hasLostNode tells whether a node of the run stays without an answer. A script that lost a node may have ended for
// that, and not by its own doing. A daemon that is restarting has not lost its job.
func (e runEnding) hasLostNode(ctx context.Context) bool {
	j := e.j
	for _, node := range j.run.Snapshot().Placement.ThisRun {
		if node == j.c.Node {
			continue
		}
		_, err := callNodeRetrying(ctx, j.c, unreachableTimeout, node, j.id, calls.Unrestored, calls.Empty{})
		if errors.Is(err, ErrAway) {
			return true
		}
	}
	return false
}

// noteNextRun notes in the job's record that the next run is to begin anew, before Slurm can begin it. If Slurm has
// given up this run and a newer one goes on, the end of this run says nothing about the next, and is not noted.
func (e runEnding) noteNextRun(ctx context.Context, n decisions.NextRun) error {
	j := e.j
	if n == decisions.Resumes || errors.Is(runFence{j}.checkNewestRun(ctx), errOldRun) {
		return nil
	}
	return j.run.ChangeRecord(j.c.records.Save, func(rec *records.Record) bool {
		changed := !rec.BeginAnew
		rec.BeginAnew = true
		return changed
	})
}

// sweepEvery bounds the time for which an ended job stays on this node if its epilog did not call the daemon: the
// plugin was missing, or did not know that a step of the job was protected.
const sweepEvery = time.Minute

// sweepPeriodically removes the remains of ended jobs from this node, until ctx is done.
func (c *Conductor) sweepPeriodically(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	cleaner := &ends.Cleaner{Ends: c.newEnds()}
	defer cleaner.Stop()
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
					j.log.Error("cannot remove an ended job", "error", err)
				}
			}
		}
		c.leases.endAbandoned(ctx)
		if err := c.uploads.DropUnneededShares(); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot delete unneeded shares", "error", err)
		}
		if !cleaner.IsElected() {
			continue
		}
		if err := cleaner.SettleJobs(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot settle jobs without a leader", "error", err)
		}
		if err := cleaner.ForgetPast(time.Now()); err != nil {
			c.Log.Warn("cannot remove time lines of jobs that are over", "error", err)
		}
	}
}

// isAbandoned tells whether Slurm runs neither a task nor an epilog of the job on this node any more, while this daemon
// still has capsules of the job, or was asked to admit a task and has not answered: the epilog may be handled before the
// request of a task, if both come while the daemon is busy.
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
	if busy || j.participant.currentMembership() != nil || j.termination.CurrentState() == runs.TerminationDeciding {
		return false
	}
	s, err := j.c.Slurm.Show(ctx, slurm.JobName(j.id))
	if errors.Is(err, slurm.ErrNoJob) {
		return true
	}
	return err == nil && !s.Runs() && s.State != "COMPLETING" && (s.Restarts > run || !s.Waits())
}

// leaderDecisionTimeout is longer than Slurm lets a job's processes live after it has ended the
// job.
const leaderDecisionTimeout = 40 * time.Second

// awaitLeaderDecision waits until the leader has decided about the job. The epilog comes at once
// on a node without tasks, but its capsule may still be needed for the checkpoint; also for a
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
	_, err := callNodeRetrying(ctx, j.c, unreachableTimeout, j.leaderNode(), j.id, calls.AwaitDecision, calls.Empty{})
	if err != nil && !errors.Is(err, rpc.ErrNotHere) {
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
		if !waits.SleepUnlessDone(ctx, pollInterval) {
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
		busy := j.participant.currentMembership() != nil || j.termination.CurrentState() == runs.TerminationDeciding
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

// progressOf says how far the run has come. Before its batch script is restored the job itself has done no work in the
// run, so its exit status has no meaning: Slurm ends such a run for a node that died a moment ago.
func (e runEnding) progressOf(snap runs.Snapshot) decisions.Progress {
	j := e.j
	j.mu.Lock()
	defer j.mu.Unlock()
	lc := j.capsules[0]
	switch {
	case snap.Record == nil || snap.HasBeen(runs.GivenUp):
		return decisions.Ran
	case lc == nil && snap.Point != nil:
		return decisions.Unrestored
	case lc == nil:
		return decisions.Unstarted
	case slices.Contains(lc.note.ProgramsToRestore, records.BatchProgram):
		return decisions.Unrestored
	case lc.note.RunEnv == nil: // read when the script starts
		return decisions.Unstarted
	}
	return decisions.Ran
}

// newEnds returns the Ends that removes the files of ended runs and jobs.
func (c *Conductor) newEnds() ends.Ends {
	return ends.Ends{
		Node: c.Node, Cluster: c.Cluster, OnTimeLimit: c.OnTimeLimit, Retention: c.Retention, KeepPast: c.KeepPast,
		Slurm: c.Slurm, Store: c.Store, Addresses: c.Pool, Records: c.records, Timeline: c.timeline, Meter: c.Meter,
		Uploads: c.uploads, Relay: c.Relay, Jobs: &c.jobs, Capsules: nodeCapsules{c}, StartBackground: c.startBackground, Log: c.Log,
	}
}
