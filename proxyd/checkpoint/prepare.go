// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/messages"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/steps"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ObstacleError lists the obstacles of a job.
type ObstacleError struct {
	Obstacles []processes.Obstacle
	ByCRIU    bool // found by a dump: looks at the processes may not find them again
}

func (e *ObstacleError) Error() string { return summarizeObstacles(e.Obstacles) }

// errRestoring prevents a checkpoint of a job with programs that are not restored yet.
var errRestoring = rpc.ErrRestoring

// errScriptEnded prevents a checkpoint without the batch script: the restored job would begin
// anew.
var errScriptEnded = rpc.ErrScriptEnded

// errSignalForwarded prevents a checkpoint after a failed attempt if its SIGTERM was forwarded:
// the checkpoint would contain programs that are ending.
var errSignalForwarded = errors.New("its processes have got SIGTERM already")

var errCheckpointInProgress = errors.New("another checkpoint is in progress on this node")

// errNothingLeft is the error for a job that Slurm runs and that has no programs on its node.
var errNothingLeft = errors.New("no program of the job is left on its node")

// MayRetryCheckpoint tells whether an error of TakeCheckpoint ends by itself: a later try may succeed.
func MayRetryCheckpoint(err error) bool {
	return errors.Is(err, errRestoring) || errors.Is(err, errCheckpointInProgress) || errors.Is(err, steps.ErrTasksMissing) || errors.Is(err, errNothingLeft) || errors.Is(err, ErrAway)
}

// prepare asks all nodes for their part of the job, checks that the job can be captured, and
// reserves space.
func (a *attempt) prepare(ctx context.Context) error {
	j := a.j
	if err := (runFence{j}).checkNewestRun(ctx); err != nil {
		return err
	}
	if err := j.checkBatchRuns(ctx); err != nil {
		return err
	}
	number, err := j.c.nextNumber(ctx, j.id, a.id.Number)
	if err != nil {
		return err
	}
	a.id = store.ID{JobID: store.PlainJob(j.c.Cluster, j.id), Number: number}
	a.log = a.log.With("checkpoint", number)
	snap := j.run.Snapshot()
	nodes, leaves := snap.Placement.ThisRun, a.outcome.LeavesOrHolds()
	after, _ := a.outcome.WhatFollows()
	a.meta = records.Meta{Record: *snap.Record, Run: snap.Number, Reason: a.reason, Itself: after == decisions.LeavesForRequeue && j.termination.RecentRequester() != nil}
	j.mu.Lock()
	if lc := j.capsules[0]; lc != nil {
		a.meta.Env = lc.note.FirstEnv
	}
	j.mu.Unlock()

	stage := j.c.Stage != nil && !a.skipStage
	a.nodes, a.reports, a.staged, a.upload = nodes, map[string]*calls.PrepareReply{}, false, nil
	if err := a.collectReports(ctx, calls.PrepareArgs{Release: leaves, Run: a.meta.Run, Stage: stage}); err != nil {
		return err
	}
	if err := a.checkReports(); err != nil {
		return err
	}
	var bytes uint64
	for _, r := range a.reports {
		bytes += r.Bytes
	}
	a.nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return a.reports[n].Capsules == 0 })
	a.staged = stage && !slices.ContainsFunc(a.nodes, func(n string) bool { return !a.reports[n].Staged })
	if a.reservation, err = j.c.Store.Reserve(ctx, a.id.String(), bytes); err != nil {
		return err
	}
	return j.reserveNumber(number)
}

// collectReports asks all of a.nodes for their part of the job, and adds their answers to a.reports.
func (a *attempt) collectReports(ctx context.Context, args calls.PrepareArgs) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range a.nodes {
		g.Go(func() error {
			r, err := callNode(ctx, a.j.c, node, a.j.id, a.id.Number, calls.Prepare, args)
			mu.Lock()
			defer mu.Unlock()
			a.reports[node] = &r
			return err
		})
	}
	return g.Wait()
}

// checkReports returns an error if the job cannot be captured, after the reports of all nodes, and remembers their obstacles.
func (a *attempt) checkReports() error {
	j := a.j
	j.mu.Lock()
	before := j.lastObstacles
	j.mu.Unlock()
	now := time.Now()
	var found []processes.Obstacle
	for node, r := range a.reports {
		for _, o := range r.Obstacles {
			found = append(found, o.WithSince(node, now, before))
		}
		if len(r.Unrestored) > 0 {
			return fmt.Errorf("%w: %s", errRestoring, strings.Join(r.Unrestored, ", "))
		}
	}
	if err := a.checkComplete(); err != nil {
		return err
	}
	j.mu.Lock()
	j.lastObstacles = found
	if j.foundByCRIU != nil {
		a.foundBefore, j.foundByCRIU = j.foundByCRIU, nil
	}
	j.mu.Unlock()
	if len(found) > 0 {
		return &ObstacleError{Obstacles: found}
	}
	return nil
}

// noteFoundByCRIU makes an ObstacleError of the error of a node's dump, if CRIU has found an obstacle there, and
// remembers the obstacle for `singctl show` until the job's next attempt.
func (a *attempt) noteFoundByCRIU(node string, err error) error {
	var e *rpc.Error
	if !errors.As(err, &e) || !errors.Is(e, rpc.ErrObstacle) || len(e.Obstacles) == 0 {
		return err
	}
	j := a.j
	j.logCRIU(err)
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []processes.Obstacle
	for _, o := range messages.DecodeObstacles(e.Obstacles) {
		found = append(found, o.WithSince(node, time.Now(), a.foundBefore))
	}
	j.foundByCRIU = found
	return &ObstacleError{Obstacles: found, ByCRIU: true}
}

// reserveNumber saves the number in the job's record, before anything is frozen: no other
// checkpoint of the job gets the number, even if this attempt fails.
func (j *job) reserveNumber(number uint32) error {
	return j.run.ChangeRecord(j.c.records.Save, func(rec *records.Record) bool { rec.LastNumber = number; return true })
}

// errOldRun prevents a checkpoint of a run that Slurm has given up: it would be the job's newest.
var errOldRun = errors.New("a newer run of the job has begun: this one, which Slurm has given up, is not captured any more")

// runFence keeps runs of a job that Slurm has given up from making checkpoints.
type runFence struct{ j *job }

// noteBegunRun notes in the job's record, on the leader, that this run has begun: no earlier run makes a checkpoint any more.
func (f runFence) noteBegunRun() {
	j := f.j
	begun := j.run.Snapshot().Number + 1
	err := j.run.ChangeRecord(j.c.records.Save, func(rec *records.Record) bool {
		changed := rec.RunsBegun != begun
		rec.RunsBegun = begun
		return changed
	})
	if err != nil { // the run goes on, but an earlier run that still lives can make checkpoints
		j.log.Error("cannot note in the record that the run has begun", "error", err)
	}
}

// noteBegunScript notes in the job's record, on the leader, that the batch script is admitted.
func (f runFence) noteBegunScript() {
	j := f.j
	err := j.run.ChangeRecord(j.c.records.Save, func(rec *records.Record) bool {
		changed := rec.ScriptUnbegun
		rec.ScriptUnbegun = false
		return changed
	})
	if err != nil { // if this run is interrupted without a checkpoint, the next does not say that it begins anew
		j.log.Error("cannot note in the record that the batch script begins", "error", err)
	}
}

// checkNewestRun returns errOldRun if a newer run of the job has begun. This run then still lives because slurmd has
// died on its node, or is cut off from slurmctld. If Slurm says that this run is the newest, slurmctld has forgotten
// the later run, and the result is nil.
func (f runFence) checkNewestRun(ctx context.Context) error {
	j := f.j
	run := j.run.Snapshot().Number
	rec, err := j.c.records.Load(j.id)
	if err != nil || rec == nil || rec.RunsBegun <= run+1 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, slurmQueryTimeout)
	defer cancel()
	if s, err := j.c.Slurm.Show(ctx, slurm.JobName(j.id)); err == nil && s.Restarts <= run {
		return nil
	}
	return errOldRun
}

// checkBatchRuns returns errScriptEnded unless the batch script runs.
func (j *job) checkBatchRuns(ctx context.Context) error {
	j.mu.Lock()
	lc := j.capsules[0]
	j.mu.Unlock()
	if lc == nil {
		return errScriptEnded
	}
	programs, err := lc.capsule.Programs(ctx)
	if err == nil && !slices.ContainsFunc(programs, func(p capsule.Program) bool { return p.Name == records.BatchProgram && !p.Ended }) {
		err = errScriptEnded
	}
	return err
}

// unprepare releases the reservation and ends the membership of every node. Nodes without a
// membership ignore the call.
func (a *attempt) unprepare(ctx context.Context) error {
	a.nodes = a.j.run.Snapshot().Placement.ThisRun
	err := a.resumeJob(ctx)
	if a.reservation != nil {
		err = errors.Join(err, a.reservation.Release(ctx))
	}
	return err
}

// nextNumber returns a number above all that were ever shown to people. A repeated attempt keeps
// its own number, unless a checkpoint of that number exists. own is 0 in the first try.
func (c *Conductor) nextNumber(ctx context.Context, job, own uint32) (uint32, error) {
	id := store.PlainJob(c.Cluster, job)
	all, err := c.Store.List(ctx, &id)
	if err != nil {
		return 0, err
	}
	var last uint32
	for _, s := range all {
		last = max(last, s.ID.Number)
	}
	if up, err := c.uploads.Newest(job); err != nil {
		return 0, err
	} else if up != nil {
		last = max(last, up.Number)
	}
	if rec, err := c.records.Load(job); err != nil {
		return 0, err
	} else if rec != nil && rec.LastNumber != own {
		last = max(last, rec.LastNumber)
	}
	return max(last+1, own), nil
}

// leaderTimeout ends a node's membership after silence of the leader. Every phase before the dump
// is shorter; from the dump on, the leader sends heartbeats.
const leaderTimeout = 45 * time.Second

// prepareHere starts this node's membership and describes this node's part of the job.
func (p *participant) prepareHere(ctx context.Context, id store.ID, args calls.PrepareArgs) (calls.PrepareReply, error) {
	j := p.j
	var r calls.PrepareReply
	snap := j.run.Snapshot()
	switch {
	case snap.HasBeen(runs.Terminated):
		return r, errSignalForwarded
	case snap.HasBeen(runs.GivenUp):
		return r, errGivenUp
	}
	other := p.joinAttempt(id, args.Release)
	if other != nil {
		return r, fmt.Errorf("%w: %s", errCheckpointInProgress, other.id)
	}
	for _, lc := range j.localCapsules() {
		if err := p.reportCapsule(ctx, lc, &r); err != nil {
			return r, err
		}
	}
	r.Staged = args.Stage && r.Capsules > 0 && p.reserveStage(id, r.Bytes)
	return r, nil
}

// reportCapsule adds a capsule to the report of this node.
func (p *participant) reportCapsule(ctx context.Context, lc *localCapsule, r *calls.PrepareReply) error {
	r.Capsules++
	if lc.devices != nil {
		used, err := lc.deviceBytesUsed(ctx)
		if err != nil {
			return err
		}
		r.Bytes += used
		r.Devices = append(r.Devices, lc.index)
	}
	programs, err := lc.capsule.Programs(ctx)
	if err != nil {
		return err
	}
	for _, program := range programs {
		if program.Ended || program.Waiting {
			continue
		}
		r.Programs++
		r.Bytes += processes.ResidentBytes(program)
	}
	r.Bytes += estimateFiles(ctx, lc)
	found, _, err := lc.findObstacles(ctx, programs)
	if err != nil {
		return err
	}
	r.Obstacles = append(r.Obstacles, found...)
	p.j.mu.Lock()
	r.Unrestored = append(r.Unrestored, lc.note.ProgramsToRestore...)
	r.ManyFiles = r.ManyFiles || lc.manyFiles
	p.j.mu.Unlock()
	r.Steps = append(r.Steps, lc.sruns.Keys()...)
	if err := lc.noteEndedBefore(ctx); err != nil {
		return err
	}
	return lc.countTasks(ctx, programs, r)
}

// estimateFiles estimates the bytes of a capsule's files in a checkpoint: its own folders as they are, and as many of
// the files that the job has changed as were new in the newest checkpoint.
func estimateFiles(ctx context.Context, lc *localCapsule) uint64 {
	lc.j.mu.Lock()
	sum := lc.newFileBytes
	lc.j.mu.Unlock()
	for _, dir := range lc.ownFolders() {
		sum += files.PackedBytes(ctx, dir)
	}
	return sum
}

// reserveStage reserves room for this node's share, and tells whether there is room.
func (p *participant) reserveStage(id store.ID, bytes uint64) bool {
	j := p.j
	if j.c.Stage == nil {
		return false
	}
	room, err := j.c.Stage.Reserve(id, bytes)
	if err != nil {
		j.log.Info("no space in the stage", "checkpoint", id, "error", err)
		return false
	}
	p.mu.Lock()
	m := p.now
	if m != nil && m.id == id {
		m.stageRoom = room
	}
	p.mu.Unlock()
	if m == nil || m.id != id {
		room.Release()
		return false
	}
	return true
}
