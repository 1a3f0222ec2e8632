// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// phase is a step of a checkpoint that all nodes of the job take together. undo must be safe
// after do stopped half way.
type phase struct {
	name     string
	deadline time.Duration
	do, undo func(*attempt, context.Context) error
}

// phases lists the steps of a checkpoint in order. No phase before commit destroys data: after a failure the phases are
// undone in reverse order and the job runs on.
var phases = []phase{
	{calls.PhasePrepare, 10 * time.Second, (*attempt).prepare, (*attempt).unprepare},    // which nodes take part, obstacles, space
	{calls.PhaseCut, time.Minute, (*attempt).findCut, (*attempt).resumeDevices},         // stop the devices at a cut of all ranks
	{calls.PhaseFreeze, 10 * time.Second, (*attempt).freezeTasks, (*attempt).resumeJob}, // freeze the tasks of steps
	{calls.PhaseDrain, 15 * time.Second, (*attempt).drain, nil},                         // wait until the tasks' output has reached the batch script's side
	{calls.PhaseHalt, 15 * time.Second, (*attempt).freezeBatch, nil},                    // freeze the batch script, lock the network, wait for the input on its way
	{calls.PhaseDump, 30 * time.Minute, (*attempt).dump, (*attempt).dropChunks},         // write all capsules, in parallel, as chunks
	{calls.PhaseCommit, time.Minute, (*attempt).commit, nil},                            // write the manifest last: from now on the checkpoint exists
}

// stepRestoreProgram is logged when a node restores a program after its task has come. No node calls another
// for it.
const stepRestoreProgram = "restore"

// takeCheckpoint carries out all phases. After a failure the job is as before. The error names
// the job, the checkpoint and the phase, and includes the errors of the undoing.
func (a *attempt) takeCheckpoint(ctx context.Context) error {
	a.log = a.j.log.With("reason", a.reason)
	for i, p := range phases {
		began := time.Now()
		a.beginPhase(p.name)
		a.log.Debug("phase begins", "phase", p.name)
		err := withDeadline(ctx, p.deadline, a, p.do)
		a.j.c.Meter.Phase(p.name, time.Since(began), err != nil)
		if err != nil {
			a.j.report.AddEvent(records.EventFailed, a.nodes, fmt.Sprintf("checkpoint %d (%s): %s: %v", a.id.Number, a.reason, p.name, err))
			err = fmt.Errorf("job %d: checkpoint %d: %s: %w", a.j.id, a.id.Number, p.name, err)
			a.j.logCRIU(err)
			return joinUndoError(err, a.undoPhases(ctx, phases[:i+1]), a.log)
		}
		a.log.Info("phase", "phase", p.name, "took", time.Since(began))
		a.meta.Phases = append(a.meta.Phases, records.PhaseTime{Name: p.name, Took: time.Since(began)})
	}
	return nil
}

// joinUndoError returns the error of a failed attempt with the error of its undoing. Where a node's daemon is away, the
// undoing fails there for the same reason, and the daemon undoes its part when it starts again: the error says that once.
func joinUndoError(err, undoing error, log *slog.Logger) error {
	if undoing == nil || !errors.Is(err, ErrAway) || !errors.Is(undoing, ErrAway) {
		return errors.Join(err, undoing)
	}
	log.Info("a node undoes its part when its proxyd is back", "error", undoing)
	return err
}

// undoPhases undoes phases in reverse order. It ignores the end of ctx: the job must be thawed
// after a cancelled checkpoint, too.
func (a *attempt) undoPhases(ctx context.Context, done []phase) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, p := range slices.Backward(done) {
		if p.undo == nil {
			continue
		}
		if err := withDeadline(ctx, finishDeadline, a, p.undo); err != nil {
			errs = append(errs, fmt.Errorf("undo %s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

func withDeadline(ctx context.Context, d time.Duration, a *attempt, do func(*attempt, context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(a, ctx)
}

// callNodesTogether calls all nodes of the attempt in parallel. The first error cancels the other
// calls.
func callNodesTogether[Args any](ctx context.Context, a *attempt, call calls.Call[Args, calls.Empty], args Args) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range a.nodes {
		g.Go(func() error {
			_, err := callNode(ctx, a.j.c, node, a.j.id, a.id.Number, call, args)
			return err
		})
	}
	return g.Wait()
}

// callEveryNode calls all nodes of the attempt in parallel, each regardless of errors of other
// nodes.
func (a *attempt) callEveryNode(ctx context.Context, call calls.Call[calls.Empty, calls.Empty]) error {
	errs := make([]error, len(a.nodes))
	var all sync.WaitGroup
	for i, node := range a.nodes {
		all.Go(func() { _, errs[i] = callNode(ctx, a.j.c, node, a.j.id, a.id.Number, call, calls.Empty{}) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Phases returns the names of all phases.
func Phases() []string {
	var all []string
	for _, p := range phases {
		all = append(all, p.name)
	}
	return all
}
