// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// errGivenUp is what a node says that has ended programs of a run which could not be
// restored: a checkpoint without them would be newer than the one that has them.
var errGivenUp = errors.New("this run could not be restored")

// giveUpRun ends a run that cannot be restored: the job waits, held, with the reason in its
// comment, or begins anew if its user wants that. The checkpoint stays as it is. It
// returns when Slurm knows: whoever ends before that, a task or its script, would be taken
// for the job's own end.
func (j *job) giveUpRun(why error) error {
	if !j.markGivenUp() {
		return nil // of many programs that could not be restored, the first said why
	}
	return j.holdOrRestart(why)
}

// markGivenUp has nothing of the run be captured or told to its script any more. It says
// whether that is new.
func (j *job) markGivenUp() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := !j.givenUp
	j.givenUp = true
	return first
}

func (j *job) isGivenUp() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.givenUp
}

// holdOrRestart is giveUp once that is marked.
func (j *job) holdOrRestart(why error) error {
	ctx := context.WithoutCancel(j.c.daemonCtx)
	j.mu.Lock()
	rec := j.rec
	j.mu.Unlock()
	if rec == nil { // it was not even learnt
		var err error
		if rec, err = j.c.records.load(j.id); err != nil || rec == nil {
			return errors.Join(err, ErrNoJob)
		}
	}
	if cmp.Or(rec.Options.OnFailure, j.c.OnFailure) == "restart" {
		again := *rec
		again.BeginAnew = true
		if err := j.c.records.save(&again); err != nil {
			return err
		}
		j.addEvent(eventRestart, nil, why.Error())
		j.setComment("begins anew, as asked for: " + why.Error())
		return j.retrySlurmCommand(ctx, j.c.Slurm.Requeue)
	}
	// At once, since the end of the run has other nodes say that they took no checkpoint.
	tell := func() {
		if !strings.Contains(why.Error(), errGivenUp.Error()) { // else who gave up has said more
			j.setCommentNow(ctx, commentHeld+why.Error())
		}
	}
	if !strings.Contains(why.Error(), errGivenUp.Error()) {
		j.addEvent(eventHeld, nil, why.Error())
	}
	tell()
	err := j.retrySlurmCommand(ctx, j.c.Slurm.RequeueHold)
	// What was restored must not run on until Slurm's patience ends.
	err = errors.Join(err, j.killPrograms(ctx))
	// Another node may have said something else meanwhile, that the job is restored even.
	tell()
	return err
}

// killPrograms ends the programs of this node.
func (j *job) killPrograms(ctx context.Context) (err error) {
	for _, lc := range j.localCapsules() {
		programs, _ := lc.capsule.Programs(ctx)
		for _, p := range programs {
			if p.Waiting || p.Ended {
				continue
			}
			if e := lc.capsule.Signal(ctx, p.Name, syscall.SIGKILL); !isGone(e) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// requeueRun ends this run, of which something is lost, and has the job resume from its newest checkpoint.
func (j *job) requeueRun(ctx context.Context, why error) error {
	if !j.markGivenUp() {
		return nil
	}
	j.freezeEverything(ctx)
	j.addEvent(eventRequeued, nil, why.Error())
	j.setCommentNow(ctx, "to be run again: "+why.Error())
	err := j.retrySlurmCommand(ctx, j.c.Slurm.Requeue)
	return errors.Join(err, j.killPrograms(ctx))
}

// holdRun is rerun for a run that would end the same way again: the job is held with the reason.
func (j *job) holdRun(ctx context.Context, why error) error {
	if !j.markGivenUp() {
		return nil
	}
	j.freezeEverything(ctx)
	return j.holdOrRestart(why)
}

// freezeEverything has the programs of this node stand still, before they notice what they have lost, and fail.
func (j *job) freezeEverything(ctx context.Context) {
	for _, lc := range j.localCapsules() {
		programs, err := runningPrograms(ctx, lc.capsule)
		for _, p := range programs {
			err = errors.Join(err, lc.capsule.Freeze(ctx, p.Name))
		}
		if err != nil && !isGone(err) {
			j.log.Warn("freeze", "capsule", lc.index, "error", err)
		}
	}
}

// How long Slurm is asked before it is looked at whether the job is there at all, and how
// long it is left alone then.
const (
	slurmCommandTimeout = 30 * time.Second
	slurmRetryInterval  = 2 * time.Second
)

// retrySlurmCommand goes on until Slurm has done something to the job, or has ended the run by
// itself. A controller that is away comes back.
func (j *job) retrySlurmCommand(ctx context.Context, do func(context.Context, string) error) error {
	j.mu.Lock()
	run := j.run
	j.mu.Unlock()
	for {
		try, cancel := context.WithTimeout(ctx, slurmCommandTimeout)
		err := do(try, j.slurmName())
		cancel()
		if err == nil {
			return nil
		}
		j.log.Warn("Slurm is told again", "error", err)
		try, cancel = context.WithTimeout(ctx, slurmCommandTimeout)
		s, looked := j.c.Slurm.Show(try, jobName(j.id))
		cancel()
		if errors.Is(looked, slurm.ErrNoJob) || looked == nil && (!s.Runs() || s.Restarts > run && j.isLearnt()) || !sleepUnlessDone(j.c.daemonCtx, slurmRetryInterval) {
			return err
		}
	}
}

// isLearnt says whether it has been learnt what run this is.
func (j *job) isLearnt() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rec != nil
}
