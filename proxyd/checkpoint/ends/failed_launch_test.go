// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
)

// showHeldJob has Slurm show job 7 of a user in a state with a reason, and take commands.
func showHeldJob(t *testing.T, q slurmtest.Queue, uid, restarts int, state, reason string) {
	t.Helper()
	line := fmt.Sprintf("7|%d|%s|%s|%d|1|1|N/A|2026-11-20T16:41:18|N/A|7|N/A|N/A|N/A||2026-07-01T12:00:00|N/A|\n", uid, state, reason, restarts)
	err := errors.Join(os.WriteFile(filepath.Join(q.Dir, "jobs"), []byte(line), 0o644),
		os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(requeuingControl), 0o755))
	if err != nil {
		t.Fatal(err)
	}
}

// listReleases returns how often Slurm was asked to release job 7, and all that Slurm was asked.
func listReleases(t *testing.T, q slurmtest.Queue) (int, string) {
	t.Helper()
	asked, err := os.ReadFile(filepath.Join(q.Dir, "asked"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count("\n"+string(asked), "\nrelease 7\n"), string(asked)
}

const heldForLaunch = "launch_failed_requeued_held"

// TestFailedLaunchReleased: a job that Slurm holds after a failed launch is released if it has a checkpoint and no node has a
// part of its run. A hold of a person's, of proxyd's or of an action's stays, and so do all others.
func TestFailedLaunchReleased(t *testing.T) {
	for name, tt := range map[string]struct {
		uid           int
		state, reason string // "": waits, held by Slurm
		comment       string
		startedOn     string // nodes of the newest run
		anew, bare    bool   // the next run begins anew; there is no checkpoint
		released      bool
		fails         bool // is tried again, and the log says why
	}{
		"held by Slurm":                       {released: true},
		"held by Slurm, as REST writes it":    {reason: "launch failed requeued held", released: true},
		"held by Slurm in a state of its own": {state: "REQUEUE_HOLD", released: true},
		"not done with its nodes":             {state: "COMPLETING"},
		"runs":                                {state: "RUNNING"},
		"waits":                               {reason: "BeginTime"},
		"held by its user":                    {reason: "JobHeldUser"},
		"held by an administrator":            {reason: "JobHeldAdmin"},
		"requeued too often":                  {reason: "JobHoldMaxRequeue"},
		"held by proxyd":                      {comment: "singularity: held: the store is full"},
		"was held by proxyd":                  {comment: "singularity: restored from checkpoint 3 on n1, held: no", released: true},
		"an action is under way":              {comment: "preemptd: under way: migrate by alice (action 4); singularity: checkpoint 3 at 10:00:00 (interval)"},
		"an action has released it":           {comment: "preemptd: released; under way: migrate by alice (action 4)", released: true},
		"parked by an action":                 {comment: "mine; preemptd: preempted by alice (action 4); checkpoint mini/7/3; held until singctl resume 7"},
		"held by an action":                   {comment: "preemptd: held by alice: maintenance (action 4); singularity: checkpoint 3 at 10:00:00 (interval)"},
		"an action could not release it":      {comment: "preemptd: not migrated: no room; asked at 10:00 by alice (action 4); still held: scontrol release 7"},
		"an action is over":                   {comment: "preemptd: migrated to n2 by alice (action 4); checkpoint mini/7/3", released: true},
		"the run lives on another node":       {startedOn: "n1,lives", fails: true},
		"a node of the run does not answer":   {startedOn: "n1,away", fails: true},
		"its next run begins anew":            {anew: true},
		"without a checkpoint":                {bare: true},
		"of another user, with its number":    {uid: 1002},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := slurmtest.NewQueue(t)
			e := endsOn(t, "n1", t.TempDir(), q, 7)
			showHeldJob(t, q, max(tt.uid, 1001), 2, cmp.Or(tt.state, "PENDING"), cmp.Or(tt.reason, heldForLaunch))
			q.SetComment(t, tt.comment)
			e.Capsules = capsulesOn{"lives"}
			e.Store = storeWithCheckpoint(t)
			if tt.bare {
				e.Cluster = "other"
			}
			rec := recordOf(7)
			rec.BeginAnew = tt.anew
			started := records.MakeStartEvent(2, strings.Split(cmp.Or(tt.startedOn, "n1,n2"), ","), 3)
			started.At = time.Now()
			if err := errors.Join(e.Records.Save(rec), e.Timeline.Write(7, started)); err != nil {
				t.Fatal(err)
			}
			err := (&Cleaner{Ends: e}).SettleJobs(t.Context(), time.Now())
			if (err != nil) != tt.fails {
				t.Errorf("error %v", err)
			}
			times, asked := listReleases(t, q)
			if (times > 0) != tt.released {
				t.Errorf("released %d times; asked:\n%s", times, asked)
			}
			const want = "released: " + whyHeldByLaunch + "; its next run goes on from checkpoint 3"
			events, err := e.Timeline.Read(7)
			if err != nil {
				t.Fatal(err)
			}
			last := events[len(events)-1]
			if told := last.What == records.EventLaunchFailed && last.Text == want && strings.Contains(asked, "singularity: "+want); told != tt.released {
				t.Errorf("the last event is %+v; asked:\n%s", last, asked)
			}
		})
	}
}

// TestFailedLaunchBounded: a job with launches that fail again and again is released records.MaxUnrestoredRuns times, and then stays held,
// and its comment says why. A person releases the job, and then the launch is tried as often again. A run that its nodes have counted is
// not counted again.
func TestFailedLaunchBounded(t *testing.T) {
	q := slurmtest.NewQueue(t)
	e := endsOn(t, "n1", t.TempDir(), q, 7)
	e.Store = storeWithCheckpoint(t)
	cleaner := &Cleaner{Ends: e}
	q.SetComment(t, "")
	want := 0
	for _, step := range []struct {
		restarts int
		counted  bool // by a node of the run
		releases int
	}{
		{2, false, 1}, {3, true, 1}, {4, false, 1}, {5, false, 0}, {5, false, 0}, {6, false, 1},
	} {
		showHeldJob(t, q, 1001, step.restarts, "PENDING", heldForLaunch)
		if step.counted {
			rec, err := e.Records.Load(7)
			if err != nil {
				t.Fatal(err)
			}
			rec.CountUnrestoredRun(step.restarts - 1)
			if err := e.Records.Save(rec); err != nil {
				t.Fatal(err)
			}
		}
		if err := cleaner.SettleJobs(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		want += step.releases
		got, asked := listReleases(t, q)
		if got != want {
			t.Fatalf("after %d restarts: released %d times, want %d; asked:\n%s", step.restarts, got, want, asked)
		}
		const why = "held: 4 runs in a row ended before the job was restored, last: " + whyHeldByLaunch
		if held := strings.Contains(asked, why); held != (step.restarts >= 5) {
			t.Errorf("after %d restarts: asked:\n%s", step.restarts, asked)
		}
	}
	events, err := e.Timeline.Read(7)
	if err != nil || !slices.ContainsFunc(events, func(event records.Event) bool { return event.What == records.EventHeld }) {
		t.Errorf("time line: %+v, %v", events, err)
	}
}
