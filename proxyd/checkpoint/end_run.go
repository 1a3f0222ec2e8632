// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// End is told by the epilog that Slurm has ended a run of a job on this node. It waits
// for a checkpoint that is being made, so that a requeued job cannot start before it is
// there.
func (c *Conductor) End(ctx context.Context, id uint32) error {
	j := c.findJob(id)
	if j == nil {
		c.startBackground(func(ctx context.Context) { c.settleUnstartedRun(ctx, id) })
		return nil
	}
	j.awaitLeaderDecision(ctx)
	j.awaitScriptEndEvent(ctx)
	if err := j.awaitNoCheckpoint(ctx); err != nil {
		return err
	}
	j.capsulesMu.Lock()
	defer j.capsulesMu.Unlock()
	j.mu.Lock()
	rec, run, left := j.rec, j.run, j.released
	leads := rec != nil && j.placement.nodeOf(0) == c.Node
	again := statesToRequeue(left, j.endsBeforeRestore())
	nodes, outlasts := slices.Clone(j.placement.today), rec != nil && rec.RequeuedBy != ""
	j.mu.Unlock()
	if leads && len(again) == 0 && !outlasts {
		j.addEvent(eventEnded, nodes, "")
	}
	if rec != nil {
		c.rememberEndedRun(id, run)
	} else {
		c.startBackground(func(ctx context.Context) { c.settleUnstartedRun(ctx, id) })
	}
	if err := j.removeRun(ctx); err != nil {
		return fmt.Errorf("job %d: %w", id, err)
	}
	c.forgetJob(id)
	if !leads {
		return nil
	}
	// What the job leaves on the shared folder does not hold up its end.
	c.startBackground(func(ctx context.Context) {
		if err := c.settleEndedRun(ctx, id, run, again); err != nil {
			c.Log.Error("after the end", "job", id, "error", err)
		}
	})
	return nil
}

// statesToRequeue returns the states in which a job is not over, whatever Slurm thinks. left:
// the run was released because Slurm was to run the job again, and Slurm may take the end
// of the wardens for the job's own (a slurmctld that died at that moment may not know
// better). cut: the run was cut short.
func statesToRequeue(left, cut bool) []string {
	switch {
	case left:
		return []string{"COMPLETED", "FAILED", "NODE_FAIL"}
	case cut:
		return []string{"FAILED", "NODE_FAIL"}
	}
	return nil
}

// settleUnstartedRun looks after a job whose run was over before any task of it had come here: it
// was cut short, if this is where it was to begin.
func (c *Conductor) settleUnstartedRun(ctx context.Context, id uint32) {
	rec, err := c.records.load(id)
	if err == nil && rec == nil {
		return
	}
	var s *slurm.Job
	if err == nil {
		s, err = c.Slurm.Show(ctx, jobName(id))
	}
	if err == nil && s.BatchHost == c.Node && !c.hasRunEnded(id, s.Restarts) && s.Restarts > 0 {
		err = c.settleEndedRun(ctx, id, s.Restarts, statesToRequeue(false, true))
	}
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		c.Log.Warn("after the end of a run that never began", "job", id, "error", err)
	}
}

// endsBeforeRestore says that the run ends before its batch script was brought back. So nothing in
// it was the job's own doing: its end is none of the job's either. Slurm does that to a run
// on a node that died a moment ago, when it ends the run before once more. Caller holds j.mu.
func (j *job) endsBeforeRestore() bool {
	lc := j.capsules[0]
	switch {
	case j.rec == nil || j.rec.ScriptStatus != nil || j.givenUp:
		return false
	case lc == nil:
		return j.resumePoint != nil
	}
	return slices.Contains(lc.note.ProgramsToRestore, batchProgram)
}

// sweepEvery is how long what a job leaves here may stay when its epilog told nobody: the
// plugin was not there, or did not know that a step of the job was protected.
const sweepEvery = time.Minute

// sweepPeriodically ends what jobs have left here. It runs until ctx is done.
func (c *Conductor) sweepPeriodically(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	cleaner := &endedJobsCleaner{c: c}
	defer cleaner.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, j := range c.allJobs() {
			if j.isAbandoned(ctx) {
				j.log.Warn("the job has left without a word")
				if err := c.End(ctx, j.id); err != nil && ctx.Err() == nil {
					j.log.Error("clear away", "error", err)
				}
			}
		}
		if err := c.dropUnneededShares(); err != nil && ctx.Err() == nil {
			c.Log.Warn("the stage", "error", err)
		}
		if !cleaner.isElected() {
			continue
		}
		if err := cleaner.removeEnded(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.Log.Warn("jobs that are over", "error", err)
		}
	}
}

// isAbandoned says that Slurm runs nothing of a job here any more, neither a task nor an
// epilog, while we do.
func (j *job) isAbandoned(ctx context.Context) bool {
	for _, lc := range j.localCapsules() {
		programs, err := lc.capsule.Programs(ctx)
		if err == nil && len(programs) > 0 {
			return false
		}
	}
	j.mu.Lock()
	run, busy := j.run, j.ledAttempt != nil || j.membership != nil || j.deciding || len(j.capsules) == 0
	j.mu.Unlock()
	if busy {
		return false
	}
	s, err := j.c.Slurm.Show(ctx, jobName(j.id))
	if errors.Is(err, slurm.ErrNoJob) {
		return true
	}
	return err == nil && !s.Runs() && s.State != "COMPLETING" && (s.Restarts > run || !s.Waits())
}

// leaderDecisionTimeout is longer than Slurm lets a job's processes live after it has ended the job.
const leaderDecisionTimeout = 40 * time.Second

// awaitLeaderDecision waits until the leader has decided about the job. A node on which no task ran
// when Slurm ended the job comes here at once, and its capsule may be wanted for the
// checkpoint; also for the one that the leader's daemon takes when it was started again.
func (j *job) awaitLeaderDecision(ctx context.Context) {
	j.mu.Lock()
	leads := j.rec == nil || j.placement.nodeOf(0) == j.c.Node
	j.mu.Unlock()
	if leads {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaderDecisionTimeout)
	defer cancel()
	if err := j.c.callNodeRetrying(ctx, unreachableTimeout, j.leaderNode(), j.id, callAwaitDecision, empty{}, nil); err != nil && !errors.Is(err, ErrNoJob) {
		j.log.Info("the leader has no word about the job's end", "error", err)
	}
}

// awaitDecisionHere is the leader's answer: when the job's fate is decided, or its batch script
// is gone.
func (j *job) awaitDecisionHere(ctx context.Context, _ store.ID, _ empty) (empty, error) {
	for j.c.findJob(j.id) == j {
		j.mu.Lock()
		lc := j.capsules[0]
		decided := j.endDecided && j.ledAttempt == nil && !j.deciding
		j.mu.Unlock()
		if decided || lc == nil {
			break
		}
		if !runsBatchScript(ctx, lc) {
			break
		}
		if !sleepUnlessDone(ctx, pollInterval) {
			return empty{}, ctx.Err()
		}
	}
	return empty{}, nil
}

// runsBatchScript says whether a capsule's batch script is there.
func runsBatchScript(ctx context.Context, lc *localCapsule) bool {
	programs, err := runningPrograms(ctx, lc.capsule)
	return err == nil && slices.ContainsFunc(programs, func(p capsule.Program) bool { return p.Name == batchProgram })
}

// awaitNoCheckpoint waits until no checkpoint is in progress here, and nobody decides about one.
func (j *job) awaitNoCheckpoint(ctx context.Context) error {
	for {
		j.mu.Lock()
		lead, busy := j.ledAttempt, j.membership != nil || j.deciding
		j.mu.Unlock()
		switch {
		case lead != nil:
			select {
			case <-lead.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		case busy:
			// Another node leads; its word, or its silence, ends it within lapse.
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

// settleEndedRun removes what a job that is over has on the shared folder. A job that waits to
// run again keeps all of it, and one that is in a state of again is made to.
func (c *Conductor) settleEndedRun(ctx context.Context, id uint32, run int, again []string) error {
	for wait := settleFirstWait; ; wait = min(2*wait, settleLongestWait) {
		s, err := c.Slurm.Show(ctx, jobName(id))
		if errors.Is(err, slurm.ErrNoJob) {
			return c.deleteJob(ctx, id)
		}
		switch {
		case err != nil: // slurmctld will be back
			c.Log.Warn("after the end", "job", id, "error", err)
		case s.Restarts > run || s.Waits():
			return nil
		case len(again) > 0 && s.Runs(): // it will learn
		case s.Runs():
			return nil
		case s.State == "COMPLETING": // nobody tells when it has
		case slices.Contains(again, s.State):
			return c.requeueUnrestored(ctx, id, s.String())
		case s.State == "COMPLETED":
			return c.deleteJob(ctx, id)
		case s.State == "TIMEOUT" || s.State == "PREEMPTED":
			return nil // to be requeued; else collected by age
		default:
			// Failed or cancelled: what there is may be wanted.
			return errors.Join(c.Pool.Give(ctx, jobName(id)), c.deleteRecord(id))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// maxUnrestoredRuns is how many runs in a row may end before they are whole; then a person must look.
const maxUnrestoredRuns = 3

// requeueUnrestored requeues a job that Slurm takes to be over.
func (c *Conductor) requeueUnrestored(ctx context.Context, id uint32, name string) error {
	rec, err := c.records.load(id)
	if err != nil || rec == nil {
		return errors.Join(err, ErrNoJob)
	}
	rec.UnrestoredRuns++
	if err := c.records.save(rec); err != nil {
		return err
	}
	if rec.UnrestoredRuns <= maxUnrestoredRuns {
		return c.Slurm.Requeue(ctx, name)
	}
	err = c.writeComment(ctx, name, commentHeld+fmt.Sprintf("%d runs in a row ended before the job was restored", rec.UnrestoredRuns))
	return errors.Join(err, c.Slurm.RequeueHold(ctx, name))
}

const (
	settleFirstWait   = 200 * time.Millisecond
	settleLongestWait = 10 * time.Second
)

// deleteJob removes everything of a job.
func (c *Conductor) deleteJob(ctx context.Context, id uint32) error {
	return errors.Join(c.deleteCheckpoints(ctx, id), c.Pool.Give(ctx, jobName(id)), c.deleteRecord(id))
}

// deleteRecord removes a job's record. It may be called twice.
func (c *Conductor) deleteRecord(id uint32) error {
	err := os.Remove(c.scriptPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	up, e := c.uploads.load(id)
	if up != nil && up.Lost != "" { // else it removes itself when it has arrived
		e = c.uploads.removeAll(id)
	}
	return errors.Join(err, e, c.uploads.removeRecord(id, pledgeSuffix), c.removeSharedJournals(id), c.records.remove(id), c.removeTimeline(id))
}

// deleteCheckpoints deletes a job's checkpoints.
func (c *Conductor) deleteCheckpoints(ctx context.Context, id uint32) error {
	if err := c.abandonUpload(ctx, id); err != nil {
		return err
	}
	job := c.storeJob(id)
	all, err := c.Store.List(ctx, &job)
	for _, s := range all {
		err = errors.Join(err, c.deleteCheckpoint(ctx, s.ID))
	}
	return err
}

// deleteExpired deletes the checkpoints that a job that runs on does not need any more.
func (c *Conductor) deleteExpired(ctx context.Context, id uint32) error {
	job := c.storeJob(id)
	all, err := c.Store.List(ctx, &job)
	if err != nil {
		return err
	}
	keep := c.Keep
	keep.Needs = c.IsNeededAsBase
	for _, old := range keep.Expired(time.Now(), all) {
		err = errors.Join(err, c.deleteUnlessBase(ctx, old))
	}
	return err
}

// deleteUnlessBase deletes a checkpoint unless another one was made upon it meanwhile: either that one's pledge sees that this one is gone, or
// it is seen here.
func (c *Conductor) deleteUnlessBase(ctx context.Context, id store.ID) error {
	c.uploads.mu.Lock()
	defer c.uploads.mu.Unlock()
	if c.IsNeededAsBase(id) {
		return nil
	}
	return c.deleteCheckpoint(ctx, id)
}

func (c *Conductor) deleteCheckpoint(ctx context.Context, id store.ID) error {
	err := c.Store.Delete(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
