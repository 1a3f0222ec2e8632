// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/warden"
)

// Join finds a place for a task. The job's run is learnt from Slurm when its first task
// comes; then the capsules of the run are made, or restored.
func (c *Conductor) Join(ctx context.Context, t warden.Join) (warden.Place, error) {
	for {
		p, err := c.join(ctx, t)
		var taking *inProgressError
		if !errors.As(err, &taking) {
			return p, err
		}
		if err := taking.membership.wait(ctx); err != nil {
			return p, err
		}
		if taking.membership.capsulesGone { // the task goes with its job; ctx ends with the task
			<-ctx.Done()
			return p, context.Cause(ctx)
		}
	}
}

// inProgressError says that a new task has to wait: a checkpoint is taken, of which it is not.
type inProgressError struct{ membership *membership }

func (e *inProgressError) Error() string {
	return fmt.Sprintf("checkpoint %s is in progress", e.membership.id)
}

func (c *Conductor) join(ctx context.Context, t warden.Join) (warden.Place, error) {
	j := c.job(t.Job)
	j.raising.Lock()
	defer j.raising.Unlock()
	if len(j.capsules()) == 0 || t.Step == batch {
		reason, err := j.learn(ctx, t)
		if err != nil {
			return warden.Place{}, fmt.Errorf("job %d: %w", t.Job, err)
		}
		if reason != "" {
			return warden.Place{Mode: warden.Plain, Reason: reason}, nil
		}
	}
	p, err := j.place(ctx, t)
	if err != nil {
		return warden.Place{}, fmt.Errorf("job %d: %w", t.Job, err)
	}
	return p, nil
}

// learn finds out about a job's run. It returns why the job is left alone, if it is.
// Caller holds j.raising.
func (j *job) learn(ctx context.Context, t warden.Join) (plain string, err error) {
	if t.Step == batch { // a run that is released after a repair may be given up again
		j.mu.Lock()
		j.gaveUp = false
		j.mu.Unlock()
	}
	s, err := j.c.Slurm.Show(ctx, name(j.id))
	if err != nil {
		return "", err
	}
	if s.UID != t.UID {
		return "", fmt.Errorf("its user is %d, not %d", s.UID, t.UID)
	}
	switch {
	case !s.Batch:
		return "only batch jobs are protected: Slurm can requeue no other", nil
	case !s.Requeue:
		return "the job was submitted with --no-requeue, so there is nothing to be protected for", nil
	case s.HetJob != 0:
		return "heterogeneous jobs are not protected yet", nil
	case t.Step == "interactive":
		return "an interactive step is not protected", nil
	}
	if err := j.newRun(ctx, s); err != nil {
		return "", err
	}
	rec, anew, err := j.record(ctx, s, t)
	if err != nil {
		return "", err
	}
	from, err := j.newest(ctx, s, rec, anew, t.Step == batch)
	if err != nil {
		return "", err
	}
	j.mu.Lock()
	fresh := j.rec == nil || j.run != s.Restarts
	j.mu.Unlock()
	j.begin(rec, s.Restarts, s.Nodes, from)
	if fresh && j.leader() == j.c.Node {
		j.happened(eventStarted, s.Nodes, startText(s.Restarts, from))
	}
	return "", nil
}

func startText(restarts int, from *origin) string {
	switch {
	case from != nil:
		return fmt.Sprintf("run %d, to resume from checkpoint %d", restarts+1, from.id.Number)
	case restarts > 0:
		return fmt.Sprintf("run %d, anew", restarts+1)
	}
	return ""
}

// newRun removes what an earlier run left here, which it does only if this node missed
// its end.
func (j *job) newRun(ctx context.Context, s *slurm.Job) error {
	j.mu.Lock()
	old := j.rec != nil && j.run != s.Restarts
	j.mu.Unlock()
	if !old {
		return nil
	}
	return j.clear(ctx)
}

func (j *job) begin(rec *Record, run int, nodes []string, from *origin) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.from != from {
		j.from.close()
	}
	j.rec, j.run, j.where, j.from = rec, run, placement{rec.Nodes, nodes}, from
	j.asked, j.gaveUp, j.left, j.back, j.told, j.decided = nil, false, false, false, false, false
}

// capturable are variables by which programs leave alone what cannot be captured and
// what they can do without.
var capturable = []string{
	"UV_USE_IO_URING", "0", // libuv: Node.js and others
}

// place gives a task its capsule. Caller holds j.raising.
func (j *job) place(ctx context.Context, t warden.Join) (warden.Place, error) {
	j.mu.Lock()
	rec, from, where := j.rec, j.from, j.where
	j.mu.Unlock()
	if t.UID != rec.UID {
		return warden.Place{}, fmt.Errorf("its user is %d, not %d", rec.UID, t.UID)
	}
	program := batch
	if t.Step != batch {
		program = taskName(t.Key, t.Step, t.Task)
	}
	if program == batch && rec.Over != nil {
		return warden.Place{Mode: warden.Finished, Status: *rec.Over}, nil
	}
	here, err := where.on(j.c.Node)
	if err != nil {
		return warden.Place{}, err
	}
	if len(here) == 0 {
		return warden.Place{}, fmt.Errorf("no capsule of it is on %s: it began on %d nodes and now has %d", j.c.Node, len(where.first), len(where.today))
	}
	index, mode := here[0], warden.Fresh
	if from != nil {
		if m := from.meta.find(program); m != nil {
			if !slices.Contains(here, m.Index) {
				return warden.Place{}, fmt.Errorf("program %s belongs on %s", program, where.node(m.Index))
			}
			index, mode = m.Index, warden.Restore
			if status, ended := m.Ended[program]; ended {
				j.finished(m.Index, t, program, status)
				return warden.Place{Mode: warden.Finished, Status: status}, nil
			}
		}
	}
	if program == batch && index != 0 {
		return warden.Place{}, fmt.Errorf("the batch script is on %s, which has no capsule 0", j.c.Node)
	}
	if program == batch && from != nil {
		if err := j.raiseAll(ctx); err != nil {
			err = fmt.Errorf("restore checkpoint %d: %w", from.id.Number, err)
			if ctx.Err() != nil { // its task is gone, which is no reason to hold the job
				return warden.Place{}, err
			}
			return warden.Place{}, errors.Join(err, j.giveUp(err))
		}
	}
	h, err := j.capsule(ctx, index, t)
	if err != nil {
		return warden.Place{}, err
	}
	j.enterGroup(h, t.PID)
	j.mu.Lock()
	if mode == warden.Restore && !slices.Contains(h.note.Left, program) {
		mode = warden.Fresh // it was restored already in this run, and its step is run again
	}
	if j.membership != nil && program != batch {
		defer j.mu.Unlock()
		return warden.Place{}, &inProgressError{j.membership}
	}
	h.note.Wardens[program] = t.PID
	h.expect(t)
	first := h.note.Env
	j.save(h)
	j.mu.Unlock()
	ns, err := h.c.Namespaces()
	if err != nil {
		return warden.Place{}, err
	}
	if program == batch {
		j.periodic()
	}
	return warden.Place{
		Mode: mode, Name: program, Namespaces: ns, Kit: j.c.kitOf(h),
		Env: slices.Concat([]string{files.Env, filepath.Join(j.c.ListDir, files.ListName)}, capturable, j.c.deviceEnv(h), where.names(index, first)),
	}, nil
}
