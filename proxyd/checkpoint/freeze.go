// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// freezeTasks stops the tasks of steps on all nodes. The batch script goes on: it may
// be what reads their output.
func (a *attempt) freezeTasks(ctx context.Context) error {
	return a.callNodesTogether(ctx, phaseFreeze, empty{})
}

// freezeBatch stops the rest, and the network.
func (a *attempt) freezeBatch(ctx context.Context) error {
	return a.callNodesTogether(ctx, phaseHalt, empty{})
}

// resumeJob lets everything go on as if nothing had been.
func (a *attempt) resumeJob(ctx context.Context) error {
	return a.callEveryNode(ctx, callResume, empty{})
}

func (j *job) freezeHere(ctx context.Context, id store.ID, _ empty) (empty, error) {
	return empty{}, j.freezeUnlessOver(id, func() error {
		return j.freezePrograms(ctx, id, func(p capsule.Program) bool { return p.Name != batchProgram })
	})
}

func (j *job) freezeBatchHere(ctx context.Context, id store.ID, _ empty) (empty, error) {
	return empty{}, j.freezeUnlessOver(id, func() error {
		if err := j.freezePrograms(ctx, id, func(p capsule.Program) bool { return p.Name == batchProgram }); err != nil {
			return err
		}
		for _, lc := range j.localCapsules() {
			if err := overlay.Lock(lc.capsule.PID()); err != nil {
				return err
			}
		}
		return nil
	})
}

// freezeUnlessOver has something stand still for an attempt. If that is over by then, because its leader had waited for too long, whoever let
// everything go on may have come before: then it is done once more, for nobody else would. A newer attempt does so at its end.
func (j *job) freezeUnlessOver(id store.ID, do func() error) error {
	if _, err := j.membershipIn(id); err != nil {
		return err
	}
	err := do()
	j.mu.Lock()
	over := j.membership == nil
	j.mu.Unlock()
	if over {
		j.c.startBackground(func(ctx context.Context) { j.resolveOrphaned(ctx, id, false) })
		err = errors.Join(err, errOtherAttempt)
	}
	return err
}

// freezePrograms marks programs as captured, so that the end of a warden which Slurm has lost
// patience with changes nothing, and freezes them.
func (j *job) freezePrograms(ctx context.Context, id store.ID, which func(capsule.Program) bool) error {
	m, err := j.membershipIn(id)
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.armLeaderTimeout(m)
	j.mu.Unlock()
	for _, lc := range j.localCapsules() {
		j.mu.Lock()
		lc.note.Attempt = &pendingAttempt{m.id.Number, m.release}
		j.saveNote(lc)
		j.mu.Unlock()
		programs, err := runningPrograms(ctx, lc.capsule)
		if err != nil {
			return err
		}
		var names []string
		for _, p := range programs {
			if !which(p) {
				continue
			}
			names = append(names, p.Name)
			if err := lc.capsule.MarkCaptured(ctx, p.Name); err != nil && !isGone(err) {
				return err
			}
		}
		if len(names) == 0 {
			continue
		}
		if err := lc.capsule.Freeze(ctx, names...); err != nil && !isGone(err) {
			return fmt.Errorf("freeze: %w", err)
		}
		if err := lc.freezeDisconnected(ctx, names); err != nil && !isGone(err) {
			return fmt.Errorf("freeze: %w", err)
		}
	}
	return nil
}

// resumeRetrying is resumeHere, and goes on trying when that fails: nobody else will.
func (j *job) resumeRetrying(ctx context.Context, id store.ID, _ empty) (empty, error) {
	err := j.resumeHere(ctx, id)
	if err != nil {
		j.c.startBackground(func(ctx context.Context) { j.resolveOrphaned(ctx, id, false) })
	}
	return empty{}, err
}

// resumeHere ends this node's part and lets its programs go on. It may be called twice,
// and whatever was done before.
func (j *job) resumeHere(ctx context.Context, id store.ID) error {
	j.mu.Lock()
	m := j.membership
	if m != nil && m.id == id {
		j.membership = nil
		if m.stopLeaderTimeout != nil {
			m.stopLeaderTimeout()
		}
	}
	j.mu.Unlock()
	if m == nil || m.id != id {
		return nil // it never began here, or has ended
	}
	defer close(m.done)
	var errs []error
	if m.ownWriter != nil {
		errs = append(errs, m.ownWriter.Abort(ctx))
	}
	m.releaseStageRoom()
	for _, lc := range j.localCapsules() {
		errs = append(errs, j.thawCapsule(ctx, lc))
	}
	return errors.Join(errs...)
}

// thawCapsule undoes everything that an attempt does to a capsule.
func (j *job) thawCapsule(ctx context.Context, lc *localCapsule) error {
	j.mu.Lock()
	restoring := lc.note.NetworkLocked
	lc.note.Attempt = nil
	j.saveNote(lc)
	j.mu.Unlock()
	var errs []error
	if !restoring {
		errs = append(errs, overlay.Unlock(lc.capsule.PID()))
	}
	programs, err := lc.capsule.Programs(ctx)
	errs = append(errs, err)
	for _, p := range programs {
		if p.Frozen {
			if err := lc.capsule.Thaw(ctx, p.Name); err != nil && !isGone(err) {
				errs = append(errs, err)
			}
		}
		if p.Captured {
			if err := lc.capsule.Unmark(ctx, p.Name); err != nil && !isGone(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// isGone says that a program ended before something could be done to it.
func isGone(err error) bool {
	return errors.Is(err, errNoProgram) || errors.Is(err, errNoProcess)
}
