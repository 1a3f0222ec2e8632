// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// SubmittedJob is a job that was accepted.
type SubmittedJob struct {
	ID       int64    // of the job, the array or the leader
	Message  string   // of the site's job_submit plugin
	Warnings []string // for example why the job will not start at once
}

// Submit submits a batch job as the user that the requests are made as. A submission is never sent
// twice: after ErrUncertain, look for the job by its name or comment.
func (c *Client) Submit(ctx context.Context, job JobSubmit) (SubmittedJob, error) {
	return c.submitScript(ctx, job.Script, []JobSubmit{job}, "job")
}

// SubmitHet submits a heterogeneous job; its script is the first component's.
func (c *Client) SubmitHet(ctx context.Context, components []JobSubmit) (SubmittedJob, error) {
	if len(components) < 2 {
		return SubmittedJob{}, errors.New("submit: a heterogeneous job has at least two components")
	}
	for i := range components[1:] {
		if components[i+1].Script != "" {
			return SubmittedJob{}, fmt.Errorf("submit: component %d: only the first has a script", i+1)
		}
	}
	return c.submitScript(ctx, components[0].Script, components, "jobs")
}

// submitScript sends components under key, which is "job" for a single component.
func (c *Client) submitScript(ctx context.Context, script string, components []JobSubmit, key string) (SubmittedJob, error) {
	if err := components[0].checkSubmit(); err != nil {
		return SubmittedJob{}, err
	}
	for _, one := range components[1:] {
		if err := one.checkFields(); err != nil {
			return SubmittedJob{}, err
		}
	}
	a, err := c.requestWithRetries(ctx, operation{build: func(p *peer) (*call, error) {
		request := body{"script": script}
		var all []body
		for _, one := range components {
			part := p.jobSubmit(one)
			if part.err != nil {
				return nil, part.err
			}
			all = append(all, part.body)
		}
		if request[key] = all; key == "job" {
			request[key] = all[0]
		}
		return postCall(p, "submit", request, "job", "submit"), nil
	}})
	return submitOutcome(a, err)
}

// submitOutcome reads the outcome. v0.0.38 lists the reason why an accepted job waits as an error:
// a job that has an id was accepted.
func submitOutcome(a answer, err error) (SubmittedJob, error) {
	var refused *Error
	if err != nil && (a.JobID == 0 || !errors.As(err, &refused)) {
		return SubmittedJob{}, err
	}
	done := SubmittedJob{ID: a.JobID, Message: a.Message, Warnings: a.listWarnings()}
	if err != nil {
		done.Warnings = append(done.Warnings, err.Error())
	}
	if done.ID == 0 {
		return SubmittedJob{}, fmt.Errorf("submit: %w: no job id in the answer", ErrUncertain)
	}
	return done, nil
}

// Update edits a job. Slurm applies the fields in the order of JobUpdate and stops at the first
// that is refused, with all fields before applied. Sending the same update again is harmless,
// except that a Hold or Release may meet a hold or release that another user made in between; the
// client leaves that to the caller.
//
// An array's id edits all of its tasks that can be edited. "12_3" is a task; from v0.0.40 on the
// task must have started or been edited before, else UnsupportedError.
func (c *Client) Update(ctx context.Context, ref Ref, edit JobUpdate) error {
	if err := ref.checkID(); err != nil {
		return err
	}
	subject := "job " + ref.String()
	if err := edit.checkFields(); err != nil {
		return wrapError(subject, err)
	}
	target, err := c.updatableRef(ctx, ref)
	if err != nil {
		return err
	}
	if edit.BeginTime != nil && edit.BeginTime.Before(c.cfg.Now().Add(revocation)) {
		if err := c.afterRevocation(ctx, ref); err != nil {
			return err
		}
	}
	var can abilities
	_, err = c.requestWithRetries(ctx, operation{build: func(p *peer) (*call, error) {
		can = p.listAbilities()
		request := p.jobUpdate(edit, c.cfg.Now())
		return postCall(p, subject, request.body, "job", target.String()), wrapError(subject, request.err)
	}})
	if can.arrayFalse && falseAlarm(err) {
		return nil
	}
	return err
}

// revocation is the time for which a job must not start after a requeue. The requeue
// revokes its credential on the nodes, and slurmd takes a new credential only if it was made in a
// later second; a job that starts sooner fails with "Job credential revoked", and is not requeued.
// Slurm's own delay after a requeue is long enough; a begin time of now removes this delay.
const revocation = 2 * time.Second

// afterRevocation waits until a job that was just requeued may start. A requeue sets
// the submit time, by slurmctld's clock.
func (c *Client) afterRevocation(ctx context.Context, ref Ref) error {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	all, now, err := c.jobRecords(ctx, ref)
	if err != nil {
		return err
	}
	var wait time.Duration
	for i := range all {
		if all[i].Restarts > 0 && all[i].State.Base == Pending {
			wait = max(wait, revocation-now.Sub(all[i].SubmitTime))
		}
	}
	if wait <= 0 {
		return nil
	}
	return wrapError("job "+ref.String(), c.sleep(ctx, min(wait, revocation)))
}

// falseAlarm reports whether an error is 22.05's way to say that an array was updated: 22.05 takes
// the list of outcomes for a list of failures. A failure has a number.
func falseAlarm(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusOK && e.Number == 0 && len(e.others) == 0 &&
		strings.HasPrefix(e.Description, "job array update")
}

// updatableRef is the reference under which the server takes an update of ref.
func (c *Client) updatableRef(ctx context.Context, ref Ref) (Ref, error) {
	p, err := c.currentPeer(ctx)
	if err != nil {
		return Ref{}, err
	}
	if ref.kind == 0 || ref.IsTask() && p.listAbilities().updateTask {
		return ref, nil
	}
	return c.resolveRef(ctx, p, ref)
}

// resolveRef finds the id that a task or component has of its own.
func (c *Client) resolveRef(ctx context.Context, p *peer, ref Ref) (Ref, error) {
	job, err := c.Job(ctx, ref)
	if err != nil {
		return Ref{}, err
	}
	if !ref.namesJob(&job) {
		return Ref{}, wrapError("job "+ref.String(), &UnsupportedError{
			Feature: "update of an array task that has no record of its own",
			Needs:   "the task to start, or scontrol",
			Found:   "REST API " + p.versionName(),
		})
	}
	return job.Ref(), nil
}

func wrapError(subject string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// Hold keeps a pending job from starting, and a running job from starting again after a requeue.
// Only an operator can release the hold of an operator.
func (c *Client) Hold(ctx context.Context, ref Ref) error {
	hold := true
	return c.Update(ctx, ref, JobUpdate{Hold: &hold})
}

// Release undoes a hold, and lets the job start from the given time on; a zero time
// is as soon as possible, also shortly after a requeue. Of a running job, which can
// be held too, only the hold is undone.
func (c *Client) Release(ctx context.Context, ref Ref, begin time.Time) error {
	hold := false
	err := c.Update(ctx, ref, JobUpdate{Hold: &hold, BeginTime: &begin})
	if errors.Is(err, ErrJobNotPending) { // the begin time is refused for a job that is not pending
		return c.Update(ctx, ref, JobUpdate{Hold: &hold})
	}
	return err
}

// SignalTo says which processes of a job get a signal.
type SignalTo string

// The targets of a signal.
const (
	// SignalJob is the batch step's process group: the script's shell, its foreground programs, and
	// thereby the srun that passes signals on.
	SignalJob SignalTo = ""
	// SignalShell is the script's shell alone. Not over v0.0.38.
	SignalShell SignalTo = "BATCH_JOB"
	// SignalSteps is every step but the batch step. Not over v0.0.38.
	SignalSteps SignalTo = "FULL_STEPS_ONLY"
)

// Signal sends a signal, "USR2" or "12", to a job, a task or a component. Slurm counts a job that
// is already over as signalled. A signal is never sent twice.
func (c *Client) Signal(ctx context.Context, ref Ref, signal string, to SignalTo) error {
	if !signalName(signal) {
		return fmt.Errorf("job %s: signal %q: want a name like USR2 or a number", ref, clipText(signal, 40))
	}
	return c.deleteJob(ctx, ref, strings.ToUpper(signal), to)
}

// Cancel ends a job, and the job is not requeued. Cancelling a job that is over is not an error.
func (c *Client) Cancel(ctx context.Context, ref Ref) error {
	err := c.deleteJob(ctx, ref, "KILL", SignalJob)
	if errors.Is(err, ErrAlreadyDone) || errors.Is(err, ErrJobFinished) {
		return nil
	}
	return err
}

func (c *Client) deleteJob(ctx context.Context, ref Ref, signal string, to SignalTo) error {
	if err := ref.checkID(); err != nil {
		return err
	}
	p, err := c.currentPeer(ctx)
	if err != nil {
		return err
	}
	if !p.listAbilities().signalSaid { // this version accepts a signal to a job that does not exist
		if _, err := c.Job(ctx, ref); err != nil {
			return err
		}
	}
	subject := "job " + ref.String()
	_, err = c.requestWithRetries(ctx, operation{build: func(p *peer) (*call, error) {
		query := url.Values{"signal": {signal}}
		if to != SignalJob {
			if !p.listAbilities().signalTo {
				return nil, wrapError(subject, noAbility(p, "signal to "+string(to), V0040))
			}
			query.Set("flags", string(to))
		}
		return &call{
			method: http.MethodDelete, path: pathOf(p, "job", ref.String()),
			query: query, subject: subject,
		}, nil
	}})
	return err
}

// signalName reports whether a text may name a signal. Slurm decides whether the signal exists.
func signalName(text string) bool {
	if text == "" || len(text) > 12 {
		return false
	}
	for _, c := range strings.ToUpper(text) {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
