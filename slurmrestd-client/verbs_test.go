// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

var jobBegin = time.Unix(1_900_000_000, 0)

// TestBodies: the expected request of each dialect is written by hand here; the live test
// proves that Slurm accepts the same.
func TestBodies(t *testing.T) {
	for _, test := range []struct {
		name        string
		edit        slurmrest.JobUpdate
		old, modern string // JSON; "" is an UnsupportedError
	}{
		{"hold", slurmrest.JobUpdate{Hold: new(true)}, `{"hold":true}`, `{"hold":true}`},
		{"priority", slurmrest.JobUpdate{Priority: new(int64(7))}, `{"priority":7}`,
			`{"priority":{"infinite":false,"number":7,"set":true}}`},
		{"begin", slurmrest.JobUpdate{BeginTime: &jobBegin}, `{"begin_time":"uts1900000000"}`,
			`{"begin_time":{"infinite":false,"number":1900000000,"set":true}}`},
		{"required", slurmrest.JobUpdate{RequiredNodes: new("n[1-2]")}, `{"nodelist":"n[1-2]"}`, `{"required_nodes":"n[1-2]"}`},
		{"clear required", slurmrest.JobUpdate{RequiredNodes: new("")}, `{"nodelist":""}`, `{"required_nodes":""}`},
		{"excluded", slurmrest.JobUpdate{ExcludedNodes: new("n3")}, `{"exclude_nodes":"n3"}`, `{"excluded_nodes":"n3"}`},
		{"node count", slurmrest.JobUpdate{NodeCount: new(int64(2))}, `{"nodes":"2"}`, `{"maximum_nodes":2,"minimum_nodes":2}`},
		{"gres", slurmrest.JobUpdate{TRESPerNode: new("gres/gpu:2,gres/nic:1")}, `{"gres":"gpu:2,nic:1"}`,
			`{"tres_per_node":"gres/gpu:2,gres/nic:1"}`},
		{"gpus per job", slurmrest.JobUpdate{TRESPerJob: new("gres/gpu:4")}, `{"gpus":"4"}`, `{"tres_per_job":"gres/gpu:4"}`},
		{"gpus per task", slurmrest.JobUpdate{TRESPerTask: new("gres/gpu:a100:1")}, `{"gpus_per_task":"a100:1"}`,
			`{"tres_per_task":"gres/gpu:a100:1"}`},
		{"nics per job", slurmrest.JobUpdate{TRESPerJob: new("gres/nic:1")}, "", `{"tres_per_job":"gres/nic:1"}`},
		{"cpus per node", slurmrest.JobUpdate{TRESPerNode: new("cpu:4")}, "", `{"tres_per_node":"cpu:4"}`},
		{"clear gres", slurmrest.JobUpdate{TRESPerNode: new("")}, "", `{"tres_per_node":""}`},
		{"time limit", slurmrest.JobUpdate{TimeLimit: new(slurmrest.LimitOf(90*time.Minute + time.Second))}, `{"time_limit":"91"}`,
			`{"time_limit":{"infinite":false,"number":91,"set":true}}`},
		{"no time limit", slurmrest.JobUpdate{TimeLimit: new(slurmrest.Unlimited())}, `{"time_limit":"UNLIMITED"}`,
			`{"time_limit":{"infinite":true,"number":0,"set":true}}`},
		{"requeue", slurmrest.JobUpdate{Requeue: new(true)}, `{"requeue":true}`, `{"requeue":true}`},
		{"no requeue", slurmrest.JobUpdate{Requeue: new(false)}, `{"no_requeue":true}`, `{"requeue":false}`},
		{"admin comment", slurmrest.JobUpdate{AdminComment: new("x")}, "", `{"admin_comment":"x"}`},
		{"memory", slurmrest.JobUpdate{MemoryPerNode: new(int64(512))}, `{"memory_per_node":512}`,
			`{"memory_per_node":{"infinite":false,"number":512,"set":true}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
				version, err := c.Version(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want := test.modern
				if version == slurmrest.V0038 {
					want = test.old
				}
				err = c.Update(t.Context(), slurmrest.JobID(2), test.edit)
				if want == "" {
					if !errors.Is(err, slurmrest.ErrUnsupported) || !strings.Contains(err.Error(), "needs v0.0.40, found REST API v0.0.38") {
						t.Errorf("error %v; want an UnsupportedError", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				asked := s.Requests()
				if got := asked[len(asked)-1].Body; got != want {
					t.Errorf("sent %s; want %s", got, want)
				}
			})
		})
	}
}

// TestBeginAfterRequeue: a job that was just requeued is not released within the second in which
// its credential was revoked.
func TestBeginAfterRequeue(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		pauses := slurmrest.NoPauses(c)
		job := slurmrest.JobID(1)
		s.ExitRequeue(1)
		s.Settle(1)
		if err := c.Release(t.Context(), job, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if len(*pauses) != 1 || (*pauses)[0] < time.Second || (*pauses)[0] > 2*time.Second {
			t.Errorf("paused %v; want one pause of about 2 s", *pauses)
		}
		s.EditJob(1, func(j *slurmrest.Job) { j.SubmitTime = time.Now().Add(-10 * time.Second) })
		if err := c.Update(t.Context(), job, slurmrest.JobUpdate{BeginTime: &time.Time{}}); err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Hour)
		s.EditJob(1, func(j *slurmrest.Job) { j.SubmitTime = time.Now() })
		if err := c.Release(t.Context(), job, later); err != nil {
			t.Fatal(err)
		}
		if err := c.Release(t.Context(), slurmrest.JobID(2), time.Time{}); err != nil { // never started
			t.Fatal(err)
		}
		if len(*pauses) != 1 {
			t.Errorf("paused %v; want no further pause", *pauses)
		}
	})
}

func TestUpdateRefuses(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{})
	c := s.Client(t)
	for _, test := range []struct {
		name string
		edit slurmrest.JobUpdate
		says string
	}{
		{"nothing", slurmrest.JobUpdate{}, "job 2: update changes nothing"},
		{"priority 0", slurmrest.JobUpdate{Priority: new(int64(0))}, "priority 0: want more than 0 (Hold"},
		{"both", slurmrest.JobUpdate{Priority: new(int64(1)), Hold: new(true)}, "exclude each other"},
		{"no nodes", slurmrest.JobUpdate{NodeCount: new(int64(0))}, "node count 0: want 1 or more"},
		{"negative tasks", slurmrest.JobUpdate{Tasks: new(int64(-1))}, "tasks -1: want 1 or more"},
		{"unset limit", slurmrest.JobUpdate{TimeLimit: &slurmrest.Limit{}}, "unset is not a limit"},
		{"zero limit", slurmrest.JobUpdate{TimeLimit: new(slurmrest.LimitOf(0))}, "0s is not a limit"},
	} {
		if err := c.Update(t.Context(), slurmrest.JobID(2), test.edit); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v; want one that says %q", test.name, err, test.says)
		}
	}
	for _, ref := range []slurmrest.Ref{{}, slurmrest.JobID(-1), slurmrest.JobID(1 << 40), slurmrest.TaskOf(1, -1)} {
		if err := c.Hold(t.Context(), ref); !errors.Is(err, slurmrest.ErrInvalidJobID) {
			t.Errorf("%v: error %v; want ErrInvalidJobID", ref, err)
		}
	}
	if got := s.Requests(); len(got) != 0 {
		t.Errorf("asked %v; want nothing", got)
	}
}

// TestSubmitRoundTrip submits a job with every field set, and reads the job back.
func TestSubmitRoundTrip(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		done, err := c.Submit(t.Context(), slurmrest.JobSubmit{
			Script: "#!/bin/sh\n", Name: "x", WorkDir: "/tmp", Account: "a", Partition: "p", QOS: "q", Comment: "c",
			Features: "fast", Dependency: "afterok:1", Array: "0-3", RequiredNodes: "n1", ExcludedNodes: "n2",
			MinNodes: 2, Tasks: 4, TasksPerNode: 2, CPUsPerTask: 3, MemoryPerNode: 512, TRESPerNode: "gres/gpu:2",
			TRESPerJob: "gres/gpu:4", TimeLimit: slurmrest.LimitOf(time.Hour), BeginTime: jobBegin, Priority: 9,
			Requeue: new(false), StdOut: "/o", StdErr: "/e", AppendLogs: true, Environment: map[string]string{"A": "1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		job, err := c.Job(t.Context(), slurmrest.JobID(done.ID))
		if err != nil {
			t.Fatal(err)
		}
		compareFields(t, "job", job, slurmrest.Job{
			ID: done.ID, Cluster: "fake", Name: "x", User: "root", Account: "a", Partition: "p", QOS: "q", Comment: "c",
			State: slurmrest.State{Base: slurmrest.Pending}, RequestedFeatures: "fast", Dependency: "afterok:1",
			Array: slurmrest.Array{Tasks: "0-3"}, RequiredNodes: "n1", ExcludedNodes: "n2", Batch: true,
			NodeCount: slurmrest.Num(2), Tasks: slurmrest.Num(4), TasksPerNode: slurmrest.Num(2),
			CPUsPerTask: slurmrest.Num(3), MemoryPerNode: slurmrest.Num(512), TRESPerNode: "gres/gpu:2", TRESPerJob: "gres/gpu:4",
			TimeLimit: slurmrest.LimitOf(time.Hour), EligibleTime: jobBegin, Priority: slurmrest.Num(9), WorkDir: "/tmp",
			StdOut: "/o", StdErr: "/e", SubmitTime: job.SubmitTime,
			MaxNodes: job.MaxNodes, TimeMinimum: job.TimeMinimum, MinCPUsPerNode: job.MinCPUsPerNode, // not written alike when not set
		})
		var sent struct{ Job struct{ Environment any } }
		requests := s.Requests()
		if err := json.Unmarshal([]byte(requests[len(requests)-2].Body), &sent); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(sent.Job.Environment); got != "[A=1]" && got != "map[A:1]" {
			t.Errorf("environment that was sent = %s", got)
		}
	})
}

func TestSubmitRefuses(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		for _, test := range []struct {
			job  slurmrest.JobSubmit
			says string
		}{
			{slurmrest.JobSubmit{}, "script does not begin with a #! line"},
			{slurmrest.JobSubmit{Script: "#!x", MemoryPerCPU: 1, MemoryPerNode: 1}, "exclude each other"},
			{slurmrest.JobSubmit{Script: "#!x", Environment: map[string]string{"A=B": ""}}, `"A=B" is not a name`},
			{slurmrest.JobSubmit{Script: "#!x", TimeLimit: slurmrest.LimitOf(-1)}, "is not a limit"},
		} {
			if _, err := c.Submit(t.Context(), test.job); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v; want one that says %q", err, test.says)
			}
		}
		if _, err := c.SubmitHet(t.Context(), []slurmrest.JobSubmit{{Script: "#!x"}}); err == nil {
			t.Error("a heterogeneous job of one was accepted")
		}
		if _, err := c.SubmitHet(t.Context(), []slurmrest.JobSubmit{{Script: "#!x"}, {Script: "#!y"}}); err == nil {
			t.Error("a second script was accepted")
		}
		if len(requestPaths(s)) != 0 {
			t.Errorf("asked %q; want nothing", requestPaths(s))
		}
		// v0.0.38 lists the reason why an accepted job waits as an error.
		s.Fail(slurmresttest.Fault{
			Path: "/submit", Status: 200,
			Body: `{"job_id":77,"errors":[{"error_code":2016,"error":"Requested nodes are busy"}]}`,
		})
		done, err := c.Submit(t.Context(), slurmrest.JobSubmit{Script: "#!x"})
		if err != nil || done.ID != 77 || len(done.Warnings) != 1 || !strings.Contains(done.Warnings[0], "nodes are busy") {
			t.Errorf("accepted with a complaint: %+v, %v", done, err)
		}
		s.Fail(slurmresttest.Fault{Path: "/submit", Status: 200, Body: "{}"})
		if _, err := c.Submit(t.Context(), slurmrest.JobSubmit{Script: "#!x"}); !errors.Is(err, slurmrest.ErrUncertain) {
			t.Errorf("an answer without an id: %v; want ErrUncertain", err)
		}
	})
}

func TestHetAndArrayReferences(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		version, _ := c.Version(t.Context())
		done, err := c.SubmitHet(t.Context(), []slurmrest.JobSubmit{{Script: "#!/bin/sh"}, {Tasks: 3}})
		if err != nil {
			t.Fatal(err)
		}
		second := slurmrest.ComponentOf(done.ID, 1)
		if err := c.Hold(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		if job, err := c.Job(t.Context(), second); err != nil || !job.Held || job.Tasks != slurmrest.Num(3) {
			t.Errorf("component after Hold = %+v, %v", job, err)
		}
		if err := c.Hold(t.Context(), slurmrest.TaskOf(10, 0)); err != nil {
			t.Errorf("Hold of a started task: %v", err)
		}
		if job, _ := s.Job(11); !job.Held {
			t.Errorf("task 0 is not held: %+v", job)
		}
		err = c.Hold(t.Context(), slurmrest.TaskOf(10, 2))
		if version != slurmrest.V0038 && (!errors.Is(err, slurmrest.ErrUnsupported) || !strings.Contains(err.Error(), "job 10_2")) {
			t.Errorf("task without a record: %v; want an UnsupportedError", err)
		}
		if _, err := c.JobRecords(t.Context(), slurmrest.JobID(10)); err != nil {
			t.Errorf("JobRecords of the array: %v", err)
		}
	})
}

func TestIncremental(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		all, info, err := c.ListJobs(t.Context(), time.Time{})
		if err != nil || !info.Changed || info.Count != len(all) || len(all) != 6 {
			t.Fatalf("%d jobs, %+v, %v; want 6", len(all), info, err)
		}
		// A change at the very moment of the list is reported by the next list.
		s.EditJob(1, func(j *slurmrest.Job) { j.Comment = "changed" })
		all, info, err = c.ListJobs(t.Context(), info.Next)
		if err != nil || !info.Changed || len(all) != 6 || all[0].Comment != "changed" {
			t.Fatalf("%d jobs, %+v, %v; want 6", len(all), info, err)
		}
		all, info, err = c.ListJobs(t.Context(), time.Now().Add(time.Minute))
		if err != nil || info.Changed || len(all) != 0 || info.Next.IsZero() {
			t.Fatalf("%d jobs, %+v, %v; want none and no change", len(all), info, err)
		}
		// An empty list is not "no change".
		for _, id := range []int64{1, 2, 10, 11, 20, 21} {
			s.RemoveJob(id)
		}
		all, info, err = c.ListJobs(t.Context(), info.Next)
		if err != nil || !info.Changed || len(all) != 0 {
			t.Fatalf("%d jobs, %+v, %v; want none and a change", len(all), info, err)
		}
	})
}

func TestEachJobStops(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		enough := errors.New("enough")
		seen := 0
		info, err := c.EachJob(t.Context(), time.Time{}, func(*slurmrest.Job) error {
			if seen++; seen == 2 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || seen != 2 || info.Count != 2 {
			t.Errorf("a list that yield ended: %d jobs seen, %+v, %v", seen, info, err)
		}
		// Jobs that have been handed on are not handed on again.
		cut := 12_000 // past the first job
		if version, _ := c.Version(t.Context()); version == slurmrest.V0038 {
			cut = 5_000
		}
		seen = 0
		s.Fail(slurmresttest.Fault{Path: "/jobs", Cut: cut})
		_, err = c.EachJob(t.Context(), time.Time{}, func(*slurmrest.Job) error { seen++; return nil })
		if err == nil || seen == 0 || seen == 6 {
			t.Errorf("%d seen of a cut list, error %v", seen, err)
		}
	})
}

func TestSignals(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		version, _ := c.Version(t.Context())
		job := slurmrest.JobID(1)
		if err := c.Signal(t.Context(), job, "usr2", slurmrest.SignalJob); err != nil {
			t.Error(err)
		}
		err := c.Signal(t.Context(), job, "12", slurmrest.SignalShell)
		if version == slurmrest.V0038 {
			if !errors.Is(err, slurmrest.ErrUnsupported) {
				t.Errorf("error %v; want an UnsupportedError", err)
			}
		} else if got := s.Requests(); err != nil || got[len(got)-1].Query != "flags=BATCH_JOB&signal=12" {
			t.Errorf("last request %v, error %v; want flags=BATCH_JOB", got[len(got)-1], err)
		}
		if got := s.Signals(1); got[0] != "USR2" {
			t.Errorf("signals of the job = %v, want USR2 first", got)
		}
		for _, bad := range []string{"", "USR2;", "a b", strings.Repeat("X", 50)} {
			if err := c.Signal(t.Context(), job, bad, slurmrest.SignalJob); err == nil || !strings.Contains(err.Error(), "want a name like USR2") {
				t.Errorf("Signal %q: %v; want a refusal of the name", bad, err)
			}
		}
		if err := c.Signal(t.Context(), slurmrest.JobID(999), "USR2", slurmrest.SignalJob); !errors.Is(err, slurmrest.ErrInvalidJobID) {
			t.Errorf("no such job: %v", err)
		}
		for range 2 {
			if err := c.Cancel(t.Context(), job); err != nil {
				t.Errorf("Cancel: %v", err)
			}
		}
		if got, _ := s.Job(1); got.State.Base != slurmrest.Cancelled {
			t.Errorf("state after Cancel = %s", got.State)
		}
	})
}

func TestNodes(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		version, _ := c.Version(t.Context())
		if version == slurmrest.V0038 {
			err := c.DrainNode(t.Context(), "n1", "x")
			if !errors.Is(err, slurmrest.ErrUnsupported) || !strings.Contains(err.Error(), "needs v0.0.40 or scontrol") {
				t.Errorf("error %v; want an UnsupportedError", err)
			}
			return
		}
		if err := c.DrainNode(t.Context(), "n1", "broken fan"); err != nil {
			t.Fatal(err)
		}
		n, err := c.Node(t.Context(), "n1")
		if err != nil || !n.State.Draining() || n.Reason != "broken fan" {
			t.Errorf("Node after DrainNode = %+v, %v; want draining, broken fan", n, err)
		}
		if err := c.ResumeNode(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
		if err := c.ResumeNode(t.Context(), "n1"); !errors.Is(err, slurmrest.ErrNodeState) {
			t.Errorf("resume twice: %v; want ErrNodeState", err)
		}
		if err := c.DrainNode(t.Context(), "n1", ""); err == nil || !strings.Contains(err.Error(), "node n1: state DRAIN needs a reason") {
			t.Errorf("DrainNode without a reason: %v", err)
		}
		if err := c.UpdateNode(t.Context(), "n1", slurmrest.NodeUpdate{}); err == nil {
			t.Error("an empty update was accepted")
		}
		for _, bad := range []string{"", "..", "a/b", "n[1-2]", "n 1", strings.Repeat("n", 300)} {
			if _, err := c.Node(t.Context(), bad); !errors.Is(err, slurmrest.ErrInvalidNodeName) {
				t.Errorf("Node(%q): %v; want ErrInvalidNodeName", bad, err)
			}
		}
	})
}

// TestModelRoundTrip: every field of the model goes through the fake and back, in
// every version, unless the version lacks the field.
func TestModelRoundTrip(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		want := slurmrest.Job{
			ID: 1<<26 + 100, Array: slurmrest.Array{JobID: 99, Task: slurmrest.Num(7)}, Cluster: "fake",
			Federation: slurmrest.Federation{Origin: "a", SiblingsActive: "a,b", SiblingsViable: "a,b,c"},
			Name:       "ünïcode \"quoted\"", User: "alice", UserID: 1001, GroupID: 100, Account: "acc", Partition: "p", QOS: "q",
			Reservation: "r", State: slurmrest.State{Base: slurmrest.Pending, Flags: slurmrest.Completing}, Reason: "BeginTime",
			ReasonDetail: "d", Comment: "c", AdminComment: "ac", SystemComment: "sc", Priority: slurmrest.Num(4294967290),
			Restarts: 3, Requeueable: true, Batch: true, ExitCode: slurmrest.ExitCode{Code: 3},
			DerivedExitCode: slurmrest.ExitCode{Signal: 9}, Dependency: "afterok:1", RequestedFeatures: "f",
			Nodes: "n[1-2]", RequiredNodes: "n1", ExcludedNodes: "n3", ScheduledNodes: "n9", BatchHost: "n1", FailedNode: "n8",
			NodeCount: slurmrest.Num(2), MaxNodes: slurmrest.Num(4), Tasks: slurmrest.Num(8), TasksPerNode: slurmrest.Num(4), MinCPUsPerNode: slurmrest.Num(8),
			CPUs: slurmrest.Num(16), CPUsPerTask: slurmrest.Num(2), MemoryPerNode: slurmrest.Num(1024), MemoryPerCPU: slurmrest.Num(64),
			Layout:     []slurmrest.NodeLayout{{Node: "n1", CPUs: 1, Memory: 10}, {Node: "n2", CPUs: 1, Memory: 20}},
			TRESPerJob: "gres/gpu:8", TRESPerNode: "gres/gpu:4", TRESPerSocket: "gres/gpu:1", TRESPerTask: "gres/gpu:1",
			TRESRequested: "cpu=16", TRESAllocated: "cpu=16", GRESDetail: []string{"gpu:4(IDX:0-3)", "gpu:4(IDX:0-3)"},
			TimeLimit: slurmrest.LimitOf(time.Hour), TimeMinimum: slurmrest.LimitOf(time.Minute),
			SubmitTime: at, EligibleTime: at, StartTime: at, EndTime: at.Add(1 << 33 * time.Second), PreemptTime: at,
			PreemptableTime: at, SuspendTime: at, ResizeTime: at, Deadline: at,
			WorkDir: "/w", StdIn: "/i", StdOut: "/o", StdErr: "/e",
		}
		for i := range reflect.TypeFor[slurmrest.Job]().NumField() {
			if f := reflect.ValueOf(want).Field(i); f.IsZero() && f.Type() != reflect.TypeFor[slurmrest.Het]() && f.Kind() != reflect.Bool {
				t.Errorf("the test leaves %s out", reflect.TypeFor[slurmrest.Job]().Field(i).Name)
			}
		}
		s.AddJob(want)
		got, err := c.Job(t.Context(), slurmrest.JobID(want.ID))
		if err != nil {
			t.Fatal(err)
		}
		if version, _ := c.Version(t.Context()); version == slurmrest.V0038 {
			want.State.Base = "" // hidden
			want.ScheduledNodes, want.FailedNode, want.PreemptableTime = "", "", time.Time{}
		}
		compareFields(t, "job", got, want)
		if cluster, local := slurmrest.SplitFederatedID(got.ID); cluster != 1 || local != 100 {
			t.Errorf("federated id %d is %d of %d", got.ID, local, cluster)
		}
	})
}
