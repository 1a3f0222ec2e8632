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
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// end does what follows a commit, and stand: the job runs on, or leaves its nodes.
func (a *attempt) end(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	j := a.j
	defer a.giveRoom(ctx) // the store may take its time
	defer func() {
		if err := within(ctx, endDeadline, a, (*attempt).goOn); err != nil {
			a.log.Info("devices go on by themselves, or with their capsules", "error", err)
		}
	}()
	j.mu.Lock()
	then, exit, rec := a.then, a.exit, *j.rec
	j.mu.Unlock()
	if then == outlast {
		// Whatever becomes of this daemon from here on, the job is to be requeued.
		rec.Outlast = j.c.Node
		if err := j.c.records.save(&rec); err != nil {
			a.log.Error("record", "error", err)
		}
	}
	if a.staged && then != passOn && !a.up.Left { // asked for while it was being made
		a.up.Left = true
		if err := j.c.uploads.change(a.up, func(now *Upload) bool { now.Left = true; return true }); err != nil {
			a.log.Error("record of the upload", "error", err)
		}
	}
	follows := phaseResume
	if then != passOn {
		follows = phaseRelease
	}
	a.log.Debug("phase begins", "phase", follows)
	var err error
	if then == yield {
		// Before the batch script is gone, which would end the job.
		if err := within(ctx, endDeadline, a, (*attempt).giveWay); err != nil {
			return errors.Join(err, within(ctx, endDeadline, a, (*attempt).resume))
		}
	}
	if then == passOn {
		err = within(ctx, endDeadline, a, (*attempt).resume)
	} else {
		j.mu.Lock()
		j.left = then != outlast
		j.mu.Unlock()
		// A node that is away releases what it has when it is back, or loses it with its end.
		// The checkpoint exists: what happens now must not look as if it did not.
		away := within(ctx, endDeadline, a, func(a *attempt, ctx context.Context) error {
			return a.each(ctx, phaseRelease, none{})
		})
		if away != nil {
			a.log.Warn("release", "error", away)
		}
		j.happened(eventLeft, a.nodes, exit)
	}
	if err != nil {
		return fmt.Errorf("job %d: after checkpoint %d: %w", j.id, a.id.Number, err)
	}
	if !a.staged {
		if err := j.c.expire(ctx, j.id); err != nil {
			a.log.Warn("older checkpoints", "error", err)
		}
	}
	if then == outlast {
		// Slurm takes a requeue only when every node is done with the job.
		j.c.spawn(func(ctx context.Context) { j.c.requeueEnded(ctx, rec) })
	}
	return nil
}

// giveRoom gives back what was reserved in the store, unless an upload goes on with it.
func (a *attempt) giveRoom(ctx context.Context) {
	if a.room == nil || a.staged {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endDeadline)
	defer cancel()
	if err := a.room.Release(ctx); err != nil {
		a.log.Warn("room in the store", "error", err)
	}
}

// errOver is why a job is not requeued that something preempts.
var errOver = errors.New("the job has ended meanwhile")

// giveWay has Slurm requeue a job that something preempts. One that it has ended meanwhile, for its user or because the grace time is
// over, completes only when this attempt is over, and would refuse until then; one that it has requeued need not be.
func (a *attempt) giveWay(ctx context.Context) error {
	j := a.j
	j.mu.Lock()
	run := j.run
	j.mu.Unlock()
	s, err := j.c.Slurm.Show(ctx, name(j.id))
	switch {
	case err != nil:
		a.log.Info("the job's state is not known, and it is requeued", "error", err)
	case s.Restarts > run:
		return nil
	case !s.Runs():
		return fmt.Errorf("%w: %s", errOver, s.State)
	}
	return j.c.Slurm.Requeue(ctx, j.slurm())
}

// releaseHere ends this node's processes of a job that is captured. It may be called
// twice.
func (j *job) releaseHere(ctx context.Context, id store.ID, _ none) (none, error) {
	j.mu.Lock()
	if p := j.part; p != nil && p.id == id {
		j.part = nil
		if p.lapse != nil {
			p.lapse()
		}
		p.gone = true
		defer close(p.over)
		defer p.returnRoom()
	}
	j.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	for _, h := range j.capsules() {
		g.Go(func() error { return j.release(ctx, h) })
	}
	return none{}, g.Wait()
}

// release ends the programs of a capsule. The sruns must not say a word about it, and
// wardens of tasks leave as if all were well, so that srun ends by itself.
func (j *job) release(ctx context.Context, h *held) error {
	j.mu.Lock()
	for key, r := range h.sruns {
		if err := r.Quiet(ctx); err != nil {
			j.log.Warn("silence srun", "key", key, "error", err)
		}
	}
	j.mu.Unlock()
	programs, err := h.c.Programs(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range programs {
		g.Go(func() error {
			err := h.c.MarkCaptured(ctx, p.Name)
			if err == nil && !p.Ended {
				err = h.c.Signal(ctx, p.Name, syscall.SIGKILL)
			}
			if err == nil {
				err = j.hasEnded(ctx, h, p.Name)
			}
			if err == nil {
				err = h.c.Release(ctx, p.Name, 0)
			}
			if gone(err) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// hasEnded waits until a captured program is dead.
func (j *job) hasEnded(ctx context.Context, h *held, program string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := false
	err := h.c.Watch(ctx, func(e capsule.Event) {
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

// orphaned ends this node's part in a checkpoint whose leader has gone silent, or died:
// if the checkpoint was committed and the job has left, its processes go; else they
// run on.
func (j *job) orphaned(ctx context.Context, id store.ID, release bool) {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		left, err := j.hasLeft(ctx, id, release)
		if err == nil && left {
			_, err = j.releaseHere(ctx, id, none{})
		} else if err == nil {
			err = j.resumeHere(ctx, id)
			for _, h := range j.capsules() {
				err = errors.Join(err, j.wake(ctx, h))
			}
		}
		if err == nil {
			j.log.Info("an abandoned checkpoint is over", "checkpoint", id, "released", left)
			j.tellOthers(ctx, id, left)
			return
		}
		j.log.Error("an abandoned checkpoint", "checkpoint", id, "error", err)
		select {
		case <-time.After(wait):
		case <-j.c.life.Done():
			return
		}
	}
}

// tellOthers spares the other nodes the wait for a leader that was away: this one.
func (j *job) tellOthers(ctx context.Context, id store.ID, left bool) {
	j.mu.Lock()
	nodes := slices.Clone(j.where.today)
	j.mu.Unlock()
	if j.leader() != j.c.Node {
		return
	}
	phase := phaseResume
	if left {
		phase = phaseRelease
	}
	ctx, cancel := context.WithTimeout(ctx, endDeadline)
	defer cancel()
	for _, node := range nodes {
		if node == j.c.Node {
			continue
		}
		if err := j.c.ask(ctx, node, j.id, id.Number, phase, none{}, nil); err != nil {
			j.log.Info("a node will find out by itself", "checkpoint", id, "error", err)
		}
	}
}

// hasLeft says whether the job's processes here are captured for good. Of one that Slurm runs that is known without the store, which may
// be away for long.
func (j *job) hasLeft(ctx context.Context, id store.ID, release bool) (bool, error) {
	if !release {
		return false, nil
	}
	j.mu.Lock()
	run := j.run
	j.mu.Unlock()
	s, err := j.c.Slurm.Show(ctx, name(j.id))
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		return false, err
	}
	if err == nil && s.Runs() && s.Restarts <= run {
		return false, nil
	}
	all, err := j.c.Store.List(ctx, &id.JobID)
	if err != nil {
		return false, err
	}
	committed := slices.ContainsFunc(all, func(s store.Summary) bool { return s.ID == id && s.Err == nil })
	if !committed {
		// A staged one counts, whatever became of it since.
		up, err := j.c.uploads.load(j.id)
		return up != nil && up.Number == id.Number && up.Submitted == j.submitted(), err
	}
	return true, nil
}
