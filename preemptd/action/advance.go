// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// step is a part of an action. Both functions may be called any number of times.
type step struct {
	name string // for the journal
	// words name the step's work, for people.
	words string
	// look says whether the step is done, from the present state of the job. look changes only the memo, which the
	// journal keeps if the step is done.
	look func(context.Context, *actionRun) finding
	// do carries the step out; nil for a step that only waits.
	do func(context.Context, *actionRun) error
	// within is how long the step may take.
	within func(Patience) time.Duration
	// optional steps are passed over if they cannot be done.
	optional bool
	// touches: from this step on the job may differ from its first state, and failing means
	// undoing.
	touches bool
	// ended: the step waits for the end of the job, or goes on although the job has ended.
	ended bool
}

// finding is the result of a look.
type finding struct {
	outcome outcome
	why     string
}

type outcome int

const (
	done        outcome = iota
	todo                // call do
	wait                // look again later
	impossible          // the step cannot be done
	takenOver           // another user or program did something to the job: leave the job to them
	lostBySlurm         // Slurm has lost the changes of earlier steps: repeat them
)

// advance does a round of the action's current step: look, then act on the result.
func (w *actionRun) advance(ctx context.Context) error {
	if d := w.a.NotBefore.Sub(w.r.currentTime()); d > 0 {
		if err := w.r.sleepFor(ctx, d); err != nil {
			return err
		}
	}
	s := w.currentSteps()[stepIndex(w.currentSteps(), w.a.Step)]
	if w.a.Revision == 0 { // the first step, before it is done
		if err := w.saveStep(ctx, ""); err != nil {
			return err
		}
	}
	job, err := w.r.Slurm.Job(ctx, w.jobRef())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, slurmrest.ErrInvalidJobID):
		return w.endAction(ctx, journal.Dropped, "Slurm knows the job no more")
	case err != nil:
		return w.retryLater(ctx, s, err)
	}
	w.job = job
	if w.job.State.Finished() && !s.ended {
		return w.endAction(ctx, journal.Dropped, "the job is "+w.job.State.String())
	}
	v := s.look(ctx, w)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch v.outcome {
	case done:
		return w.nextStep(ctx, v.why)
	case takenOver:
		return w.endTakenOver(ctx, v.why)
	case lostBySlurm:
		return w.repeatEdit(ctx, v.why)
	case impossible:
		return w.giveUpStep(ctx, s, errors.New(v.why))
	case wait:
		if w.isOverdue(s) {
			return w.giveUpStep(ctx, s, fmt.Errorf("%s: not within %s: %s", s.words, s.within(w.r.Patience.withDefaults()), v.why))
		}
		return w.r.sleepFor(ctx, w.r.pollInterval())
	}
	if err := s.do(ctx, w); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return w.retryLater(ctx, s, err)
	}
	// Done, unless the next look says otherwise; then the request was accepted and had no effect
	// yet.
	job, err = w.r.Slurm.Job(ctx, w.jobRef())
	if err == nil {
		w.job = job
		if v := s.look(ctx, w); v.outcome == todo {
			return w.retryLater(ctx, s, errNoEffect)
		}
	}
	return ctx.Err()
}

// repeatEdit goes back to the first step that edits or releases the job, once.
func (w *actionRun) repeatEdit(ctx context.Context, text string) error {
	w.memo.EditRepeated, w.memo.Edited, w.memo.Released = true, false, false
	w.a.Step = releaseStep.name
	if stepIndex(w.currentSteps(), edit.name) >= 0 {
		w.a.Step = edit.name
	}
	w.a.Attempt, w.a.NotBefore = 0, time.Time{}
	return w.saveStep(ctx, text)
}

var errNoEffect = errors.New("it was accepted and has no effect yet")

// nextStep goes on to the next step, or ends the action.
func (w *actionRun) nextStep(ctx context.Context, text string) error {
	steps := w.currentSteps()
	i := stepIndex(steps, w.a.Step) + 1
	if w.memo.Lent && w.a.State == journal.Going && i < len(steps) {
		i = max(i, stepIndex(steps, report.name)) // in place: only the report is left to do
	}
	w.a.Attempt, w.a.NotBefore = 0, time.Time{}
	if i < len(steps) {
		w.a.Step = steps[i].name
		w.memo.Touched = w.memo.Touched || steps[i].touches
		return w.saveStep(ctx, text)
	}
	if w.a.State == journal.Going {
		return w.endAction(ctx, journal.Done, text)
	}
	if w.memo.StaysHeld {
		return w.endAction(ctx, journal.Stuck, w.a.Problem)
	}
	return w.endAction(ctx, w.memo.EndsAs, w.a.Problem)
}

func (w *actionRun) endAction(ctx context.Context, state journal.State, problem string) error {
	w.a.State = state
	switch {
	case state == journal.Done:
	case w.a.Problem == "" || strings.HasPrefix(problem, w.a.Problem):
		w.a.Problem = problem
	default:
		w.a.Problem += "; " + problem
	}
	return w.saveStep(ctx, problem)
}

// isOverdue reports whether the step has taken too long. An action that is undone has no such limit: a job that we
// hold is not forgotten.
func (w *actionRun) isOverdue(s step) bool {
	return w.a.State == journal.Going && w.r.currentTime().Sub(w.a.StepBegan) > s.within(w.r.Patience.withDefaults())
}

// retryLater is called with the error of a request, and repeats the request later if that may help.
func (w *actionRun) retryLater(ctx context.Context, s step, err error) error {
	if !mayRepeatStep(err) || w.isOverdue(s) {
		return w.giveUpStep(ctx, s, err)
	}
	w.a.Attempt++
	w.a.NotBefore = w.r.currentTime().Add(retryDelay(w.a.Attempt))
	return w.saveStep(ctx, err.Error())
}

// retryDelay is 1, 2, 4 … 30 seconds.
func retryDelay(attempt int) time.Duration {
	return min(time.Second<<min(attempt-1, 10), 30*time.Second)
}

// giveUpStep passes over an optional step or a step of undoing; after any other step the action is undone.
func (w *actionRun) giveUpStep(ctx context.Context, s step, err error) error {
	text := strings.TrimPrefix(err.Error(), fmt.Sprintf("job %d: ", w.a.Job))
	switch {
	case s.optional:
		return w.nextStep(ctx, text)
	case w.a.State == journal.Undoing:
		w.memo.StaysHeld = w.memo.StaysHeld || s.name == stepUnpark
		w.a.Problem += "; " + s.words + ": " + text
		return w.nextStep(ctx, text)
	}
	w.a.Problem = text
	return w.startUndoing(ctx, journal.Undone)
}

// endTakenOver leaves the job to the user or program that did something to the job.
func (w *actionRun) endTakenOver(ctx context.Context, why string) error {
	if w.a.State == journal.Undoing { // the changes of the steps before have been undone already
		return w.nextStep(ctx, why)
	}
	if w.a.Step == restore.name { // the job has started where the action was to have it
		return w.endAction(ctx, journal.Dropped, why)
	}
	w.a.Problem = why
	return w.startUndoing(ctx, journal.Dropped)
}

func (w *actionRun) startUndoing(ctx context.Context, then journal.State) error {
	w.memo.EndsAs = then
	w.a.State, w.a.Step = journal.Undoing, undoSteps[0].name
	w.a.Attempt, w.a.NotBefore = 0, time.Time{}
	return w.saveStep(ctx, w.a.Problem)
}

// transientErrors are the errors that may pass. ErrUncertain is among them: the next look tells whether
// the request was carried out. So are refusals because a job has changed since the look.
var transientErrors = []error{
	slurmrest.ErrUncertain, slurmrest.ErrUnreachable, slurmrest.ErrController, slurmrest.ErrDatabase, slurmrest.ErrBusy, slurmrest.ErrTransition,
	slurmrest.ErrJobPending, slurmrest.ErrJobNotPending, slurmrest.ErrJobNotRunning, slurmrest.ErrJobFinished, slurmrest.ErrAlreadyDone, slurmrest.ErrNoChange,
	slurmrest.ErrInvalidJobID, slurmrest.ErrAuth, // a token that expired is read again
	rpc.ErrBusy, rpc.ErrNotNow, rpc.ErrUnreachable, rpc.ErrTimeout, rpc.ErrNotLeader, rpc.ErrNotRunning,
	context.DeadlineExceeded, // a request's own
	errNoEffect,
}

// mayRepeatStep tells whether a step that failed with err may succeed later.
func mayRepeatStep(err error) bool {
	if slurmrest.Retryable(err) {
		return true
	}
	for _, is := range transientErrors {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// stepIndex is the place of a step, or -1.
func stepIndex(steps []step, name string) int {
	for i, s := range steps {
		if s.name == name {
			return i
		}
	}
	return -1
}

// currentSteps are the steps of the action's kind, or undoSteps while the action is undone.
func (w *actionRun) currentSteps() []step {
	if w.a.State == journal.Undoing {
		return undoSteps
	}
	return w.kind.steps(w.args)
}

// holdingSteps are the steps in which the job has, or may have, the nodes and GPUs of its run.
var holdingSteps = []string{"", checkJob.name, announce.name, checkpoint.name, park.name, leaveNodes.name}

// MakesRoom returns the job for which an action that has not ended makes room, and the nodes where; 0 if the action
// makes room for no job, or if the action's job has left already.
func MakesRoom(a *journal.Action) (job int64, nodes []string, err error) {
	var args Args
	if err := json.Unmarshal(a.Args, &args); err != nil {
		return 0, nil, fmt.Errorf("action %d: %w", a.ID, err)
	}
	if a.State != journal.Going || !slices.Contains(holdingSteps, a.Step) {
		return 0, nil, nil
	}
	return args.For, args.ForNodes, nil
}
