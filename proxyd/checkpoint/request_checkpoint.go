// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// errNothingHere returns the error for a job without programs on this node. A protected job has
// lost them, for example by a power failure: Slurm will notice that and run the job again.
func (c *Conductor) errNothingHere(id uint32) error {
	if rec, err := c.records.Load(id); err == nil && rec != nil {
		return fmt.Errorf("job %d: %w, %s, and Slurm has not noticed: %w", id, errNothingLeft, c.Node, ErrNoJob)
	}
	if c.leases.findBorrower(id) != nil {
		return c.leases.noJob(id)
	}
	return fmt.Errorf("job %d has no programs on node %s: %w", id, c.Node, ErrNoJob)
}

// Waiting is the phase that TakeCheckpoint reports while an upload of the previous checkpoint
// delays the new one.
const Waiting = "waiting"

// TakeCheckpoint takes a checkpoint of a running job and returns its ID. progress gets the phase;
// once that is not Waiting, the checkpoint goes on even if ctx ends. holdAfterwards: the caller requeues
// the job next. Then the job stays frozen until the requeue, and a staged checkpoint is enough.
// holdAfterwards works only on the node that leads: elsewhere the call returns when the checkpoint is in
// the store, and the job may run on before that.
func (c *Conductor) TakeCheckpoint(ctx context.Context, job, reason string, holdAfterwards bool, progress func(phase string, done, total int64)) (store.ID, error) {
	id, err := parseJobName(job)
	if err != nil {
		return store.ID{}, err
	}
	j := c.jobs.findJob(id)
	if j == nil || len(j.localCapsules()) == 0 {
		return store.ID{}, c.errNothingHere(id)
	}
	if !holdAfterwards {
		if err := c.uploads.Wait(ctx, id, func() { progress(Waiting, 0, 0) }); err != nil {
			return store.ID{}, err
		}
	}
	progress(calls.PhasePrepare, 0, int64(len(phases)))
	tell := func(phase string) { progress(phase, int64(slices.Index(Phases(), phase)), int64(len(phases))) }
	a, err := c.requestCheckpoint(ctx, j, decisions.Request{After: decisions.StaysOnNodes, Reason: reason, HoldAfterwards: holdAfterwards}, tell)
	if err != nil {
		if errors.Is(err, ErrAway) {
			err = fmt.Errorf("%w; the job runs on (what stands still there, when its proxyd is back)", err)
		}
		if ctx.Err() == nil { // else the caller has left, and the attempt goes on
			j.report.SetComment(fmt.Sprintf(reports.NoCheckpoint+"%s: %v", time.Now().Format(time.TimeOnly), err))
		}
		return store.ID{}, err
	}
	if holdAfterwards && a != nil {
		progress(calls.PhaseCommit, int64(len(phases)), int64(len(phases)))
		return a.id, nil
	}
	lost, err := c.uploads.AwaitStoredOrLost(ctx, id, j.submittedAt(), 0, func(_ *upload.Record, w *upload.Watch) { progress(upload.Step, w.Done, w.Total) })
	if err == nil && lost != nil && (a == nil || lost.IsSame(a.upload)) {
		err = fmt.Errorf("checkpoint %d: it was lost before it was in the store: %s", lost.Number, lost.Lost)
	}
	if err == nil && lost == nil && a != nil && a.staged {
		var there bool
		if there, err = c.uploads.IsInStore(ctx, a.upload); err == nil && !there {
			err = fmt.Errorf("checkpoint %d: the job has ended before it was in the store", a.id.Number)
		}
	}
	if err != nil {
		return store.ID{}, err
	}
	progress(calls.PhaseCommit, int64(len(phases)), int64(len(phases)))
	if a == nil { // another node leads
		job := store.PlainJob(c.Cluster, id)
		all, err := c.Store.List(ctx, &job)
		if err != nil || len(all) == 0 {
			return store.ID{}, err
		}
		return slices.MaxFunc(all, func(a, b store.Summary) int { return int(a.ID.Number) - int(b.ID.Number) }).ID, nil
	}
	return a.id, nil
}

// requestCheckpoint starts a checkpoint, or joins the attempt in progress, and returns when the
// attempt is over (with HoldAfterwards: when the checkpoint is committed). The job is released
// afterwards if request.After says so. It may be called on any node of the job; on a node
// that does not lead, the returned attempt is nil, and tell is not called.
func (c *Conductor) requestCheckpoint(ctx context.Context, j *job, request decisions.Request, tell func(phase string)) (*attempt, error) {
	if leader := j.leaderNode(); leader != c.Node {
		_, err := callNodeRetrying(ctx, c, unreachableTimeout, leader, j.id, calls.RequestCheckpoint, request)
		return nil, err
	}
	if !request.After.LeavesNodes() && !request.HoldAfterwards { // A finished upload of the previous checkpoint is worth more than a new checkpoint. A job that leaves its nodes cannot wait.
		if err := c.uploads.Wait(ctx, j.id, func() {}); err != nil {
			return nil, err
		}
	}
	for {
		a, tooLate := c.startOrJoinAttempt(j, request)
		if a == nil {
			return nil, nil
		}
		end := a.done
		if request.HoldAfterwards && !tooLate {
			end = a.committed
		}
		if err := a.awaitEnd(ctx, end, tell); err != nil {
			return a, err
		}
		switch {
		case tooLate:
		case request.HoldAfterwards:
			return a, a.captureErr
		default:
			return a, a.err
		}
	}
}

// startOrJoinAttempt starts an attempt, or joins the attempt in progress. tooLate means that the
// attempt in progress already lets the job run on, although the request wants the job to leave or to stay
// frozen. It returns nil for a run that is already released: a node that could not reach the
// leader in time may ask after the release.
func (c *Conductor) startOrJoinAttempt(j *job, request decisions.Request) (a *attempt, tooLate bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.run.Snapshot().HasBeen(runs.Released) {
		return nil, false
	}
	if a = j.ledAttempt; a == nil {
		a = &attempt{
			j: j, reason: request.Reason, outcome: decisions.NewOutcome(request), began: time.Now(),
			committed: make(chan struct{}), done: make(chan struct{}), phaseChanged: make(chan struct{}),
		}
		j.ledAttempt = a
		c.startBackground(a.run)
		return a, false
	}
	return a, a.outcome.JoinRequest(request)
}

// awaitEnd waits for the end of the attempt that end stands for, and calls tell for each phase meanwhile, from the present phase on.
func (a *attempt) awaitEnd(ctx context.Context, end <-chan struct{}, tell func(phase string)) error {
	for shown := ""; ; {
		phase, _, changed := a.currentPhase()
		if phase != shown {
			tell(phase)
			shown = phase
		}
		select {
		case <-end:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ignorePhase is for requestCheckpoint where no person waits for the checkpoint.
func ignorePhase(string) {}

// RunOn ends the wait of a job for a requeue that will not come.
func (c *Conductor) RunOn(job string) error {
	id, err := parseJobName(job)
	if err != nil {
		return err
	}
	j := c.jobs.findJob(id)
	if j == nil {
		return ErrNoJob
	}
	j.mu.Lock()
	a := j.ledAttempt
	j.mu.Unlock()
	if a != nil {
		a.outcome.RunOn()
	}
	return nil
}
