// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/api/apitest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// controller answers as preemptd would: an action on 812 is done, on 814 undone, and of an action on 818 no caller
// hears the end.
type controller struct {
	control.UnimplementedPreemptdServer
}

func serveController(t *testing.T, c *cluster) string {
	t.Helper()
	server := control.NewServer(&munge.CredentialCheck{Coder: c.realm.As(0, 0)}, controller{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

func timestampAt(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(apitest.Then.Add(time.Duration(seconds) * time.Second))
}

// Act takes on actions on alice's jobs; the action's why has the request that arrived.
func (controller) Act(ctx context.Context, req *control.ActRequest) (*control.Action, error) {
	caller, _ := munge.CallerOf(ctx)
	var id, job int64
	if _, err := fmt.Sscan(req.GetJob(), &job); err != nil {
		return nil, control.Status(control.Errorf(control.ErrNoJob, "job %s: Slurm knows none of that name", req.GetJob()))
	}
	switch {
	case caller.UID != apitest.Alice:
		return nil, control.Status(control.Errorf(control.ErrDenied, "%s: not permitted: job %s belongs to another user", req.GetKind(), req.GetJob()))
	case job == 815:
		return nil, control.Status(&control.Error{Kind: control.ErrBusy, Text: "job 815: preempt: an action is under way", Hint: "singctl history 815 shows it"})
	case job == 817:
		return nil, control.Status(&control.Error{Kind: control.ErrSlurm, Text: "preemptd asks Slurm: slurmrestd cannot be reached", Hint: "nothing was done; try again when Slurm answers"})
	case req.GetKind() == "migrate" && slices.Contains(req.GetAvoid(), "n9"):
		return nil, control.Status(control.Errorf(control.ErrNothingToDo, "migrate: job %d runs on n1 already: there is nothing to do", job))
	case slices.Contains([]int64{812, 814, 818}, job):
		id = job - 800
	default:
		return nil, control.Status(control.Errorf(control.ErrNoJob, "job %d: Slurm knows none of that name", job))
	}
	why := fmt.Sprintf("%s: to %q, away %q, %d nodes, %d GPUs, QOS %q, hold %v", req.GetReason(), req.GetNodes(), req.GetAvoid(), req.GetNodeCount(), req.GetGpus(), req.GetQos(), req.GetHold())
	if req.GetSwap() {
		why += ", swapped if need be"
	}
	return &control.Action{Id: id, Kind: req.GetKind(), Job: job, Who: "alice", Why: why, State: "going", Created: timestampAt(0)}, nil
}

func newAction(id int64) *control.Action {
	return &control.Action{Id: id, Kind: "preempt", Job: 800 + id, Who: "alice", Why: "asked", State: "going", Step: "checkpoint", Doing: "making a checkpoint", Created: timestampAt(-10), Lines: []*control.Line{{At: timestampAt(-10), State: "going"}}}
}

func (controller) Watch(req *control.WatchRequest, stream grpc.ServerStreamingServer[control.Action]) error {
	a := newAction(req.GetId())
	if err := stream.Send(a); err != nil {
		return err
	}
	if a.GetId() == 18 {
		return control.Status(control.Errorf(control.ErrInternal, "preemptd is stopped"))
	}
	a.Step, a.Doing, a.Lines = "park", "putting it back into the queue", []*control.Line{{At: timestampAt(-9), State: "going", Step: "park"}}
	if err := stream.Send(a); err != nil {
		return err
	}
	return stream.Send(endAction(a))
}

func endAction(a *control.Action) *control.Action {
	a.State, a.Ended = "done", timestampAt(-5)
	if a.GetId() == 14 {
		a.State, a.Problem = "undone", "it is PENDING, and cannot be preempted"
	}
	a.Lines = []*control.Line{{At: timestampAt(-5), State: a.GetState(), Step: "report", Doing: "writing the result into its comment", Attempt: 1, Text: "told\x1b[2J"}}
	return a
}

func (controller) Show(_ context.Context, req *control.ShowRequest) (*control.Action, error) {
	if req.GetId() != 12 {
		return nil, control.Status(control.Errorf(control.ErrNoAction, "action %d: there is none of that number", req.GetId()))
	}
	return endAction(newAction(12)), nil
}

func (controller) History(ctx context.Context, req *control.HistoryRequest) (*control.HistoryReply, error) {
	if caller, _ := munge.CallerOf(ctx); caller.UID != apitest.Alice {
		return &control.HistoryReply{}, nil
	}
	other := func(job int64) bool { return req.GetJob() != "" && req.GetJob() != fmt.Sprint(job) }
	events := []*control.Event{{Job: 812, Restarts: 2, What: "preempted", At: timestampAt(-7), Text: "by Slurm"}}
	moved := endAction(newAction(14))
	moved.Kind, moved.Target = "migrate", "away from n1"
	reply := &control.HistoryReply{
		Actions: slices.DeleteFunc([]*control.Action{newAction(18), moved, endAction(newAction(12))}, func(a *control.Action) bool { return other(a.GetJob()) }),
		Events:  slices.DeleteFunc(events, func(e *control.Event) bool { return other(e.GetJob()) }),
	}
	if req.GetJob() == "816" {
		reply.Standing = &control.Standing{Tier: "basic", Fraction: 1, Counted: durationpb.New(time.Hour), Requested: 1, Gpus: 2, Leased: 1, Least: 1}
	}
	if req.GetJob() == "817" {
		reply.Standing = &control.Standing{Tier: "basic", Fraction: 1, Counted: durationpb.New(time.Hour), Requested: 1, Gpus: 1, Least: 1, Submitted: 2}
	}
	if req.GetJob() == "811" {
		reply.Standing = &control.Standing{Tier: "basic", Fraction: 1}
	}
	if req.GetJob() == "813" {
		reply.Standing = &control.Standing{
			Tier: "premium", Promised: 0.95, Fraction: 1, Counted: durationpb.New(time.Hour), Requested: 8, Gpus: 8, Least: 8,
			Infeasible: "not all promises can be kept: \x1b[2Jpremium: 96 GPUs are promised, 64 are there",
		}
	}
	if req.GetJob() == "810" { // the text about the promise is a part of why the job waits
		infeasible := "its promise cannot be kept: it asks for 128 GPUs, and the nodes that it may use have 64"
		reply.Standing = &control.Standing{
			Tier: "premium", Promised: 0.95, Fraction: 1, Requested: 128, Least: 128, Waits: "there is no room, and no job of a lower tier holds any; " + infeasible,
			Infeasible: infeasible,
		}
	}
	if req.GetJob() == "812" {
		reply.Standing = &control.Standing{
			Tier: "premium", Promised: 0.95, Fraction: 0.8125, Counted: durationpb.New(time.Hour), Requested: 8, Gpus: 4, Least: 2,
			Waits: "job 9: not to be checkpointed, it runs without \x1b[2J--singularity",
		}
	}
	return reply, nil
}

func (controller) Jobs(ctx context.Context, _ *control.JobsRequest) (*control.JobsReply, error) {
	if caller, _ := munge.CallerOf(ctx); caller.UID != apitest.Alice {
		return &control.JobsReply{Seen: timestampAt(-2)}, nil
	}
	return &control.JobsReply{Seen: timestampAt(-2), Jobs: []*control.Job{
		{
			Id: 812, Label: "812", Name: "train\x1b[2J", User: "alice", Tier: "basic", State: "running", Action: "preempt", Nodes: []string{"n1", "n3"},
			Gpus: 2, Requested: 4, Fraction: 0.625, Restarts: 3, Checkpoint: timestampAt(-90), Submitted: timestampAt(-9000), Started: timestampAt(-300),
		},
		{Id: 814, Label: "814", Name: "wait", User: "alice", Tier: "premium", State: "held", HeldBy: "operator", Gpus: 1, Requested: 1, Fraction: 1, Promised: 0.95, Obstacle: "it runs without --singularity"},
		{Id: 816, Label: "816", Name: "borrower", User: "alice", Tier: "basic", State: "running", Nodes: []string{"n2"}, Gpus: 2, Requested: 1, Leased: 1, Fraction: 1},
		{Id: 817, Label: "817", Name: "grown", User: "alice", Tier: "basic", State: "running", Nodes: []string{"n4"}, Gpus: 4, Requested: 2, Fraction: 1},
		{Id: 819, Label: "819", Name: "again", User: "alice", Tier: "basic", State: "deferred", Eligible: timestampAt(119), Requested: 1, Gpus: 1, Fraction: 0.5, Obstacle: "it has not run yet: obstacles to a checkpoint are known once it runs"},
		{Id: 820, Label: "820", Name: "after", User: "alice", Tier: "basic", State: "deferred", Eligible: timestampAt(-5), Requested: 1, Gpus: 1, Fraction: 1},
		{Id: 818, Label: "818", Name: "no GPUs", User: "alice", Tier: "standard", State: "waiting", Fraction: 1, Promised: 0.7},
	}}, nil
}

func (controller) Status(context.Context, *control.StatusRequest) (*control.StatusReply, error) {
	return &control.StatusReply{
		Version: "1.0", Cluster: "mini", Holder: "ctl, process 7", Term: 3, Ticked: timestampAt(-2), UnderWay: 2, Actions: []*control.Action{newAction(18)},
		Policies: []*control.Policy{
			{Name: "drain", Running: true, Starts: 1},
			{Name: "tiers", Starts: 4, Failures: 4, Problem: "it does not answer", Until: timestampAt(60)},
			{Name: "power"},
		},
		Unkept:   []string{"premium: 96 GPUs are promised, 64 are there", "standard and higher: 110.4 GPUs are promised, 64 are there"},
		Problems: []string{"policy tiers: it does not answer"},
		Proxyds: &control.Proxyds{Nodes: 64, Answer: 62, Silent: 1, Unsound: 1, Examples: []string{
			"n9: proxyd does not answer since 2026-11-24 03:04:05", "n4: the shared folder is not there, or not mounted",
		}},
	}, nil
}

func (controller) Token(ctx context.Context, _ *control.TokenRequest) (*control.TokenReply, error) {
	caller, _ := munge.CallerOf(ctx)
	return &control.TokenReply{Token: fmt.Sprintf("sing1_of%d", caller.UID), Until: timestampAt(3600), Page: "http://127.0.0.1:6832/"}, nil
}

// checkOperator takes every user but alice for an operator.
func checkOperator(ctx context.Context, what string) error {
	if caller, _ := munge.CallerOf(ctx); caller.UID == apitest.Alice {
		return control.Status(control.Errorf(control.ErrDenied, "%s: not permitted: it shows everybody's jobs; it is for operators", what))
	}
	return nil
}

func (controller) Snapshot(ctx context.Context, _ *control.SnapshotRequest) (*control.SnapshotReply, error) {
	return &control.SnapshotReply{Snapshot: []byte("a snapshot")}, checkOperator(ctx, "policy record")
}

// Try answers with the request that arrived.
func (controller) Try(ctx context.Context, req *control.TryRequest) (*control.TryReply, error) {
	if err := checkOperator(ctx, "policy test"); err != nil {
		return nil, err
	}
	reply := &control.TryReply{Cluster: "mini", Time: timestampAt(-2), Nodes: 2, Jobs: 3, Policies: []*control.Tried{{Policy: "drain"}}}
	switch {
	case req.GetAt() != nil:
		reply.Policies[0].Problem = "asked as of " + req.GetAt().AsTime().Format(time.RFC3339)
	case strings.Contains(req.GetFile(), "wrong"):
		reply.Policies = []*control.Tried{{Policy: "starlark", Problem: "refusal: " + req.GetFileName() + ":1:1: no\x1b[2J"}}
	case len(req.GetPolicies())+len(req.GetSnapshot())+len(req.GetFile()) > 0:
		reply.Policies = []*control.Tried{{Policy: "tiers", Accepted: []*control.Wanted{
			{What: "preempt job 812", Job: 812, Reason: fmt.Sprintf("policies %q, snapshot %q, file %q", req.GetPolicies(), req.GetSnapshot(), req.GetFile())},
			{What: "place job 813 on n1 (2 GPUs)", Job: 813, Reason: "it waits", After: []int64{812, 815}},
		}, Rejected: []*control.Wanted{{What: "preempt job 814", Job: 814, Reason: "it is cheap", Invariant: "min-run", Detail: "it has run for 3s of at least 5m0s"}}}}
	}
	return reply, nil
}

// TestPolicyFiles: the recorded snapshot is tried, and no file is overwritten.
func TestPolicyFiles(t *testing.T) {
	c := newCluster(t)
	folder := t.TempDir()
	file, star := filepath.Join(folder, "now.snapshot"), filepath.Join(folder, "site.star")
	if err := os.WriteFile(star, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, play := range []struct{ args, want string }{
		{"policy record " + file, "saved 10 B into " + file + "\n"},
		{"policy record " + file, "! singctl: " + file + " is there already\n! hint: singctl policy record --help\nexit 2\n"},
		{"policy test --policies tiers --snapshot " + file, "snapshot \"a snapshot\""},
		{"policy test --file " + star, "starlark: PROBLEM: refusal: site.star:1:1: no?[2J\nexit 8\n"},
		{"policy test --file " + star + ".none", "no such file"},
		{"policy test --at 2026-03-07T22:30:00Z", "drain: PROBLEM: asked as of 2026-03-07T22:30:00Z\nexit 8\n"},
		{"policy test --at nonsense", "! singctl: --at nonsense: want 22:30, 2026-03-07 22:30 or 2026-03-07T22:30:00Z\n! hint: singctl policy test --help\nexit 2\n"},
	} {
		if got := c.runLine(t.Context(), "bob", strings.Fields(play.args)...); !strings.Contains(got, play.want) {
			t.Errorf("singctl %s:\n%s\nwant %s", play.args, got, play.want)
		}
	}
	if got := c.runLine(t.Context(), "alice", "policy", "record", file+"2"); !strings.HasSuffix(got, "exit 4\n") {
		t.Errorf("policy record by a user without operator rights = %q, want exit 4", got)
	}
	if _, err := os.Stat(file + "2"); err == nil {
		t.Error("the denied policy record left a file")
	}
}

// TestNoController: the error says where preemptd was looked for, and how to mend that.
func TestNoController(t *testing.T) {
	c := newCluster(t)
	out := c.runLine(t.Context(), "alice", "status", "--controller", "127.0.0.1:1")
	want := `! singctl: no preemptd answers at 127.0.0.1:1
! hint: this needs the site's controller, preemptd; on its host: preemptd doctor, and systemctl status preemptd, or systemctl enable --now preemptd where it was never started (a minicluster: up --controller); --controller HOST:PORT or SINGULARITY_SLURM_CONTROLLER if it listens elsewhere
exit 6
`
	if out != want {
		t.Errorf("status without preemptd:\n%s\nwant\n%s", out, want)
	}
}

// TestWhere: preemptd is looked for beside slurmctld, and a port need not be named.
func TestWhere(t *testing.T) {
	newCluster(t)
	hosts, err := slurm{}.controllerHosts(t.Context())
	if err != nil || strings.Join(hosts, " ") != "10.0.0.1 ctl2" {
		t.Errorf("controllerHosts = %q, %v", hosts, err)
	}
	for typed, want := range map[string]string{"ctl": "ctl:6831", "ctl:7": "ctl:7", "[fe80::1]:7": "[fe80::1]:7", ":7": "", "ctl:": "", "ctl:0": "", "ctl:x": "", "fe80::1": ""} {
		if got, err := controllerAddress(typed); got != want || (err != nil) != (want == "") {
			t.Errorf("controllerAddress(%q) = %q, %v", typed, got, err)
		}
	}
}

// TestNotWaited: a person that does not wait is told that the action goes on.
func TestNotWaited(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	a := c.newApp("alice", &out, &errs)
	code := a.exitCode(ctx, a.rootCommand(), &goesOnError{12, context.Canceled})
	if want := "singctl: action 12 goes on\nhint: singctl history --action 12 says how it ends\n"; code != 130 || errs.String() != want {
		t.Errorf("an action that goes on: exit code %d, %s", code, errs.String())
	}
}

// TestOwnGPUsText: of a job that a person has resized the text does not say that it asked for its new size.
func TestOwnGPUsText(t *testing.T) {
	for want, s := range map[string]*control.Standing{
		"GPUs: 1 of the 2 that it asked for":                         {Gpus: 2, Leased: 1, Requested: 2},
		"GPUs: 4, 2 more than it asked for":                          {Gpus: 4, Requested: 2},
		"GPUs: 1; submitted with 2":                                  {Gpus: 1, Requested: 1, Submitted: 2},
		"GPUs: 0 of the 1 to which it was resized; submitted with 2": {Requested: 1, Submitted: 2},
	} {
		if got := ownGPUsText(s); got != want {
			t.Errorf("ownGPUsText = %q, want %q", got, want)
		}
	}
}
