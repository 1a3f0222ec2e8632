// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Route is a way to requeue a job. A job that was requeued keeps its id and starts again from its
// script; routes differ in how they end the job.
type Route string

// The routes, best first.
const (
	// RouteAny is the first of the routes below that this cluster has.
	RouteAny Route = ""
	// RouteREST is POST jobs/requeue, from v0.0.45 (Slurm 26.05) on.
	RouteREST Route = "rest"
	// RouteScontrol is "scontrol requeue", which does the same on any release.
	RouteScontrol Route = "scontrol"
	// RouteExitCode asks the job to exit with the site's RequeueExit=: the client sends
	// Config.RequeueSignal, the batch script's own process answers by exiting with
	// Config.RequeueExit, and slurmctld requeues the job. The requeue takes as long as the job takes
	// to exit. A script without a handler may die of the signal instead, and the job ends with it; a
	// script that has not begun to run yet may never get the signal.
	RouteExitCode Route = "exit-code"
)

var routes = []Route{RouteREST, RouteScontrol, RouteExitCode}

// RouteStatus tells whether this cluster has a route.
type RouteStatus struct {
	Route Route
	// Err is nil if the route can be taken: an UnsupportedError if the cluster lacks it, and another
	// error if the client could not find out.
	Err error
}

func (r RouteStatus) String() string {
	if r.Err != nil {
		return fmt.Sprintf("%s: no: %v", r.Route, r.Err)
	}
	return fmt.Sprintf("%s: yes", r.Route)
}

// RequeueOptions say how to requeue. The zero value does the same as scontrol requeue.
type RequeueOptions struct {
	Hold       bool  // hold the job, so that the job can be edited before its next start
	Incomplete bool  // leave a job alone that is not running; not an error then
	Via        Route // RouteAny picks the best
}

// RequeueResult is the result of Requeue.
type RequeueResult struct {
	Route Route
	// Why has the reason for this route, and against a better one.
	Why string
	// Async is true when the job has been asked and will be requeued after its own last work. See
	// WaitRequeued.
	Async bool
}

// Requeue ends a job's run and queues it again, as its owner, an operator or a
// coordinator. With an array's id, all tasks are requeued. For a heterogeneous job, name the
// leader.
//
// The error is ErrJobPending for a job that is pending anyway, ErrDisabled for a job that was
// submitted with --no-requeue, ErrBatchOnly for a job without a batch script, and an
// UnsupportedError if this cluster has no route. A requeue is never sent twice: after ErrUncertain,
// compare the job's Restarts.
func (c *Client) Requeue(ctx context.Context, ref Ref, opt RequeueOptions) (RequeueResult, error) {
	if err := ref.checkID(); err != nil {
		return RequeueResult{}, err
	}
	chosen, err := c.chooseRoute(ctx, opt.Via)
	if err != nil {
		return RequeueResult{}, fmt.Errorf("job %s: requeue: %w", ref, err)
	}
	switch chosen.Route {
	case RouteREST:
		err = c.requeueREST(ctx, ref, opt)
	case RouteScontrol:
		err = c.requeueScontrol(ctx, ref, opt)
	default:
		chosen.Async = true
		err = c.requeueExit(ctx, ref, opt)
	}
	return chosen, err
}

// RequeueHold is Requeue with Hold: the job comes back pending and held.
func (c *Client) RequeueHold(ctx context.Context, ref Ref) (RequeueResult, error) {
	return c.Requeue(ctx, ref, RequeueOptions{Hold: true})
}

// RequeueRoutes returns every route, best first. Err is nil if the route can be taken here, and has
// the reason if not. Once it is certain whether this host has scontrol, the answer is kept.
func (c *Client) RequeueRoutes(ctx context.Context) []RouteStatus {
	all := make([]RouteStatus, len(routes))
	for i, route := range routes {
		all[i] = RouteStatus{Route: route, Err: c.checkRoute(ctx, route)}
	}
	return all
}

// checkRoute reports whether a route can be taken.
func (c *Client) checkRoute(ctx context.Context, route Route) error {
	switch route {
	case RouteREST:
		p, err := c.currentPeer(ctx)
		if err == nil && !p.listAbilities().requeue {
			err = noAbility(p, "requeue over REST", V0045+" (Slurm 26.05)")
		}
		return err
	case RouteScontrol:
		return c.checkScontrol(ctx)
	case RouteExitCode:
		if c.cfg.RequeueExit == 0 {
			return &UnsupportedError{
				Feature: "requeue by exit code",
				Needs:   "RequeueExit= in slurm.conf and Config.RequeueExit",
				Found:   "Config.RequeueExit 0",
			}
		}
		return nil
	}
	return fmt.Errorf("route %q: want one of %q", route, routes)
}

// chooseRoute returns the route asked for, or the first that can be taken.
func (c *Client) chooseRoute(ctx context.Context, via Route) (RequeueResult, error) {
	if via != RouteAny {
		return RequeueResult{Route: via, Why: "asked for"}, c.checkRoute(ctx, via)
	}
	var not []error
	for _, route := range routes {
		err := c.checkRoute(ctx, route)
		if err == nil {
			return RequeueResult{Route: route, Why: joinReasons(not)}, nil
		}
		if !errors.Is(err, ErrUnsupported) {
			return RequeueResult{}, err
		}
		not = append(not, err)
	}
	return RequeueResult{}, errors.Join(not...)
}

func joinReasons(not []error) string {
	if len(not) == 0 {
		return "the best there is"
	}
	reasons := make([]string, len(not))
	for i, err := range not {
		reasons[i] = err.Error()
	}
	return strings.Join(reasons, "; ")
}

// requeueREST uses the POST form: the other form is a GET that requeues the job, and a proxy
// between us and the server might repeat a GET.
func (c *Client) requeueREST(ctx context.Context, ref Ref, opt RequeueOptions) error {
	flags := []string{}
	if opt.Hold {
		flags = append(flags, "Hold")
	}
	if opt.Incomplete {
		flags = append(flags, "Incomplete")
	}
	_, err := c.requestWithRetries(ctx, operation{build: func(p *peer) (*call, error) {
		if !p.listAbilities().requeue { // renegotiated to an older version
			return nil, noAbility(p, "requeue over REST", V0045)
		}
		request := body{"flags": flags, "jobs": []string{ref.String()}}
		return postCall(p, "job "+ref.String(), request, "jobs", "requeue"), nil
	}})
	return err
}

func (c *Client) requeueScontrol(ctx context.Context, ref Ref, opt RequeueOptions) error {
	args := []string{"requeue"}
	if opt.Hold {
		args[0] = "requeuehold"
	}
	if opt.Incomplete {
		args = append(args, "Incomplete")
	}
	return c.runScontrol(ctx, "job "+ref.String(), append(args, ref.String())...)
}

// requeueExit first checks that Slurm would requeue the job: after the signal it is too late,
// because a signal cannot be taken back.
func (c *Client) requeueExit(ctx context.Context, ref Ref, opt RequeueOptions) error {
	job, err := c.Job(ctx, ref)
	if err != nil {
		return err
	}
	if err := exitRefuses(&job); err != nil {
		if opt.Incomplete && job.State.Base != Running {
			return nil
		}
		return fmt.Errorf("job %s: %w", ref, err)
	}
	// A running job may be held; the hold stays after the requeue.
	if opt.Hold {
		if err := c.Hold(ctx, job.Ref()); err != nil {
			return err
		}
	}
	err = c.Signal(ctx, job.Ref(), c.cfg.RequeueSignal, SignalJob)
	if err == nil || !opt.Hold || errors.Is(err, ErrUncertain) {
		return err
	}
	return errors.Join(err, wrapError("undo", c.Release(ctx, job.Ref(), time.Time{})))
}

// exitRefuses returns Slurm's error for a job that Slurm would not requeue; else nil.
func exitRefuses(j *Job) error {
	switch {
	case j.State.Has(Completing):
		return ErrTransition
	case j.State.Base == Pending:
		return ErrJobPending
	case j.State.Base != Running:
		return fmt.Errorf("it is %s: %w", j.State, ErrJobNotRunning)
	case !j.Batch:
		return ErrBatchOnly
	case !j.Requeueable:
		return ErrDisabled
	case j.Het.JobID != 0 && j.Het.Offset != 0:
		return ErrNotHetLeader
	}
	return nil
}

// waitInterval is the time between two looks of WaitRequeued.
const waitInterval = 250 * time.Millisecond

// WaitRequeued waits until the job has been restarted more often than restarts says and has left
// its nodes, and returns the job in its state then: pending, or running again. The wait ends with
// the context (the job is returned as last seen), or when the job has ended and will not be
// requeued (ErrJobFinished).
func (c *Client) WaitRequeued(ctx context.Context, ref Ref, restarts int64) (Job, error) {
	for {
		job, err := c.Job(ctx, ref)
		switch {
		case err != nil:
			return job, err
		case job.Restarts > restarts && !job.State.Has(Completing):
			return job, nil
		case job.State.Finished() && job.Restarts <= restarts:
			return job, fmt.Errorf("job %s: it is %s and was not requeued: %w", ref, job.State, ErrJobFinished)
		}
		if err := c.sleep(ctx, waitInterval); err != nil {
			return job, fmt.Errorf("job %s: not requeued yet, it is %s: %w", ref, job.State, err)
		}
	}
}
