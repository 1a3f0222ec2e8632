// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// finish carries out the outcome after a commit: the job runs on, or leaves its nodes.
func (a *attempt) finish(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	j := a.j
	defer a.releaseReservation(ctx) // in the background of the job: the store may be slow
	defer func() {
		if err := withDeadline(ctx, finishDeadline, a, (*attempt).resumeDevices); err != nil {
			a.log.Info("resume devices", "error", err)
		}
	}()
	then, exit := a.outcome.WhatFollows()
	rec := *j.run.SavedRecord()
	a.saveDeparture(then, &rec)
	follows := calls.Resume
	if then.LeavesNodes() {
		follows = calls.Release
	}
	a.log.Debug("step begins", "step", follows)
	if then == decisions.LeavesForPreemption {
		// Before the batch script ends, because its end would end the job.
		if err := withDeadline(ctx, finishDeadline, a, (*attempt).requeuePreempted); err != nil {
			return errors.Join(err, withDeadline(ctx, finishDeadline, a, (*attempt).resumeJob))
		}
	}
	if then.LeavesNodes() {
		if then != decisions.LeavesAtTimeLimit {
			j.setState(runs.Released)
		}
		a.releaseNodes(ctx)
		j.report.AddEvent(records.EventReleased, a.nodes, exit)
	} else if err := withDeadline(ctx, finishDeadline, a, (*attempt).resumeJob); err != nil {
		return fmt.Errorf("job %d: after checkpoint %d: %w", j.id, a.id.Number, err)
	}
	if !a.staged {
		if err := j.c.newEnds().DeleteExpired(ctx, j.id); err != nil {
			a.log.Warn("cannot delete older checkpoints", "error", err)
		}
	}
	if then == decisions.LeavesAtTimeLimit {
		// Slurm accepts a requeue only when every node is done with the job.
		j.c.startBackground(func(ctx context.Context) { j.c.newEnds().RequeueAfterTimeLimit(ctx, rec) })
	}
	return nil
}

// saveDeparture records, before the job's processes end, that the job leaves its nodes after this checkpoint: in the job's
// record if its time limit is the reason, and in the upload's record.
func (a *attempt) saveDeparture(then decisions.Departure, rec *records.Record) {
	c := a.j.c
	if then == decisions.LeavesAtTimeLimit {
		// From now on the job is requeued, also if this daemon dies.
		rec.RequeuedBy = c.Node
		if err := c.records.Save(rec); err != nil {
			a.log.Error("cannot save the job's record", "error", err)
		}
	}
	if a.staged && then.LeavesNodes() && !a.upload.Released { // The release was requested while the checkpoint was in progress.
		a.upload.Released = true
		if err := c.uploads.Change(a.upload, func(now *upload.Record) bool { now.Released = true; return true }); err != nil {
			a.log.Error("cannot save the upload's record", "error", err)
		}
	}
}

// releaseNodes has all nodes of the job end its processes. A node that does not answer releases its capsules later
// (resolveOrphaned), or loses them with its end. The checkpoint exists, so an error here is no error of the checkpoint.
func (a *attempt) releaseNodes(ctx context.Context) {
	err := withDeadline(ctx, finishDeadline, a, func(a *attempt, ctx context.Context) error {
		return a.callEveryNode(ctx, calls.Release)
	})
	if err != nil {
		a.log.Warn("release on some nodes failed", "error", err)
	}
}

// releaseReservation releases the space reserved in the store. An upload keeps the reservation.
func (a *attempt) releaseReservation(ctx context.Context) {
	if a.reservation == nil || a.staged {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishDeadline)
	defer cancel()
	if err := a.reservation.Release(ctx); err != nil {
		a.log.Warn("cannot release space in the store", "error", err)
	}
}

// errJobEnded prevents the requeue of a preempted job that has ended.
var errJobEnded = errors.New("the job has ended meanwhile")

// requeuePreempted has Slurm requeue a preempted job. It returns errJobEnded for a job that Slurm
// has ended meanwhile (by scancel, or at the end of the grace time): such a job completes only
// after this attempt, so Slurm would refuse the requeue until then. A job that is requeued
// already needs no requeue.
func (a *attempt) requeuePreempted(ctx context.Context) error {
	j := a.j
	run := j.run.Snapshot().Number
	s, err := j.c.Slurm.Show(ctx, slurm.JobName(j.id))
	switch {
	case err != nil:
		a.log.Info("cannot learn the job's state; requeue it", "error", err)
	case s.Restarts > run:
		return nil
	case !s.Runs():
		return fmt.Errorf("%w: %s", errJobEnded, s.State)
	}
	return j.c.Slurm.Requeue(ctx, j.slurmName())
}

// releaseHere ends the job's captured processes on this node. A second call is harmless.
func (p *participant) releaseHere(ctx context.Context, id store.ID, _ calls.Empty) (calls.Empty, error) {
	j := p.j
	if m := p.leaveAttempt(id, true); m != nil {
		defer close(m.done)
		defer m.releaseStageRoom()
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, lc := range j.localCapsules() {
		g.Go(func() error { return lc.releaseCapsule(ctx) })
	}
	return calls.Empty{}, g.Wait()
}

// releaseCapsule ends the programs of a capsule. The sruns are silenced first, and the wardens of
// tasks exit with status 0, so that srun reports no failure.
func (lc *localCapsule) releaseCapsule(ctx context.Context) error {
	j := lc.j
	if err := lc.sruns.Silence(ctx); err != nil {
		j.log.Warn("cannot silence the sruns", "error", err)
	}
	programs, err := lc.capsule.Programs(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range programs {
		g.Go(func() error {
			err := lc.capsule.MarkCaptured(ctx, p.Name)
			if err == nil && !p.Ended {
				err = lc.capsule.Signal(ctx, p.Name, syscall.SIGKILL)
			}
			if err == nil {
				err = lc.awaitProgramEnd(ctx, p.Name)
			}
			if err == nil {
				err = lc.capsule.Release(ctx, p.Name, 0)
			}
			if isGone(err) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// awaitProgramEnd waits until a captured program has ended.
func (lc *localCapsule) awaitProgramEnd(ctx context.Context, program string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := false
	err := lc.capsule.Watch(ctx, func(e capsule.Event) {
		if e.Program.Name == program && (e.Kind == capsule.Captured || e.Kind == capsule.Present && e.Program.Ended) {
			seen = true
			cancel()
		}
	})
	if seen {
		return nil
	}
	return err
}

// resolveOrphaned ends this node's membership after the leader died or fell silent. If the
// checkpoint is committed and the job was released, the processes are ended; else they run on. It
// repeats until it succeeds or the daemon ends.
func (p *participant) resolveOrphaned(ctx context.Context, id store.ID, release bool) {
	j := p.j
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		left, err := p.wasReleased(ctx, id, release)
		if err == nil && left {
			_, err = p.releaseHere(ctx, id, calls.Empty{})
		} else if err == nil {
			err = p.resumeHere(ctx, id)
			for _, lc := range j.localCapsules() {
				err = errors.Join(err, lc.thawCapsule(ctx))
			}
		}
		if err == nil {
			j.log.Info("a checkpoint without leader is resolved", "checkpoint", id, "released", left)
			p.sendOutcomeToNodes(ctx, id, left)
			return
		}
		j.log.Error("cannot resolve a checkpoint without leader", "checkpoint", id, "error", err)
		select {
		case <-time.After(wait):
		case <-j.c.daemonCtx.Done():
			return
		}
	}
}

// sendOutcomeToNodes sends the outcome of an orphaned attempt to the other nodes, if this node leads,
// so that they need not wait for their own timeouts.
func (p *participant) sendOutcomeToNodes(ctx context.Context, id store.ID, left bool) {
	j := p.j
	snap := j.run.Snapshot()
	nodes := slices.Clone(snap.Placement.ThisRun)
	if j.leaderNode() != j.c.Node {
		return
	}
	call := calls.Resume
	if left {
		call = calls.Release
	}
	ctx, cancel := context.WithTimeout(ctx, finishDeadline)
	defer cancel()
	for _, node := range nodes {
		if node == j.c.Node {
			continue
		}
		if _, err := callNode(ctx, j.c, node, j.id, id.Number, call, calls.Empty{}); err != nil {
			j.log.Info("cannot tell a node the outcome; its timeout will", "checkpoint", id, "error", err)
		}
	}
}

// wasReleased tells whether the checkpoint is committed and releases the job: then the processes here must not run on.
// For a job that Slurm still runs the answer is no, without a look into the store, which may be unreachable for long.
func (p *participant) wasReleased(ctx context.Context, id store.ID, release bool) (bool, error) {
	j := p.j
	if !release {
		return false, nil
	}
	run := j.run.Snapshot().Number
	s, err := j.c.Slurm.Show(ctx, slurm.JobName(j.id))
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		return false, err
	}
	if err == nil && s.Runs() && s.Restarts <= run {
		return false, nil
	}
	return p.hasCheckpoint(ctx, id)
}

// hasCheckpoint tells whether a checkpoint of the job is committed. A staged checkpoint counts, with or without a
// successful upload.
func (p *participant) hasCheckpoint(ctx context.Context, id store.ID) (bool, error) {
	j := p.j
	all, err := j.c.Store.List(ctx, &id.JobID)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(all, func(s store.Summary) bool { return s.ID == id && s.Err == nil }) {
		return true, nil
	}
	up, err := j.c.uploads.Newest(j.id)
	return up != nil && up.Number == id.Number && up.Submitted == j.submittedAt(), err
}
