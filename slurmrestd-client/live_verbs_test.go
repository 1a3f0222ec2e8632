// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build live

package slurmrest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestLive asks every verb, in each version that this cluster serves.
func TestLive(t *testing.T) {
	for _, version := range servedVersions(t) {
		t.Run(version, func(t *testing.T) {
			for _, test := range []struct {
				name string
				do   func(*live, string)
			}{
				{"cluster", testCluster},
				{"submit", testSubmit},
				{"hold", testHold},
				{"edit", testEdit},
				{"refusals", testRefusals},
				{"signal", testSignal},
				{"array", testArray},
				{"het", testHet},
				{"incremental", testIncremental},
				{"reservation", testReservation},
				{"inside a reservation", testInside},
				{"requeue/rest", requeueVia(slurmrest.RouteREST)},
				{"requeue/scontrol", requeueVia(slurmrest.RouteScontrol)},
				{"requeue/exit-code", requeueVia(slurmrest.RouteExitCode)},
				{"requeue/any", testRequeueAny},
			} {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					cfg := rootConfig(t, version)
					l := &live{T: t, root: newClient(t, cfg)}
					cfg.AsUser = "alice"
					l.alice = newClient(t, cfg)
					test.do(l, version)
				})
			}
		})
		// This test runs alone, because it would disturb other jobs.
		t.Run(version+"/apart", func(t *testing.T) {
			cfg := rootConfig(t, version)
			l := &live{T: t, root: newClient(t, cfg)}
			cfg.AsUser = "alice"
			l.alice = newClient(t, cfg)
			testApart(l)
		})
		t.Run(version+"/drain", func(t *testing.T) { testDrain(&live{T: t, root: newClient(t, rootConfig(t, version))}) })
	}
}

func testCluster(l *live, version string) {
	info, err := l.root.Cluster(l.Context())
	l.mustSucceed(err)
	name := ""
	for line := range strings.Lines(runCommand(l.T, "scontrol", "show", "config")) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "ClusterName" {
			name = strings.TrimSpace(value)
		}
	}
	if info.Name != name || info.Version != version || len(info.Controllers) != 1 || !info.Controllers[0].Up {
		l.Errorf("cluster %+v; want %s", info, name)
	}
	nodes, err := l.root.Nodes(l.Context())
	l.mustSucceed(err)
	for _, n := range nodes {
		one, err := l.root.Node(l.Context(), n.Name)
		if err != nil || one.CPUs != n.CPUs || n.GRES != "gpu:2" || n.State.Base == "" {
			l.Errorf("node %+v, %+v, %v", n, one, err)
		}
	}
	if len(nodes) != 2 {
		l.Errorf("%d nodes; want 2", len(nodes))
	}
	_, err = l.root.Node(l.Context(), "nowhere")
	l.mustBe(err, slurmrest.ErrInvalidNodeName)
	partitions, err := l.root.Partitions(l.Context())
	if err != nil || len(partitions) != 2 || partitions[0].Nodes != "n[1-2]" {
		l.Errorf("partitions %+v, %v", partitions, err)
	}
	qos, err := l.root.QOS(l.Context())
	if err != nil || len(qos) != 4 || qos[2].Name != "premium" || len(qos[2].Preempts) != 2 {
		l.Errorf("qos %+v, %v", qos, err)
	}
	diag, err := l.root.Diag(l.Context())
	if err != nil || time.Since(diag.At) > time.Minute || diag.ServerThreads == 0 {
		l.Errorf("diag %+v, %v", diag, err)
	}
	night := "night-" + strings.ReplaceAll(version, ".", "")
	// Jobs of other tests have no time limit: without the flag they would prevent the reservation.
	runCommand(l.T, "scontrol", "create", "reservation="+night, "starttime=now+10days", "duration=60", "users=alice", "nodes=n2", "flags=ignore_jobs")
	l.Cleanup(func() { runCommand(l.T, "scontrol", "delete", "reservation="+night) })
	reservations, err := l.root.Reservations(l.Context())
	l.mustSucceed(err)
	found := false
	for _, r := range reservations {
		found = found || r.Name == night && r.Users == "alice" && r.Nodes == "n2" && r.End.Sub(r.Start) == time.Hour
	}
	if !found {
		l.Errorf("reservations %+v; want %s", reservations, night)
	}
}

func testSubmit(l *live, _ string) {
	out := filepath.Join("/shared", "out-"+filepath.Base(l.TempDir()))
	ref := l.submitJob(slurmrest.JobSubmit{
		Script: "#!/bin/sh\necho \"$GREETING $SLURM_JOB_NUM_NODES\"\npwd\nexit 7\n", Name: "greet", StdOut: out, StdErr: out,
		Environment: map[string]string{"GREETING": "hello \"you\"", "PATH": "/usr/bin:/bin"}, WorkDir: "/usr",
		MinNodes: 2, Tasks: 2, TRESPerNode: "gres/gpu:1", TimeLimit: slurmrest.LimitOf(10 * time.Minute), Comment: "a \"comment\" / é",
		MemoryPerNode: 64, AppendLogs: true, Features: "", Account: "research", QOS: "basic", Partition: "debug",
	})
	l.Cleanup(func() { os.Remove(out) })
	j := l.waitForJob(ref, "over", func(j slurmrest.Job) bool { return j.State.Finished() })
	if j.State.Base != slurmrest.Failed || j.ExitCode.Code != 7 || j.ExitCode.Signal != 0 || j.Name != "greet" ||
		j.User != "alice" || j.Comment != "a \"comment\" / é" || j.QOS != "basic" || j.Partition != "debug" || j.Account != "research" ||
		j.TimeLimit != slurmrest.LimitOf(10*time.Minute) || j.TRESPerNode != "gres/gpu:1" || j.WorkDir != "/usr" || !j.Batch ||
		j.NodeCount != slurmrest.Num(2) || j.EndTime.IsZero() || j.StartTime.IsZero() {
		l.Errorf("job %+v", j)
	}
	if said, err := os.ReadFile(out); string(said) != "hello \"you\" 2\n/usr\n" {
		l.Errorf("output %q, %v", said, err)
	}
	if err := l.root.Hold(l.Context(), ref); !errors.Is(err, slurmrest.ErrAlreadyDone) && !errors.Is(err, slurmrest.ErrJobFinished) {
		l.Errorf("hold of a job that is over: %v", err)
	}
	l.mustSucceed(l.root.Cancel(l.Context(), ref))
	for _, bad := range []struct {
		job  slurmrest.JobSubmit
		want error
	}{
		{slurmrest.JobSubmit{Partition: "nowhere"}, slurmrest.ErrInvalidPartition},
		{slurmrest.JobSubmit{QOS: "nothing"}, slurmrest.ErrInvalidQOS},
		{slurmrest.JobSubmit{Account: "nobody"}, slurmrest.ErrInvalidAccount},
		{slurmrest.JobSubmit{TRESPerNode: "gres/gpu:9"}, slurmrest.ErrNodeConfig},
		{slurmrest.JobSubmit{RequiredNodes: "n77"}, slurmrest.ErrInvalidNodeName},
	} {
		bad.job.Script, bad.job.WorkDir = sleeper, "/tmp"
		_, err := l.alice.Submit(l.Context(), bad.job)
		l.mustBe(err, bad.want)
	}
}

func testHold(l *live, _ string) {
	ref := l.submitJob(slurmrest.JobSubmit{Hold: true})
	if j := l.readJob(ref); !j.Held || j.Reason != "JobHeldUser" {
		l.Errorf("job %+v", j)
	}
	l.mustSucceed(l.alice.Release(l.Context(), ref, time.Now().Add(time.Hour)))
	if j := l.readJob(ref); j.Held || time.Until(j.EligibleTime) < 50*time.Minute {
		l.Errorf("released for later: held %v, eligible %s", j.Held, j.EligibleTime)
	}
	l.mustSucceed(l.root.Hold(l.Context(), ref)) // an operator's hold
	l.mustBe(l.alice.Release(l.Context(), ref, time.Time{}), slurmrest.ErrAccessDenied)
	l.mustSucceed(l.root.Release(l.Context(), ref, time.Time{}))
	l.waitForJob(ref, "running", isRunning)
	l.mustSucceed(l.root.Hold(l.Context(), ref))
	if j := l.waitForJob(ref, "running and held", func(j slurmrest.Job) bool { return j.Held }); j.State.Base != slurmrest.Running {
		l.Errorf("a running job that was held is %s", j.State)
	}
	l.mustSucceed(l.root.Release(l.Context(), ref, time.Time{}))
}

// testReservation makes a reservation that is far away: no job has to wait for the reservation, for as long as jobs may run.
func testReservation(l *live, version string) {
	far := slurmrest.NewReservation{
		Name: "far:" + version, Start: time.Now().Add(3650 * 24 * time.Hour).Truncate(time.Second), Duration: time.Minute, Nodes: []string{"n1"},
		Users: []string{"root"}, Flags: []string{"IGNORE_JOBS", "OVERLAP"}, Comment: "it's far away",
	}
	if version == slurmrest.V0045 { // scontrol is root's
		l.mustBe(l.alice.CreateReservation(l.Context(), far), slurmrest.ErrAccessDenied)
	}
	l.mustSucceed(l.root.CreateReservation(l.Context(), far))
	deleted := false
	l.Cleanup(func() {
		if !deleted {
			runCommand(l.T, "scontrol", "delete", "reservation="+far.Name)
		}
	})
	all, err := l.root.Reservations(l.Context())
	l.mustSucceed(err)
	at := slices.IndexFunc(all, func(r slurmrest.Reservation) bool { return r.Name == far.Name })
	if at < 0 || !all[at].Start.Equal(far.Start) || all[at].End.Sub(far.Start) != far.Duration || all[at].Nodes != "n1" || all[at].Users != "root" ||
		!slices.Contains(all[at].Flags, "IGNORE_JOBS") || !slices.Contains(all[at].Flags, "OVERLAP") {
		l.Errorf("reservations %+v; want %+v", all, far)
	}
	if said := runCommand(l.T, "scontrol", "show", "reservation="+far.Name); version != slurmrest.V0038 && !strings.Contains(said, far.Comment) {
		l.Errorf("scontrol shows %s", said)
	}
	ref := l.submitJob(slurmrest.JobSubmit{RequiredNodes: "n1", TimeLimit: slurmrest.Unlimited()})
	if j := l.waitForJob(ref, "running", isRunning); !j.TimeLimit.Infinite {
		l.Errorf("time limit %+v", j.TimeLimit)
	}
	l.mustSucceed(l.root.DeleteReservation(l.Context(), far.Name))
	deleted = true
	l.mustBe(l.root.DeleteReservation(l.Context(), far.Name), slurmrest.ErrNoReservation)
}

// testInside: a job is put into a reservation while the job waits, and taken out while the job runs; only then is the reservation
// deleted.
func testInside(l *live, version string) {
	inside := slurmrest.NewReservation{
		Name: "inside:" + version, Start: time.Now().Truncate(time.Second), Duration: 10 * time.Minute, Nodes: []string{"n2"},
		Users: []string{"alice"}, Flags: []string{"IGNORE_JOBS", "FLEX", "NO_HOLD_JOBS_AFTER_END", "OVERLAP"},
	}
	l.mustSucceed(l.root.CreateReservation(l.Context(), inside))
	out := ""
	ref := l.submitJob(slurmrest.JobSubmit{Hold: true})
	l.Cleanup(func() {
		runCommand(l.T, "bash", "-c", fmt.Sprintf("scancel %s; scontrol update jobid=%[1]s reservationname= || true; scontrol delete reservation=%s || true", ref, inside.Name))
	})
	no := false
	l.mustSucceed(l.root.Update(l.Context(), ref, slurmrest.JobUpdate{Reservation: &inside.Name}))
	l.mustBe(l.root.DeleteReservation(l.Context(), inside.Name), slurmrest.ErrReservationInUse)
	l.mustSucceed(l.root.Update(l.Context(), ref, slurmrest.JobUpdate{Hold: &no}))
	if j := l.waitForJob(ref, "running", isRunning); j.Reservation != inside.Name {
		l.Errorf("the job runs in the reservation %q, want %q", j.Reservation, inside.Name)
	}
	l.mustBe(l.root.DeleteReservation(l.Context(), inside.Name), slurmrest.ErrReservationInUse)
	l.mustSucceed(l.root.Update(l.Context(), ref, slurmrest.JobUpdate{Reservation: &out}))
	if j, err := l.root.Job(l.Context(), ref); err != nil || j.Reservation != "" {
		l.Errorf("the job is in the reservation %q, %v; want none", j.Reservation, err)
	}
	l.mustSucceed(l.root.DeleteReservation(l.Context(), inside.Name))
}

// testApart: a job in a reservation with FLEX and OVERLAP waits for its nodes, though another user's reservation has an
// idle node.
func testApart(l *live) {
	apart, err := l.root.KeepsReservationsApart(l.Context())
	l.mustSucceed(err)
	if !apart {
		return
	}
	site := slurmrest.NewReservation{
		Name: "apart:site", Start: time.Now().Truncate(time.Second), Duration: 10 * time.Minute, Nodes: []string{"n2"},
		Users: []string{"root"}, Flags: []string{"IGNORE_JOBS"},
	}
	room := site
	room.Name, room.Nodes, room.Users, room.Flags = "apart:room", []string{"n1"}, []string{"alice"}, []string{"IGNORE_JOBS", "FLEX", "OVERLAP"}
	for _, r := range []slurmrest.NewReservation{site, room} {
		l.mustSucceed(l.root.CreateReservation(l.Context(), r))
		l.Cleanup(func() { runCommand(l.T, "scontrol", "delete", "reservation="+r.Name) })
	}
	l.waitForJob(l.submitJob(slurmrest.JobSubmit{Reservation: room.Name, CPUsPerTask: 4}), "running on n1", func(j slurmrest.Job) bool { return isRunning(j) && j.Nodes == "n1" })
	l.waitForJob(l.submitJob(slurmrest.JobSubmit{Reservation: room.Name, CPUsPerTask: 4}), "waits", func(j slurmrest.Job) bool { return j.Reason == "Resources" })
}

// testEdit changes each field that can be changed, and reads the field back.
func testEdit(l *live, version string) {
	ref := l.submitJob(slurmrest.JobSubmit{Hold: true, MinNodes: 1, Tasks: 2, TRESPerNode: "gres/gpu:1", TimeLimit: slurmrest.LimitOf(time.Hour)})
	old := version == slurmrest.V0038
	begin := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, edit := range []struct {
		name string
		edit slurmrest.JobUpdate
		done func(slurmrest.Job) bool
	}{
		{"required nodes", slurmrest.JobUpdate{RequiredNodes: pointerTo("n1,n2"), NodeCount: pointerTo(int64(2))}, func(j slurmrest.Job) bool { return j.RequiredNodes == "n[1-2]" || j.RequiredNodes == "n1,n2" }},
		{"fewer required nodes", slurmrest.JobUpdate{RequiredNodes: pointerTo("n2")}, func(j slurmrest.Job) bool { return j.RequiredNodes == "n2" }},
		{"no required nodes", slurmrest.JobUpdate{RequiredNodes: pointerTo("")}, func(j slurmrest.Job) bool { return j.RequiredNodes == "" }},
		{"node count", slurmrest.JobUpdate{NodeCount: pointerTo(int64(1))}, func(j slurmrest.Job) bool { return j.NodeCount == slurmrest.Num(1) }},
		{"excluded nodes", slurmrest.JobUpdate{ExcludedNodes: pointerTo("n1")}, func(j slurmrest.Job) bool { return j.ExcludedNodes == "n1" }},
		{"no excluded nodes", slurmrest.JobUpdate{ExcludedNodes: pointerTo("")}, func(j slurmrest.Job) bool { return j.ExcludedNodes == "" }},
		{"gres", slurmrest.JobUpdate{TRESPerNode: pointerTo("gres/gpu:2")}, func(j slurmrest.Job) bool { return j.TRESPerNode == "gres/gpu:2" }},
		{"partition", slurmrest.JobUpdate{Partition: pointerTo("debug"), TimeLimit: pointerTo(slurmrest.LimitOf(20 * time.Minute))}, func(j slurmrest.Job) bool {
			return j.Partition == "debug" && j.TimeLimit == slurmrest.LimitOf(20*time.Minute)
		}},
		{"partition back", slurmrest.JobUpdate{Partition: pointerTo("main")}, func(j slurmrest.Job) bool { return j.Partition == "main" }},
		{"no time limit", slurmrest.JobUpdate{TimeLimit: pointerTo(slurmrest.Unlimited())}, func(j slurmrest.Job) bool { return j.TimeLimit.Infinite }},
		{"time limit", slurmrest.JobUpdate{TimeLimit: pointerTo(slurmrest.LimitOf(90 * time.Minute))}, func(j slurmrest.Job) bool { return j.TimeLimit == slurmrest.LimitOf(90*time.Minute) }},
		{"qos", slurmrest.JobUpdate{QOS: pointerTo("basic")}, func(j slurmrest.Job) bool { return j.QOS == "basic" }},
		{"comment", slurmrest.JobUpdate{Comment: pointerTo("checkpoint 3 / \"é\"")}, func(j slurmrest.Job) bool { return j.Comment == "checkpoint 3 / \"é\"" }},
		{"no comment", slurmrest.JobUpdate{Comment: pointerTo("")}, func(j slurmrest.Job) bool { return j.Comment == "" }},
		{"name", slurmrest.JobUpdate{Name: pointerTo("renamed")}, func(j slurmrest.Job) bool { return j.Name == "renamed" }},
		{"memory", slurmrest.JobUpdate{MemoryPerNode: pointerTo(int64(100))}, func(j slurmrest.Job) bool { return j.MemoryPerNode == slurmrest.Num(100) }},
		{"tasks", slurmrest.JobUpdate{Tasks: pointerTo(int64(3))}, func(j slurmrest.Job) bool { return j.Tasks == slurmrest.Num(3) }},
		{"no requeue", slurmrest.JobUpdate{Requeue: pointerTo(false)}, func(j slurmrest.Job) bool { return !j.Requeueable }},
		{"requeue", slurmrest.JobUpdate{Requeue: pointerTo(true)}, func(j slurmrest.Job) bool { return j.Requeueable }},
		{"dependency", slurmrest.JobUpdate{Dependency: pointerTo("singleton")}, func(j slurmrest.Job) bool { return strings.HasPrefix(j.Dependency, "singleton") }},
		{"no dependency", slurmrest.JobUpdate{Dependency: pointerTo("")}, func(j slurmrest.Job) bool { return j.Dependency == "" }},
		{"admin comment", slurmrest.JobUpdate{AdminComment: pointerTo("seen")}, func(j slurmrest.Job) bool { return j.AdminComment == "seen" }},
		{"release for later", slurmrest.JobUpdate{Hold: pointerTo(false), BeginTime: pointerTo(begin.Add(time.Hour))}, func(j slurmrest.Job) bool { return !j.Held }},
		{"priority", slurmrest.JobUpdate{Priority: pointerTo(int64(4321))}, func(j slurmrest.Job) bool { return j.Priority == slurmrest.Num(4321) && !j.Held }},
		{"begin time", slurmrest.JobUpdate{BeginTime: &begin}, func(j slurmrest.Job) bool { return j.EligibleTime.Equal(begin) }},
		{"everything at once", slurmrest.JobUpdate{
			Hold: pointerTo(true), RequiredNodes: pointerTo("n2"), ExcludedNodes: pointerTo("n1"), TRESPerNode: pointerTo("gres/gpu:1"), NodeCount: pointerTo(int64(1)),
			Tasks: pointerTo(int64(2)), Comment: pointerTo("moving"), TimeLimit: pointerTo(slurmrest.LimitOf(time.Hour)), BeginTime: &time.Time{},
		}, func(j slurmrest.Job) bool { return j.Held && j.RequiredNodes == "n2" && j.Comment == "moving" }},
	} {
		if err := l.root.Update(l.Context(), ref, edit.edit); old && (edit.edit.AdminComment != nil || edit.edit.Name != nil) {
			l.mustBe(err, slurmrest.ErrUnsupported)
			continue
		} else if err != nil {
			l.Errorf("%s: %v", edit.name, err)
			continue
		}
		if j := l.readJob(ref); !edit.done(j) {
			l.Errorf("%s: had no effect: %+v", edit.name, j)
		}
	}
	l.mustSucceed(l.root.Release(l.Context(), ref, time.Time{}))
	j := l.waitForJob(ref, "running", isRunning)
	if j.Nodes != "n2" || j.BatchHost != "n2" || len(j.Layout) != 1 || j.Layout[0].Node != "n2" || j.Layout[0].CPUs < 1 ||
		len(j.GRESDetail) != 1 || !strings.HasPrefix(j.GRESDetail[0], "gpu:1(IDX:") || !strings.Contains(j.TRESAllocated, "gres/gpu=1") {
		l.Errorf("running as %+v", j)
	}
}

func testRefusals(l *live, version string) {
	ref := l.submitJob(slurmrest.JobSubmit{})
	l.waitForJob(ref, "running", isRunning)
	l.mustBe(l.root.Update(l.Context(), ref, slurmrest.JobUpdate{Partition: pointerTo("debug")}), slurmrest.ErrJobNotPending)
	l.mustSucceed(l.alice.Update(l.Context(), ref, slurmrest.JobUpdate{Comment: pointerTo("still here")}))
	cfg := rootConfig(l.T, version)
	cfg.AsUser = "bob"
	bob := newClient(l.T, cfg)
	l.mustBe(bob.Hold(l.Context(), ref), slurmrest.ErrAccessDenied)
	if version != slurmrest.V0040 { // v0.0.40 reports no error for a signal
		l.mustBe(bob.Signal(l.Context(), ref, "USR2", slurmrest.SignalJob), slurmrest.ErrAccessDenied)
	}
	nobody := slurmrest.JobID(4_000_000)
	_, err := l.root.Job(l.Context(), nobody)
	l.mustBe(err, slurmrest.ErrInvalidJobID)
	l.mustBe(l.root.Hold(l.Context(), nobody), slurmrest.ErrInvalidJobID)
	l.mustBe(l.root.Signal(l.Context(), nobody, "USR2", slurmrest.SignalJob), slurmrest.ErrInvalidJobID)
	if version != slurmrest.V0038 { // where root would have to use scontrol
		l.mustBe(l.alice.DrainNode(l.Context(), "n1", "not mine"), slurmrest.ErrAccessDenied)
	}
	if err := l.root.Signal(l.Context(), ref, "NOSUCH", slurmrest.SignalJob); err == nil {
		l.Error("signal NOSUCH was accepted")
	}
}

func testSignal(l *live, version string) {
	seen := "/shared/signals-" + strings.ReplaceAll(version, ".", "")
	l.Cleanup(func() { os.Remove(seen) })
	script := "#!/bin/bash\nfor s in USR1 USR2; do trap \"echo $s >>" + seen + "\" $s; done\necho ready >>" + seen + "\nwhile :; do sleep 0.1; done\n"
	ref := l.submitJob(slurmrest.JobSubmit{Script: script})
	l.waitForJob(ref, "running", isRunning)
	has := func(word string) {
		l.Helper()
		l.waitFor("the script writes "+word, func(context.Context) (string, bool) {
			text, err := os.ReadFile(seen)
			return string(text), err == nil && strings.Contains(string(text), word)
		})
	}
	has("ready")
	l.mustSucceed(l.alice.Signal(l.Context(), ref, "USR2", slurmrest.SignalJob))
	has("USR2")
	err := l.alice.Signal(l.Context(), ref, "USR1", slurmrest.SignalShell)
	if version == slurmrest.V0038 {
		l.mustBe(err, slurmrest.ErrUnsupported)
		err = l.alice.Signal(l.Context(), ref, "10", slurmrest.SignalJob)
	}
	l.mustSucceed(err)
	has("USR1")
	l.mustSucceed(l.alice.Cancel(l.Context(), ref))
	j := l.waitForJob(ref, "over", func(j slurmrest.Job) bool { return j.State.Finished() })
	if j.State.Base != slurmrest.Cancelled {
		l.Errorf("cancelled job is %s", j.State)
	}
	l.mustSucceed(l.alice.Cancel(l.Context(), ref))
}

func testArray(l *live, version string) {
	array := l.submitJob(slurmrest.JobSubmit{Array: "0-3%1", Script: sleeper})
	first := slurmrest.TaskOf(array.ID, 0)
	j := l.waitForJob(first, "running", isRunning)
	if j.Array.JobID != array.ID || j.Array.Task != slurmrest.Num(0) {
		l.Errorf("task 0: %+v", j)
	}
	rest := l.readJob(slurmrest.TaskOf(array.ID, 3))
	if rest.Array.Task.Set || rest.Array.JobID != array.ID || !strings.HasPrefix(rest.Array.Tasks, "1-3") {
		l.Errorf("task 3: %+v", rest)
	}
	_, err := l.root.Job(l.Context(), slurmrest.TaskOf(array.ID, 9))
	l.mustBe(err, slurmrest.ErrInvalidJobID)
	l.mustSucceed(l.root.Update(l.Context(), first, slurmrest.JobUpdate{Comment: pointerTo("first")}))
	if j := l.readJob(first); j.Comment != "first" {
		l.Errorf("task 0: comment %q", j.Comment)
	}
	err = l.root.Hold(l.Context(), slurmrest.TaskOf(array.ID, 2))
	if version == slurmrest.V0038 { // Slurm gives the task a record of its own
		l.mustSucceed(err)
		if j := l.readJob(slurmrest.TaskOf(array.ID, 2)); !j.Held {
			l.Errorf("task 2: %+v", j)
		}
	} else {
		l.mustBe(err, slurmrest.ErrUnsupported)
	}
	_, err = l.root.Requeue(l.Context(), first, slurmrest.RequeueOptions{})
	l.mustSucceed(err)
	if j, err := l.waitForRequeue(first, 0); err != nil || j.Array.Task != slurmrest.Num(0) {
		l.Errorf("task 0: %+v, %v", j, err)
	}
	l.mustSucceed(l.root.Cancel(l.Context(), slurmrest.TaskOf(array.ID, 1)))
	records, err := l.root.JobRecords(l.Context(), array)
	if err != nil || len(records) < 2 {
		l.Errorf("%d records, %v", len(records), err)
	}
}

func testHet(l *live, _ string) {
	done, err := l.alice.SubmitHet(l.Context(), []slurmrest.JobSubmit{
		{Script: sleeper, WorkDir: "/tmp", Hold: true}, {WorkDir: "/tmp", Hold: true, Tasks: 1, TRESPerNode: "gres/gpu:1"},
	})
	l.mustSucceed(err)
	leader := slurmrest.JobID(done.ID)
	l.Cleanup(func() { _ = l.root.Cancel(context.Background(), leader) })
	second := slurmrest.ComponentOf(done.ID, 1)
	j := l.readJob(second)
	if j.Het.JobID != done.ID || j.Het.Offset != 1 || j.TRESPerNode != "gres/gpu:1" || j.ID == done.ID {
		l.Errorf("component 1: %+v", j)
	}
	l.mustSucceed(l.root.Update(l.Context(), second, slurmrest.JobUpdate{RequiredNodes: pointerTo("n2")}))
	if j := l.readJob(second); j.RequiredNodes != "n2" {
		l.Errorf("component 1: required nodes %q", j.RequiredNodes)
	}
	if j := l.readJob(leader); j.RequiredNodes != "" {
		l.Errorf("the leader was changed: required nodes %q", j.RequiredNodes)
	}
	l.mustSucceed(l.root.Cancel(l.Context(), leader))
	l.waitForJob(second, "cancelled", func(j slurmrest.Job) bool { return j.State.Base == slurmrest.Cancelled })
}

// testIncremental: a list reports "no change" as long as no job changes, and never misses a change.
func testIncremental(l *live, _ string) {
	ref := l.submitJob(slurmrest.JobSubmit{Hold: true})
	var since time.Time
	for _, comment := range []string{"a", "b", "c"} {
		l.mustSucceed(l.root.Update(l.Context(), ref, slurmrest.JobUpdate{Comment: &comment}))
		found := ""
		info, err := l.root.EachJob(l.Context(), since, func(j *slurmrest.Job) error {
			if j.ID == ref.ID {
				found = j.Comment
			}
			return nil
		})
		l.mustSucceed(err)
		if !info.Changed || found != comment {
			l.Errorf("%+v, comment %q; want %q", info, found, comment)
		}
		since = info.Next
	}
	_, info, err := l.root.ListJobs(l.Context(), time.Now().Add(time.Hour))
	if err != nil || info.Changed {
		l.Errorf("a list since tomorrow: %+v, %v; want no change", info, err)
	}
}

func testDrain(l *live) {
	ctx := l.Context()
	l.mustSucceed(l.root.DrainNode(ctx, "n2", "live test / é"))
	n, err := l.root.Node(ctx, "n2")
	if err != nil || !n.State.Draining() || n.Reason != "live test / é" || n.ReasonTime.IsZero() {
		l.Errorf("drained: %+v, %v", n, err)
	}
	l.mustSucceed(l.root.DrainNode(ctx, "n2", "another reason"))
	if n, err := l.root.Node(ctx, "n2"); err != nil || n.Reason != "another reason" {
		l.Errorf("drained again: %+v, %v", n, err)
	}
	l.mustSucceed(l.root.ResumeNode(ctx, "n2"))
	l.waitFor("n2 is back", func(ctx context.Context) (string, bool) {
		n, err := l.root.Node(ctx, "n2")
		return n.State.Base, err == nil && !n.State.Draining() && n.Reason == ""
	})
	l.mustBe(l.root.ResumeNode(ctx, "n2"), slurmrest.ErrNodeState)
	l.mustSucceed(l.root.UpdateNode(ctx, "n2", slurmrest.NodeUpdate{Comment: pointerTo("checked")}))
	if n, err := l.root.Node(ctx, "n2"); err != nil || n.Comment != "checked" {
		l.Errorf("comment: %+v, %v", n, err)
	}
}
