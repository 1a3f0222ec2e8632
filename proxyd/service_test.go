// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// TestNotRunning: a job that cannot be captured is told apart from a job without protection.
func TestNotRunning(t *testing.T) {
	for _, tt := range []struct {
		job        slurm.Job
		text, hint string
	}{
		{slurm.Job{State: "COMPLETED"}, "job 7 has ended: COMPLETED", "singctl checkpoints 7 lists what is left of it"},
		{slurm.Job{State: "CANCELLED", Restarts: 1}, "job 7 has ended: CANCELLED", "singctl checkpoints 7 lists what is left of it"},
		{slurm.Job{State: "PENDING"}, "job 7 has not begun yet: PENDING", ""},
		{slurm.Job{State: "PENDING", Restarts: 1}, "job 7 is not running: PENDING", ""},
		{slurm.Job{State: "COMPLETING"}, "job 7 is not running: COMPLETING", "it is about to end"},
	} {
		err := notRunning("7", &tt.job)
		var e *rpc.Error
		if !errors.As(err, &e) || !errors.Is(err, rpc.ErrNotRunning) || e.Text != tt.text || e.Hint != tt.hint {
			t.Errorf("job %+v: error = %+v", tt.job, e)
		}
	}
}

// TestChooseRetention: a collection deletes the checkpoints that the help of singctl gc names.
func TestChooseRetention(t *testing.T) {
	cfg := &config.Config{Keep: 2, KeepFor: 7 * 24 * time.Hour}
	three := uint32(3)
	for _, tt := range []struct {
		req  *rpc.GCRequest
		want store.Retention
	}{
		{&rpc.GCRequest{}, store.Retention{Count: 2, Age: 7 * 24 * time.Hour}},
		{&rpc.GCRequest{OlderThan: durationpb.New(time.Hour)}, store.Retention{Age: time.Hour}},
		{&rpc.GCRequest{Keep: &three}, store.Retention{Count: 3, Protect: 3, Age: 7 * 24 * time.Hour}},
		{&rpc.GCRequest{OlderThan: durationpb.New(time.Hour), Keep: &three}, store.Retention{Protect: 3, Age: time.Hour}},
	} {
		// Retention has functions, which cannot be compared.
		if got := chooseRetention(cfg, tt.req); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%v: %+v, want %+v", tt.req, got, tt.want)
		}
	}
}

// TestNotProtected: the error for a job that cannot be protected, such as salloc's, does not advise
// --singularity.
func TestNotProtected(t *testing.T) {
	for _, tt := range []struct {
		job        *slurm.Job
		text, hint string
	}{
		{&slurm.Job{State: "RUNNING", Batch: true, Requeue: true}, "job 7 runs without --singularity", ""},
		{nil, "job 7 runs without --singularity", ""},
		{&slurm.Job{State: "RUNNING"}, "job 7 runs unprotected: Slurm requeues batch jobs only", "singctl session start begins a shell that is protected"},
		{
			&slurm.Job{State: "RUNNING", Batch: true},
			"job 7 runs unprotected: it was submitted with --no-requeue", "submit it without: a job that Slurm may not requeue cannot resume",
		},
		{
			&slurm.Job{State: "RUNNING", Batch: true, Requeue: true, HetJob: 7},
			"job 7 runs unprotected: heterogeneous jobs are not protected", "ask for nodes of a single kind",
		},
	} {
		err := withKind("7", tt.job, "n1", "n1", fmt.Errorf("job 7: %w", checkpoint.ErrNoJob))
		var e *rpc.Error
		if !errors.As(err, &e) || !errors.Is(err, rpc.ErrNotProtected) || e.Text != tt.text || e.Hint != tt.hint {
			t.Errorf("job %+v: error = %+v", tt.job, err)
		}
	}
}

func TestFill(t *testing.T) {
	at := time.Unix(1, 0)
	out := &rpc.Job{Id: "49"}
	fillJob(out, &checkpoint.View{
		Record:    records.Record{Slurm: "48_3"},
		Obstacles: []processes.Obstacle{{What: "x", Node: "n2", Since: at}, {What: "y"}},
		Events:    []records.Event{{At: at, What: "started", Where: "n1,n2", Run: 2, Checkpoint: 3, AfterEnd: true}, {What: "checkpoint", Checkpoint: 4, Took: time.Second}},
	})
	if out.Id != "48_3" || out.Obstacles[0].Node != "n2" || out.Obstacles[0].Since.AsTime() != at.UTC() || out.Obstacles[1].Since != nil || out.Timeline[0].Where != "n1,n2" ||
		out.Timeline[0].Run != 2 || out.Timeline[0].Checkpoint != 3 || out.Timeline[0].Took != nil || !out.Timeline[0].AfterEnd || out.Timeline[1].Took.AsDuration() != time.Second {
		t.Errorf("job as people see it = %v", out)
	}
}

// TestFillOptions: each option of a job's record is shown, by its short name in --singularity=; an option that was not
// given is not shown.
func TestFillOptions(t *testing.T) {
	given := records.Options{
		Interval: 10 * time.Minute, GPUs: "4-8", OnFailure: "restart", Outside: "relay", Listen: []uint16{8888, 6006}, Exact: true, Exclude: []string{"/a", "/b"},
	}
	for field, value := range reflect.ValueOf(given).Fields() {
		if value.IsZero() {
			t.Errorf("this test does not give the option %s", field.Name)
		}
	}
	want := map[string]string{
		"interval": "10m0s", "gpus": "4-8", "on-failure": "restart", "outside": "relay", "listen": "8888,6006", "exact": "yes", "exclude": "/a,/b",
	}
	out := &rpc.Job{}
	fillJob(out, &checkpoint.View{Record: records.Record{Options: given}})
	if !maps.Equal(out.Options, want) {
		t.Errorf("options as people see them = %v, want %v", out.Options, want)
	}
	fillJob(out, &checkpoint.View{})
	if len(out.Options) != 0 {
		t.Errorf("options of a job with none = %v, want none", out.Options)
	}
}

// TestStored: errors of the store get the matching kind of package rpc, with the same text.
func TestStored(t *testing.T) {
	for _, tt := range []struct{ err, kind error }{
		{&store.DamagedError{Object: "manifest a/1/1", Reason: "not a manifest"}, rpc.ErrDamaged},
		{fmt.Errorf("open: %w", &store.RefusedError{Object: "manifest a/1/1", Why: store.ErrMAC}), rpc.ErrDamaged},
		{fmt.Errorf("collect: %w", store.ErrBusy), rpc.ErrBusy},
		{fmt.Errorf("manifest a/1/1: %w", fs.ErrNotExist), rpc.ErrNoCheckpoint},
		{context.Canceled, context.Canceled},
	} {
		if got := withStoreKind(tt.err); !errors.Is(got, tt.kind) || got.Error() != tt.err.Error() {
			t.Errorf("withStoreKind(%v) = %v", tt.err, got)
		}
	}
}

// TestAddPast: the time line of a job that is over is shown for its user's job only, also when Slurm
// has begun its numbers anew.
func TestAddPast(t *testing.T) {
	shared := t.TempDir()
	c, err := checkpoint.New(checkpoint.Config{Node: "n1", Cluster: "mini", Lib: t.TempDir(), Shared: shared},
		checkpoint.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	folder := records.Folder{Dir: filepath.Join(shared, "jobs")}
	lines := records.NewTimeline(folder, "n1")
	rec := &records.Record{
		Job: 7, UID: 1001, Nodes: []string{"n1"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1")},
	}
	err = errors.Join(folder.Save(rec), lines.Write(7, records.Event{What: records.EventHeld}), lines.KeepPast(rec), folder.Remove(7), lines.Remove(7))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name        string
		job         string
		slurm       *slurm.Job
		checkpoints []*rpc.Checkpoint
		want        bool
	}{
		{name: "forgotten by Slurm", job: "7", want: true},
		{name: "over", job: "7", slurm: &slurm.Job{ID: 7, UID: 1001, State: "COMPLETED"}, want: true},
		{name: "another user's job is over", job: "7", slurm: &slurm.Job{ID: 7, UID: 1002, State: "COMPLETED"}},
		{name: "another job runs", job: "7", slurm: &slurm.Job{ID: 7, UID: 1001, State: "RUNNING"}},
		{name: "checkpoints of another user", job: "7", checkpoints: []*rpc.Checkpoint{{Problem: "damaged"}, {User: "bob", Uid: 1002}}},
		{name: "checkpoints of the user", job: "7", checkpoints: []*rpc.Checkpoint{{User: "alice", Uid: 1001}}, want: true},
		{name: "nothing is kept", job: "8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := &rpc.Job{Id: tt.job, Checkpoints: tt.checkpoints}
			got := service{&node{conductor: c}}.addPast(out, tt.job, tt.slurm)
			if got != tt.want || len(out.Timeline) > 0 != tt.want || tt.want && out.Uid != 1001 {
				t.Errorf("addPast = %v, job = %v", got, out)
			}
		})
	}
}

// TestNodeAway: the error of a checkpoint for which a node's daemon was away names the node once, and what to do there.
func TestNodeAway(t *testing.T) {
	unreachable := &rpc.Error{Kind: rpc.ErrUnreachable, Text: "node n2: proxyd does not answer: connection refused", Node: "n2"}
	away := describeAway("n2", unreachable)
	if !errors.Is(away, checkpoint.ErrAway) || !errors.Is(away, rpc.ErrUnreachable) {
		t.Errorf("the error %v is neither ErrAway nor ErrUnreachable", away)
	}
	err := withKind("7", nil, "n1", "n1", fmt.Errorf("job 7: checkpoint 3: dump: node n2: %w; the job runs on", away))
	var e *rpc.Error
	const want = "job 7: checkpoint 3: dump: node n2: proxyd does not answer: connection refused; the job runs on"
	if !errors.As(err, &e) || !errors.Is(err, rpc.ErrBusy) || e.Text != want || e.Hint != "on the node that is named: systemctl status proxyd; then try again" {
		t.Errorf("withKind = %v, hint %q; want %q", err, e.Hint, want)
	}
}
