// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// restoreStep is a step of a restore, which the leader takes for all nodes of the job. do returns
// false if programs are still to be restored: the next report of a node continues the restore. The
// steps have no deadlines of their own: a node that does not answer fails its call, and awaitSteps
// bounds the wait for tasks.
type restoreStep struct {
	name  string
	event restoreEvent // starts the step
	do    func(*restore, context.Context, runs.Snapshot) (bool, error)
}

// restoreEvent is an event after which the leader takes the next steps.
type restoreEvent int

const (
	scriptStarts restoreEvent = iota // the task of the batch script asks to be admitted (join.go)
	nodeReports                      // all programs of a node are restored
)

// restoreSteps lists the steps of a restore in order:
//
//	leader                                         every node
//	──────                                         ──────────
//	the batch step's task asks to be admitted (join.go)
//	make the capsules on their nodes     ───────►  files put back, network locked (make_capsules.go)
//	                                               the batch script is restored (restore.go), on the leader's node
//	its sing-sruns ask again: the sruns start (sruns.go)
//	                                               each task waits, and is restored (restore.go)
//	                                         ◄───  nodeRestored: all programs here are restored
//	ask for programs to restore          ───────►
//	all restored: connect the devices    ───────►  (reconnect_devices.go)
//	unlock the network                   ───────►  the job runs on
//	note that the run is restored
//
// Some programs run already while the rest is restored, but no packet leaves a capsule before the
// network is unlocked: a packet would reach a program that is not restored yet, and the kernel would
// answer with a reset. Programs of a capsule reach each other as soon as all of them are there
// (unlockLoopback). After an error the run is given up (hold.go), and the checkpoint stays.
var restoreSteps = []restoreStep{
	{calls.MakeCapsules.Name(), scriptStarts, (*restore).makeCapsules},
	{calls.Unrestored.Name(), nodeReports, (*restore).checkPrograms},
	{calls.ReconnectDevices.Name(), nodeReports, (*restore).reconnectDevices},
	{calls.Unlock.Name(), nodeReports, (*restore).unlockNodes},
	{stepComplete, nodeReports, (*restore).completeRestore},
}

// stepComplete is the name of the last step, for which no node is called.
const stepComplete = "complete"

// restore restores a job: the leader takes the steps, and every node carries out the leader's calls. All methods may be
// called concurrently. Its lock is taken after job.capsulesMu and before the other locks.
type restore struct {
	j *job

	mu sync.Mutex // held while the leader takes steps: two nodes may report at the same time
}

// takeSteps takes the steps of an event, unless the run of snap is restored already or another run has
// begun. The result is true if all of these steps were taken by this call.
func (r *restore) takeSteps(ctx context.Context, snap runs.Snapshot, event restoreEvent) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.j.run.Snapshot(); now.HasBeen(runs.Running) || now.Point != snap.Point {
		return false, nil
	}
	for _, s := range restoreSteps {
		if s.event != event {
			continue
		}
		r.j.log.Debug("step begins", "step", s.name)
		if whole, err := s.do(r, ctx, snap); err != nil || !whole {
			return false, err
		}
	}
	return true, nil
}

// callNodes calls the given nodes in parallel. The first error cancels the other calls.
func callNodes[Args any](
	ctx context.Context, r *restore, nodes map[string]bool, call calls.Call[Args, calls.Empty], args Args,
) error {
	g, ctx := errgroup.WithContext(ctx)
	for node := range nodes {
		g.Go(func() error {
			_, err := callNodeRetrying(ctx, r.j.c, restoreCallTimeout, node, r.j.id, call, args)
			return err
		})
	}
	return g.Wait()
}

// makeCapsules makes every capsule of the checkpoint on its node of this run, before the first
// program is restored, so that an error is found early. Caller holds j.capsulesMu.
func (r *restore) makeCapsules(ctx context.Context, snap runs.Snapshot) (bool, error) {
	others := snap.Point.NodesWithPart(snap.Placement)
	delete(others, r.j.c.Node)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		args := calls.MakeCapsulesArgs{Number: snap.Point.ID.Number, Run: snap.Number, Nodes: snap.Placement.ThisRun}
		return callNodes(ctx, r, others, calls.MakeCapsules, args)
	})
	g.Go(func() error { return r.makeCapsulesHere(ctx) })
	return true, g.Wait()
}

// checkPrograms tells whether all programs of all nodes are restored.
func (r *restore) checkPrograms(ctx context.Context, snap runs.Snapshot) (bool, error) {
	left, err := r.unrestoredPrograms(ctx, snap.Point)
	return len(left) == 0, err
}

// unlockNodes lets the job run on. The leader's own network is the last: a successor of this daemon
// recognizes by a locked network that the restore is not complete.
func (r *restore) unlockNodes(ctx context.Context, snap runs.Snapshot) (bool, error) {
	others := snap.Point.NodesWithPart(snap.Placement)
	delete(others, r.j.c.Node)
	err := callNodes(ctx, r, others, calls.Unlock, calls.Empty{})
	if err == nil {
		_, err = r.unlockHere(ctx, store.ID{}, calls.Empty{})
	}
	return err == nil, err
}

// completeRestore notes that all programs are restored, and resets the count of unrestored runs.
func (r *restore) completeRestore(context.Context, runs.Snapshot) (bool, error) {
	r.j.setState(runs.Running)
	err := r.j.run.ChangeRecord(r.j.c.records.Save, func(rec *records.Record) bool {
		changed := rec.UnrestoredRuns != 0
		rec.UnrestoredRuns = 0
		return changed
	})
	return err == nil, err
}

// nodeRestored is called on the leader when a node has restored all its programs. After the last
// step the user is told.
func (r *restore) nodeRestored(ctx context.Context, _ store.ID, _ calls.Empty) (calls.Empty, error) {
	j, snap := r.j, r.j.run.Snapshot()
	if snap.Point == nil {
		return calls.Empty{}, nil
	}
	if whole, err := r.takeSteps(ctx, snap, nodeReports); err != nil || !whole {
		return calls.Empty{}, err
	}
	j.log.Info("job restored", "checkpoint", snap.Point.ID.Number)
	j.report.WriteEvent(records.MakeRestoreEvent(snap.Point.ID.Number, snap.Placement.ThisRun, snap.Point.LostWork))
	j.report.SetComment(fmt.Sprintf("restored from checkpoint %d on %s", snap.Point.ID.Number, reports.JoinNames(snap.Placement.ThisRun)) + snap.Point.LostWork + snap.Point.LostNewer)
	return calls.Empty{}, nil
}

// unrestoredHere returns the programs of this node that are not restored yet, including those of
// capsules that are not made yet.
func (r *restore) unrestoredHere(context.Context, store.ID, calls.Empty) ([]string, error) {
	j := r.j
	snap := j.run.Snapshot()
	j.mu.Lock()
	defer j.mu.Unlock()
	var left []string
	for _, lc := range j.capsules {
		left = append(left, lc.note.ProgramsToRestore...)
	}
	if snap.Point == nil {
		return left, nil
	}
	for _, m := range snap.Point.Meta.Capsules {
		if snap.Placement.NodeOf(m.Index) != j.c.Node || j.capsules[m.Index] != nil {
			continue
		}
		for _, p := range m.Programs {
			left = append(left, p.Name)
		}
	}
	return left, nil
}

// unrestoredPrograms asks all nodes for the programs that are not restored yet.
func (r *restore) unrestoredPrograms(ctx context.Context, point *runs.ResumePoint) ([]string, error) {
	j := r.j
	where := j.run.Snapshot().Placement
	var mu sync.Mutex
	var left []string
	g, ctx := errgroup.WithContext(ctx)
	for node := range point.NodesWithPart(where) {
		g.Go(func() error {
			there, err := callNodeRetrying(ctx, j.c, restoreCallTimeout, node, j.id, calls.Unrestored, calls.Empty{})
			mu.Lock()
			defer mu.Unlock()
			left = append(left, there...)
			return err
		})
	}
	return left, g.Wait()
}

// isNetworkLocked tells whether the network of a capsule on this node is locked until the restore
// is complete.
func (r *restore) isNetworkLocked() bool {
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, lc := range j.capsules {
		if lc.note.NetworkLocked {
			return true
		}
	}
	return false
}

// unlockHere unlocks the network of this node's capsules and lets their devices work.
// A second call is harmless.
func (r *restore) unlockHere(ctx context.Context, _ store.ID, _ calls.Empty) (calls.Empty, error) {
	j := r.j
	if j.failed.isGivenUp() {
		return calls.Empty{}, errGivenUp
	}
	var errs []error
	for _, lc := range j.localCapsules() {
		err := overlay.Unlock(lc.capsule.PID())
		if err == nil {
			err = outsideOf(lc).releaseForwarder(ctx)
		}
		if err == nil && lc.devices != nil {
			err = lc.resumeDevices(ctx)
		}
		if err == nil {
			j.mu.Lock()
			lc.note.NetworkLocked = false
			lc.saveNote()
			j.mu.Unlock()
			outsideOf(lc).reportResumed()
		}
		errs = append(errs, err)
	}
	return calls.Empty{}, errors.Join(errs...)
}
