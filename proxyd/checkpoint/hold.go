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

// giveUp ends a run that cannot be restored: the job waits, held, with the reason in its
// comment, or begins anew if its user wants that. The checkpoint stays as it is. It
// returns when Slurm knows: whoever ends before that, a task or its script, would be taken
// for the job's own end.
func (j *job) giveUp(why error) error {
	if !j.markGivenUp() {
		return nil // of many programs that could not be restored, the first said why
	}
	return j.endRun(why)
}

// markGivenUp has nothing of the run be captured or told to its script any more. It says
// whether that is new.
func (j *job) markGivenUp() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := !j.gaveUp
	j.gaveUp = true
	return first
}

func (j *job) givenUp() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.gaveUp
}

// endRun is giveUp once that is marked.
func (j *job) endRun(why error) error {
	ctx := context.WithoutCancel(j.c.life)
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
		again.Restart = true
		if err := j.c.records.save(&again); err != nil {
			return err
		}
		j.happened(eventAnew, nil, why.Error())
		j.say("begins anew, as asked for: " + why.Error())
		return j.untilTaken(ctx, j.c.Slurm.Requeue)
	}
	// At once, since the end of the run has other nodes say that they took no checkpoint.
	tell := func() {
		if !strings.Contains(why.Error(), errGivenUp.Error()) { // else who gave up has said more
			j.sayNow(ctx, sayHeld+why.Error())
		}
	}
	if !strings.Contains(why.Error(), errGivenUp.Error()) {
		j.happened(eventHeld, nil, why.Error())
	}
	tell()
	err := j.untilTaken(ctx, j.c.Slurm.RequeueHold)
	// What was restored must not run on until Slurm's patience ends.
	err = errors.Join(err, j.killAll(ctx))
	// Another node may have said something else meanwhile, that the job is restored even.
	tell()
	return err
}

// killAll ends the programs of this node.
func (j *job) killAll(ctx context.Context) (err error) {
	for _, h := range j.capsules() {
		programs, _ := h.c.Programs(ctx)
		for _, p := range programs {
			if p.Waiting || p.Ended {
				continue
			}
			if e := h.c.Signal(ctx, p.Name, syscall.SIGKILL); !isGone(e) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// rerun ends this run, of which something is lost, and has the job resume from its newest checkpoint.
func (j *job) rerun(ctx context.Context, why error) error {
	if !j.markGivenUp() {
		return nil
	}
	j.standStill(ctx)
	j.happened(eventRerun, nil, why.Error())
	j.sayNow(ctx, "to be run again: "+why.Error())
	err := j.untilTaken(ctx, j.c.Slurm.Requeue)
	return errors.Join(err, j.killAll(ctx))
}

// holdBack is rerun for a run that would end the same way again: the job is held with the reason.
func (j *job) holdBack(ctx context.Context, why error) error {
	if !j.markGivenUp() {
		return nil
	}
	j.standStill(ctx)
	return j.endRun(why)
}

// standStill has the programs of this node stand still, before they notice what they have lost, and fail.
func (j *job) standStill(ctx context.Context) {
	for _, h := range j.capsules() {
		programs, err := runningPrograms(ctx, h.c)
		for _, p := range programs {
			err = errors.Join(err, h.c.Freeze(ctx, p.Name))
		}
		if err != nil && !isGone(err) {
			j.log.Warn("freeze", "capsule", h.index, "error", err)
		}
	}
}

// How long Slurm is asked before it is looked at whether the job is there at all, and how
// long it is left alone then.
const (
	takenWithin = 30 * time.Second
	takenAgain  = 2 * time.Second
)

// untilTaken goes on until Slurm has done something to the job, or has ended the run by
// itself. A controller that is away comes back.
func (j *job) untilTaken(ctx context.Context, do func(context.Context, string) error) error {
	j.mu.Lock()
	run := j.run
	j.mu.Unlock()
	for {
		try, cancel := context.WithTimeout(ctx, takenWithin)
		err := do(try, j.slurm())
		cancel()
		if err == nil {
			return nil
		}
		j.log.Warn("Slurm is told again", "error", err)
		try, cancel = context.WithTimeout(ctx, takenWithin)
		s, looked := j.c.Slurm.Show(try, name(j.id))
		cancel()
		if errors.Is(looked, slurm.ErrNoJob) || looked == nil && (!s.Runs() || s.Restarts > run && j.known()) || !sleepUnlessDone(j.c.life, takenAgain) {
			return err
		}
	}
}

// known says whether it has been learnt what run this is.
func (j *job) known() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rec != nil
}
