// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build live

package slurmrest_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// trapper answers USR2 with the exit code that requeues, and TERM at once. The script makes a file
// when its traps are set: an earlier signal would end the script.
const trapper = "#!/bin/bash\ntrap 'exit 123' USR2\ntrap 'exit 0' TERM\n" +
	"touch /shared/ready-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}\nwhile :; do sleep 0.1 & wait; done\n"

// waitForTrapper waits until a trapper runs and is ready.
func (l *live) waitForTrapper(ref slurmrest.Ref) slurmrest.Job {
	l.Helper()
	j := l.waitForJob(ref, "running", isRunning)
	path := fmt.Sprintf("/shared/ready-%d-%d", j.ID, j.Restarts)
	l.waitFor(path, func(context.Context) (string, bool) {
		_, err := os.Stat(path)
		return fmt.Sprint(err), err == nil
	})
	os.Remove(path)
	return j
}

// waitForRequeue waits until a job is back in the queue.
func (l *live) waitForRequeue(ref slurmrest.Ref, restarts int64) (slurmrest.Job, error) {
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	return l.root.WaitRequeued(ctx, ref, restarts)
}

// requeueVia requeues by a single route: plainly, with a hold, and jobs that cannot be requeued.
func requeueVia(route slurmrest.Route) func(*live, string) {
	return func(l *live, version string) {
		via := slurmrest.RequeueOptions{Via: route}
		ref := l.submitJob(slurmrest.JobSubmit{Script: trapper})
		j := l.waitForTrapper(ref)
		if _, err := l.root.Requeue(l.Context(), ref, via); route == slurmrest.RouteREST && version != slurmrest.V0045 {
			l.mustBe(err, slurmrest.ErrUnsupported)
			return
		} else if err != nil {
			l.Fatal(err)
		}
		j, err := l.waitForRequeue(ref, j.Restarts)
		l.mustSucceed(err)
		if j.Restarts != 1 || j.State.Base != slurmrest.Pending || j.Held || j.Nodes != "" {
			l.Errorf("requeued: %+v", j)
		}
		l.mustSucceed(l.root.Update(l.Context(), ref, slurmrest.JobUpdate{BeginTime: &time.Time{}}))
		l.waitForTrapper(ref)

		held := via
		held.Hold = true
		_, err = l.alice.Requeue(l.Context(), ref, held)
		l.mustSucceed(err)
		j, err = l.waitForRequeue(ref, 1)
		l.mustSucceed(err)
		if j.Restarts != 2 || !j.Held || j.State.Base != slurmrest.Pending {
			l.Errorf("requeued and held: %+v", j)
		}
		l.mustSucceed(l.root.Update(l.Context(), ref, slurmrest.JobUpdate{RequiredNodes: pointerTo("n2")}))
		l.mustSucceed(l.root.Release(l.Context(), ref, time.Time{}))
		if j := l.waitForTrapper(ref); j.Nodes != "n2" || j.Held {
			l.Errorf("released: %+v", j)
		}

		fixed := l.submitJob(slurmrest.JobSubmit{Script: trapper, Requeue: pointerTo(false)})
		l.waitForTrapper(fixed)
		_, err = l.root.Requeue(l.Context(), fixed, via)
		l.mustBe(err, slurmrest.ErrDisabled)
		waiting := l.submitJob(slurmrest.JobSubmit{Hold: true})
		_, err = l.root.Requeue(l.Context(), waiting, via)
		l.mustBe(err, slurmrest.ErrJobPending)
		via.Incomplete = true
		_, err = l.root.Requeue(l.Context(), waiting, via)
		l.mustSucceed(err)
		_, err = l.root.Requeue(l.Context(), slurmrest.JobID(4_000_000), slurmrest.RequeueOptions{Via: route})
		l.mustBe(err, slurmrest.ErrInvalidJobID)
	}
}

// testRequeueAny: without a wish of the caller, the route is the best that the version has.
func testRequeueAny(l *live, version string) {
	ref := l.submitJob(slurmrest.JobSubmit{})
	l.waitForJob(ref, "running", isRunning)
	want := slurmrest.RouteScontrol
	if version == slurmrest.V0045 {
		want = slurmrest.RouteREST
	}
	done, err := l.root.RequeueHold(l.Context(), ref)
	if err != nil || done.Route != want || done.Async {
		l.Errorf("%+v, %v; want %s", done, err, want)
	}
	for _, r := range l.root.RequeueRoutes(l.Context()) {
		l.Logf("%s: %s", version, r)
	}
}

// TestLiveExitRouteWithoutConsent: a job that does not answer the signal by the exit code is not
// reported as requeued.
func TestLiveExitRouteWithoutConsent(t *testing.T) {
	version := servedVersions(t)[0]
	cfg := rootConfig(t, version)
	l := &live{T: t, root: newClient(t, cfg)}
	cfg.AsUser = "alice"
	l.alice = newClient(t, cfg)
	// The shell is replaced: the signal ends the program.
	ref := l.submitJob(slurmrest.JobSubmit{Script: "#!/bin/sh\ntouch /shared/ready-$SLURM_JOB_ID-0\nexec sleep 600\n"})
	l.waitForTrapper(ref)
	done, err := l.root.Requeue(t.Context(), ref, slurmrest.RequeueOptions{Via: slurmrest.RouteExitCode})
	if err != nil || !done.Async {
		t.Fatalf("Requeue by the exit code = %+v, %v; want Async", done, err)
	}
	_, err = l.waitForRequeue(ref, 0)
	l.mustBe(err, slurmrest.ErrJobFinished)
}
