// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// recorded are the releases and versions in testdata, which TestRecord wrote from
// live clusters.
var recorded = []struct{ release, version string }{
	{"22.05", slurmrest.V0038},
	{"24.11", slurmrest.V0040},
	{"24.11", slurmrest.V0042},
	{"26.05", slurmrest.V0042},
	{"26.05", slurmrest.V0045},
}

// recording is the content of a file of testdata: an answer of a live slurmrestd.
type recording struct {
	Method string          `json:"method"`
	Status int             `json:"status"`
	Type   string          `json:"type"`
	Body   json.RawMessage `json:"body"` // a text, unless Type is JSON
}

func loadRecording(t *testing.T, release, version, name string) recording {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", release, version, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var rec recording
	if err := json.Unmarshal(raw, &rec); err != nil {
		t.Fatalf("unmarshal recording %s: %v", name, err)
	}
	return rec
}

// player is a slurmrestd that answers every request with one recording, except the pings of the
// negotiation.
type player struct {
	t                      *testing.T
	release, version, name string
}

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	name := p.name
	switch {
	case !strings.Contains(r.URL.Path, p.version):
		name = "url-404"
	case strings.HasSuffix(r.URL.Path, "/ping/") && !strings.Contains(name, "ping"):
		name = "ping"
	}
	rec := loadRecording(p.t, p.release, p.version, name)
	w.Header().Set("Content-Type", rec.Type)
	w.WriteHeader(rec.Status)
	body := []byte(rec.Body)
	var text string
	if json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	_, _ = w.Write(body)
}

// clientOfRecording returns a client. A recording answers each of its requests.
func clientOfRecording(t *testing.T, release, version, name string) *slurmrest.Client {
	t.Helper()
	server := httptest.NewServer(&player{t: t, release: release, version: version, name: name})
	t.Cleanup(server.Close)
	c, err := slurmrest.New(slurmrest.Config{Address: server.URL, Token: slurmrest.StaticToken("root", "token")})
	if err != nil {
		t.Fatal(err)
	}
	slurmrest.NoPauses(c)
	return c
}

// eachRecorded runs a test on every release and version.
func eachRecorded(t *testing.T, test func(t *testing.T, release, version string)) {
	for _, r := range recorded {
		t.Run(r.release+"/"+r.version, func(t *testing.T) { test(t, r.release, r.version) })
	}
}

// recordedAt is the time that TestRecord wrote in the place of every time.
var recordedAt = time.Unix(1700000000, 0)

func TestRecordedJobs(t *testing.T) {
	eachRecorded(t, func(t *testing.T, release, version string) {
		jobs, info, err := clientOfRecording(t, release, version, "jobs").ListJobs(t.Context(), time.Time{})
		if err != nil || len(jobs) != 2 || info.Count != 2 || !info.Changed {
			t.Fatalf("%d jobs, %+v, %v; want 2", len(jobs), info, err)
		}
		two := jobs[0]
		compareFields(t, "the running job", two, slurmrest.Job{
			ID: two.ID, Cluster: "mini", Name: "two-nodes", User: "alice", UserID: 1001, GroupID: 1001,
			Account: "research", Partition: "main", QOS: "basic", State: slurmrest.State{Base: slurmrest.Running},
			Reason: "None", Comment: "a comment", Priority: two.Priority, Requeueable: true, Batch: true,
			Nodes: "n[1-2]", BatchHost: "n1", NodeCount: slurmrest.Num(2), Tasks: slurmrest.Num(2), CPUs: slurmrest.Num(2), MinCPUsPerNode: slurmrest.Num(1),
			TRESPerNode: "gres/gpu:1", GRESDetail: []string{"gpu:1(IDX:0)", "gpu:1(IDX:0)"},
			Layout:        []slurmrest.NodeLayout{{Node: "n1", CPUs: 1}, {Node: "n2", CPUs: 1}},
			TRESRequested: two.TRESRequested, TRESAllocated: two.TRESAllocated,
			TimeLimit:  slurmrest.LimitOf(time.Hour),
			SubmitTime: recordedAt, EligibleTime: recordedAt, StartTime: recordedAt, EndTime: recordedAt,
			WorkDir: "/tmp",
			// These fields are not compared: releases differ in which of them they fill in, and in
			// how they write unset ones.
			StdOut: two.StdOut, PreemptableTime: two.PreemptableTime,
			MaxNodes: two.MaxNodes, TasksPerNode: two.TasksPerNode, CPUsPerTask: two.CPUsPerTask,
			MemoryPerNode: two.MemoryPerNode, MemoryPerCPU: two.MemoryPerCPU, TimeMinimum: two.TimeMinimum,
			StdIn: two.StdIn, StdErr: two.StdErr,
		})
		if !strings.Contains(two.TRESAllocated, "gres/gpu=2") {
			t.Errorf("allocated TRES = %q, want two GPUs", two.TRESAllocated)
		}
		if !strings.HasPrefix(two.StdOut, "/tmp/out-") {
			t.Errorf("StdOut = %q, want /tmp/out-…", two.StdOut)
		}
		held := jobs[1]
		if !held.Held || held.Requeueable || held.State.Base != slurmrest.Pending || held.Reason != "JobHeldUser" ||
			held.RequiredNodes != "n1" || held.ExcludedNodes != "n2" || !held.TimeLimit.Infinite ||
			held.Nodes != "" || held.Layout != nil || held.EligibleTime.IsZero() {
			t.Errorf("the held job: %+v", held)
		}
	})
}

// compareFields compares two values field by field, and names the fields that differ.
func compareFields[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("%s: %s: %v; want %v", what, g.Type().Field(i).Name, g.Field(i), w.Field(i))
		}
	}
}

func TestRecordedArray(t *testing.T) {
	eachRecorded(t, func(t *testing.T, release, version string) {
		c := clientOfRecording(t, release, version, "jobs-array")
		all, _, err := c.ListJobs(t.Context(), time.Time{})
		if err != nil || len(all) != 2 {
			t.Fatalf("%d records, %v; want 2", len(all), err)
		}
		array := all[0].Array.JobID
		task, err := c.Job(t.Context(), slurmrest.TaskOf(array, 0))
		if err != nil || task.Array.Task != slurmrest.Num(0) || task.State.Base != slurmrest.Running || task.ID == array {
			t.Errorf("Job of task 0 = %+v, %v", task, err)
		}
		rest, err := c.Job(t.Context(), slurmrest.TaskOf(array, 3))
		if err != nil || rest.Array.Task.Set || rest.Array.Tasks != "1-3%1" || rest.State.Base != slurmrest.Pending {
			t.Errorf("Job of task 3 = %+v, %v; want the record of all waiting tasks", rest, err)
		}
		_, err = c.Job(t.Context(), slurmrest.TaskOf(array, 4))
		if !errors.Is(err, slurmrest.ErrInvalidJobID) || !strings.Contains(err.Error(), "not among its 2 records") {
			t.Errorf("Job of task 4: %v; want ErrInvalidJobID", err)
		}
	})
}

func TestRecordedHet(t *testing.T) {
	eachRecorded(t, func(t *testing.T, release, version string) {
		c := clientOfRecording(t, release, version, "jobs-het")
		all, _, err := c.ListJobs(t.Context(), time.Time{})
		if err != nil || len(all) != 2 {
			t.Fatalf("%d records, %v; want 2", len(all), err)
		}
		leader := all[0].Het.JobID
		second, err := c.Job(t.Context(), slurmrest.ComponentOf(leader, 1))
		if err != nil || second.Het.Offset != 1 || second.Tasks != slurmrest.Num(2) || second.ID == leader ||
			second.Het.IDs != fmt.Sprintf("%d-%d", leader, second.ID) {
			t.Errorf("Job of component 1 = %+v, %v", second, err)
		}
		first, err := c.Job(t.Context(), slurmrest.JobID(leader))
		if err != nil || first.ID != leader || first.Het.Offset != 0 {
			t.Errorf("Job of the leader = %+v, %v", first, err)
		}
	})
}

func TestRecordedCluster(t *testing.T) {
	eachRecorded(t, func(t *testing.T, release, version string) {
		nodes, err := clientOfRecording(t, release, version, "nodes").Nodes(t.Context())
		if err != nil || len(nodes) != 2 {
			t.Fatalf("%d nodes, %v; want 2", len(nodes), err)
		}
		n := nodes[0]
		if n.Name != "n1" || n.State.Base != "MIXED" || n.State.Draining() || n.CPUs != 4 || n.AllocatedCPUs == 0 ||
			n.RealMemory != 4000 || n.GRES != "gpu:2" || !strings.HasPrefix(n.GRESUsed, "gpu:1") ||
			!reflect.DeepEqual(n.Partitions, []string{"main", "debug"}) || !strings.HasPrefix(n.Version, release) ||
			n.BootTime.IsZero() || n.Features != nil || !n.FreeMemory.Set {
			t.Errorf("node as recorded = %+v", n)
		}
		one, err := clientOfRecording(t, release, version, "node").Node(t.Context(), "n1")
		if err != nil || one.Name != "n1" {
			t.Errorf("Node(n1) = %+v, %v", one, err)
		}
		partitions, err := clientOfRecording(t, release, version, "partitions").Partitions(t.Context())
		if err != nil || len(partitions) != 2 {
			t.Fatalf("%d partitions, %v; want 2", len(partitions), err)
		}
		p := partitions[0]
		if p.Name != "main" || p.State != "UP" || p.Nodes != "n[1-2]" || p.TotalNodes != 2 || p.TotalCPUs != 8 ||
			!p.MaxTime.Infinite || p.DefaultTime.Set || !p.MaxNodes.Infinite || p.PriorityTier != 1 {
			t.Errorf("partition main = %+v", p)
		}
		if debug := partitions[1]; debug.MaxTime != slurmrest.LimitOf(30*time.Minute) {
			t.Errorf("partition debug = %+v, want MaxTime of 30 minutes", debug)
		}
		qos, err := clientOfRecording(t, release, version, "qos").QOS(t.Context())
		if err != nil || len(qos) != 5 {
			t.Fatalf("%d qos, %v; want 5", len(qos), err)
		}
		cpus := func(n int64) []slurmrest.TRES { return []slurmrest.TRES{{Type: "cpu", ID: 1, Count: n}} }
		limited := qos[1]
		compareFields(t, "qos", limited, slurmrest.QOS{
			Name: "limited", ID: limited.ID, Description: "with limits", Priority: slurmrest.Num(7),
			Flags: []string{"DENY_LIMIT"}, GraceTime: 90 * time.Second, PreemptMode: limited.PreemptMode,
			PreemptExempt: slurmrest.LimitOf(10 * time.Minute), MaxWallPerJob: slurmrest.LimitOf(2 * time.Hour),
			GroupTRES: cpus(16), MaxTRESPerJob: cpus(6), MinTRESPerJob: cpus(1),
			MaxTRESOfUser: append(cpus(8), slurmrest.TRES{Type: "gres", Name: "gpu", ID: 1001, Count: 4}),
		})
		if q := qos[3]; q.Name != "premium" || q.Priority != slurmrest.Num(200) ||
			!reflect.DeepEqual(q.Preempts, []string{"basic", "standard"}) || !reflect.DeepEqual(q.PreemptMode, []string{"REQUEUE"}) {
			t.Errorf("QOS premium = %+v", q)
		}
		reservations, err := clientOfRecording(t, release, version, "reservations").Reservations(t.Context())
		if err != nil || len(reservations) != 1 {
			t.Fatalf("%d reservations, %v; want 1", len(reservations), err)
		}
		if r := reservations[0]; r.Name != "night" || r.Nodes != "n2" || r.Users != "alice" || r.Start != recordedAt || r.NodeCount != 1 {
			t.Errorf("reservation night = %+v", r)
		}
		diag, err := clientOfRecording(t, release, version, "diag").Diag(t.Context())
		if err != nil || diag.At != recordedAt || diag.JobsSubmitted == 0 || diag.ServerThreads == 0 || diag.ScheduleCycleMax == 0 {
			t.Errorf("Diag = %+v, %v", diag, err)
		}
		info, err := clientOfRecording(t, release, version, "ping").Cluster(t.Context())
		if err != nil || !strings.HasPrefix(info.Release, release) || info.Version != version ||
			len(info.Controllers) != 1 || !info.Controllers[0].Up || !info.Controllers[0].Primary || info.Controllers[0].Host != "ctl" {
			t.Errorf("Cluster = %+v, %v", info, err)
		}
		if version != slurmrest.V0038 && info.Name != "mini" {
			t.Errorf("name of the cluster = %q, want mini", info.Name)
		}
	})
}

func TestRecordedVerbs(t *testing.T) {
	job := slurmrest.JobID(1)
	comment := "x"
	edit := slurmrest.JobUpdate{Comment: &comment}
	eachRecorded(t, func(t *testing.T, release, version string) {
		done, err := clientOfRecording(t, release, version, "submit").Submit(t.Context(), slurmrest.JobSubmit{Script: "#!/bin/sh\n"})
		if err != nil || done.ID == 0 || len(done.Warnings) != 0 {
			t.Errorf("Submit = %+v, %v; want an id without warnings", done, err)
		}
		if err := clientOfRecording(t, release, version, "update").Update(t.Context(), job, edit); err != nil {
			t.Errorf("Update: %v", err)
		}
		if err := clientOfRecording(t, release, version, "update-array").Update(t.Context(), job, edit); err != nil {
			t.Errorf("Update of an array: %v", err)
		}
		if version != slurmrest.V0040 { // which would look for the job first
			if err := clientOfRecording(t, release, version, "signal").Signal(t.Context(), job, "CONT", slurmrest.SignalJob); err != nil {
				t.Errorf("Signal: %v", err)
			}
		}
		if version == slurmrest.V0045 {
			if _, err := clientOfRecording(t, release, version, "requeue").Requeue(t.Context(), job, slurmrest.RequeueOptions{}); err != nil {
				t.Errorf("Requeue: %v", err)
			}
		}
		_, info, err := clientOfRecording(t, release, version, "jobs-nochange").ListJobs(t.Context(), recordedAt)
		if err != nil || info.Changed || info.Count != 0 || info.Next.IsZero() {
			t.Errorf("ListJobs without a change = %+v, %v", info, err)
		}
	})
}

// TestRecordedErrors: the answer of every release to refused requests, and the error that the
// client makes of it.
func TestRecordedErrors(t *testing.T) {
	job := slurmrest.JobID(1)
	comment := "x"
	edit := slurmrest.JobUpdate{Comment: &comment}
	script := slurmrest.JobSubmit{Script: "#!/bin/sh\n"}
	for _, test := range []struct {
		name string
		ask  func(*testing.T, *slurmrest.Client) error
		want error
		says string
		only string // a version; "" is all
	}{
		{"update-error", func(t *testing.T, c *slurmrest.Client) error { return c.Update(t.Context(), job, edit) },
			slurmrest.ErrJobNotPending, "job 1: Job is no longer pending execution", ""},
		{"update-unparsed", func(t *testing.T, c *slurmrest.Client) error { return c.Update(t.Context(), job, edit) },
			slurmrest.ErrInvalidRequest, "job 1: ", ""},
		{"submit-error", func(t *testing.T, c *slurmrest.Client) error { _, err := c.Submit(t.Context(), script); return err },
			slurmrest.ErrInvalidPartition, "submit: Invalid partition name specified", ""},
		{"job-404", func(t *testing.T, c *slurmrest.Client) error { _, err := c.Job(t.Context(), job); return err },
			slurmrest.ErrInvalidJobID, "job 1: Invalid job id specified", ""},
		{"job-404", func(t *testing.T, c *slurmrest.Client) error {
			return c.Signal(t.Context(), job, "CONT", slurmrest.SignalJob)
		}, slurmrest.ErrInvalidJobID, "job 1: Invalid job id specified", slurmrest.V0040},
		{"node-404", func(t *testing.T, c *slurmrest.Client) error { _, err := c.Node(t.Context(), "nowhere"); return err },
			slurmrest.ErrInvalidNodeName, "node nowhere: ", ""},
		{"signal-error", func(t *testing.T, c *slurmrest.Client) error {
			return c.Signal(t.Context(), job, "CONT", slurmrest.SignalJob)
		}, slurmrest.ErrInvalidJobID, "job 1: ", "not " + slurmrest.V0040},
		{"node-update-error", func(t *testing.T, c *slurmrest.Client) error { return c.ResumeNode(t.Context(), "n1") },
			slurmrest.ErrNodeState, "node n1: Invalid node state", "not " + slurmrest.V0038},
		{"requeue-error", func(t *testing.T, c *slurmrest.Client) error {
			_, err := c.Requeue(t.Context(), job, slurmrest.RequeueOptions{})
			return err
		}, slurmrest.ErrDisabled, "job 1: Requested operation is presently disabled", slurmrest.V0045},
		{"auth-none", func(t *testing.T, c *slurmrest.Client) error { _, err := c.Nodes(t.Context()); return err },
			slurmrest.ErrAuth, "nodes: Authentication failure (GET /slurm/v0.0.", ""},
		{"auth-bad-jobs", func(t *testing.T, c *slurmrest.Client) error {
			_, _, err := c.ListJobs(t.Context(), time.Time{})
			return err
		}, slurmrest.ErrAuth, "Protocol authentication error", "not " + slurmrest.V0038},
	} {
		eachRecorded(t, func(t *testing.T, release, version string) {
			if test.only != "" && test.only != version && (!strings.HasPrefix(test.only, "not ") || test.only == "not "+version) {
				return
			}
			err := test.ask(t, clientOfRecording(t, release, version, test.name))
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: error %v; want one that is %q and says %q", test.name, err, test.want, test.says)
			}
		})
	}
}
