// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// journey is an action on a job, and the result.
type journey struct {
	name  string
	kind  string
	args  Args
	waits bool                 // the job waits
	begin func(*slurmrest.Job) // sets the other special properties of the job
	lends bool                 // jobs can lend GPUs to the job

	restarts    int64
	checkpoints int
	held        bool
	nodes       string // of the job in the end; "" if the job does not run
	required    string
	excluded    string
	qos         string
	count       int64
	perNode     int64
	tres        string
	said        string // in its comment
}

func byUser(j *slurmrest.Job) { j.Held, j.Priority = true, slurmrest.Num(0) }

// journeys are all kinds of actions, on jobs that run and that wait.
var journeys = []journey{
	{
		name: "preempt", kind: "preempt", restarts: 1, checkpoints: 1, nodes: "n4,n5",
		said: "preempted by bob: room for 99 (action 1); checkpoint test/1/1",
	},
	{
		name: "preempt and hold", kind: "preempt", args: Args{Hold: true}, restarts: 1, checkpoints: 1, held: true,
		said: "preempted by bob: room for 99 (action 1); checkpoint test/1/1; held until singctl resume 1",
	},
	{name: "resume", kind: "resume", waits: true, begin: byUser, nodes: "n4,n5", said: "resumed by bob"},
	{
		name: "resume elsewhere", kind: "resume", args: Args{Nodes: []string{"n6", "n7"}}, waits: true, begin: byUser,
		nodes: "n6,n7", required: "n6,n7", said: "resumed to n6,n7 by bob",
	},
	{
		name: "migrate to", kind: "migrate", args: Args{Nodes: []string{"n3", "n4"}}, restarts: 1, checkpoints: 1,
		nodes: "n3,n4", required: "n3,n4", said: "migrated to n3,n4 by bob",
	},
	{
		name: "migrate away", kind: "migrate", args: Args{Avoid: []string{"n1"}}, restarts: 1, checkpoints: 1,
		nodes: "n4,n5", excluded: "n1,n9", said: "migrated away from n1 by bob",
	},
	{
		name: "migrate a job that waits", kind: "migrate", args: Args{Nodes: []string{"n3", "n4"}}, waits: true,
		nodes: "n3,n4", required: "n3,n4", said: "migrated",
	},
	{
		name: "shrink", kind: "resize", args: Args{NodeCount: 1}, restarts: 1, checkpoints: 1,
		nodes: "n4", count: 1, perNode: 4, said: "resized by bob",
	},
	{
		name: "other GPUs", kind: "resize", args: Args{GPUs: 4}, restarts: 1, checkpoints: 1,
		nodes: "n4,n5", tres: "gres/gpu:a100:4", said: "resized by bob",
	},
	{
		name: "shrink onto a node", kind: "resize", args: Args{Nodes: []string{"n3"}, GPUs: 4}, restarts: 1, checkpoints: 1,
		nodes: "n3", required: "n3", count: 1, perNode: 4, tres: "gres/gpu:a100:4", said: "resized to n3 by bob",
	},
	{
		name: "grow in place", kind: "resize", args: Args{GPUs: 4}, begin: onOneNode, lends: true,
		nodes: "n1", count: 1, perNode: 2, said: "resized in place, to 4 GPUs by bob",
	},
	{
		name: "shrink in place", kind: "resize", args: Args{GPUs: 1}, begin: onOneNode, lends: true,
		nodes: "n1", count: 1, perNode: 2, said: "resized in place, to 1 GPU by bob",
	},
	{
		name: "grow in place on two nodes", kind: "resize", args: Args{Nodes: []string{"n2", "n1"}, GPUs: 4}, lends: true,
		nodes: "n1,n2", said: "resized to n2,n1 in place, to 4 GPUs by bob",
	},
	{
		name: "grow, and no job can lend", kind: "resize", args: Args{Nodes: []string{"n1"}, GPUs: 4}, begin: onOneNode, restarts: 1, checkpoints: 1,
		nodes: "n1", required: "n1", count: 1, perNode: 2, tres: "gres/gpu:a100:4", said: "resized to n1 by bob",
	},
	{name: "hold", kind: "hold", waits: true, held: true, said: "held by bob"},
	{name: "release", kind: "release", waits: true, begin: byUser, nodes: "n4,n5", said: "released by bob"},
	{
		name: "requeue", kind: "requeue", args: Args{QOS: "premium"}, restarts: 1, checkpoints: 1, nodes: "n4,n5", qos: "premium",
		said: "requeued with QOS premium by bob",
	},
	{
		name: "another QOS for a job that waits", kind: "requeue", args: Args{QOS: "premium"}, waits: true, nodes: "n4,n5", qos: "premium",
		said: "requeued with QOS premium by bob",
	},
	{
		name: "place", kind: "place", args: Args{Nodes: []string{"n6", "n7"}}, waits: true, nodes: "n6,n7", required: "n6,n7", said: "placed to n6,n7",
	},
}

// onOneNode has the job on a single node, where other jobs could lend GPUs.
func onOneNode(j *slurmrest.Job) { j.NodeCount, j.Nodes = slurmrest.Num(1), "n1" }

// newWorld makes the world of the journey's job.
func (c journey) newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, c.waits)
	if c.begin != nil {
		w.srv.EditJob(w.id, c.begin)
	}
	if c.lends {
		if err := os.WriteFile(filepath.Join(w.dir, "lends"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// settleCluster lets the cluster settle.
func (w *world) settleCluster() {
	for range 4 {
		w.stepSlurm()
	}
}

// checkJob compares the job at the end.
func (c journey) checkJob(t *testing.T, w *world) {
	t.Helper()
	w.settleCluster()
	j := w.currentJob()
	or := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	want := jobrequest.Request{
		Required: c.required, Excluded: or(c.excluded, "n9"), QOS: or(c.qos, "basic"),
		Nodes: 2, Tasks: 4, PerNode: 2, TRESNode: or(c.tres, "gres/gpu:a100:2"),
	}
	if c.count != 0 {
		want.Nodes, want.PerNode = c.count, c.perNode
	}
	if got := jobrequest.Of(&j); got != want {
		t.Errorf("the job asks for %+v\nwant             %+v", got, want)
	}
	if j.Restarts != c.restarts || j.Held != c.held || j.Nodes != c.nodes {
		t.Errorf("restarts %d, held %v, nodes %q; want %d, %v, %q", j.Restarts, j.Held, j.Nodes, c.restarts, c.held, c.nodes)
	}
	if n := w.countCheckpoints(t); n != c.checkpoints {
		t.Errorf("%d checkpoints, want %d", n, c.checkpoints)
	}
	if lent, _ := os.ReadFile(filepath.Join(w.dir, "lent")); c.lends != (string(lent) == fmt.Sprint(c.args.GPUs)) {
		t.Errorf("the job was lent GPUs until it had %q", lent)
	}
	if len(w.runs) > 1 {
		t.Errorf("the job was started %d times: %q", len(w.runs), w.runs)
	}
	if !strings.HasPrefix(j.Comment, userComment+"; preemptd: "+c.said) {
		t.Errorf("comment %q, want %q", j.Comment, c.said)
	}
}

func TestActions(t *testing.T) {
	for _, c := range journeys {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := c.newWorld(t)
			j := w.openJournal(t)
			a, err := w.newRunner(t, j, func(point string) error {
				if point == "after requeue" && !w.currentJob().Held {
					t.Error("after the requeue the job is not held: it could start")
				}
				return nil
			}).Run(t.Context(), w.beginAction(t, j, c.kind, c.args))
			if err != nil || a.State != journal.Done || a.Problem != "" {
				t.Fatalf("Run: %v; the action is %s, problem %q, want done", err, a.State, a.Problem)
			}
			c.checkJob(t, w)
		})
	}
}

// Nodes that a migration required are not the job's own wish: the next action removes them.
func TestUnpinned(t *testing.T) {
	w := newWorld(t, false)
	j := w.openJournal(t)
	r := w.newRunner(t, j, nil)
	for i, c := range []struct {
		kind     string
		args     Args
		required string
		excluded string
	}{
		{"migrate", Args{Nodes: []string{"n3", "n4"}}, "n3,n4", "n9"},
		{"migrate", Args{Avoid: []string{"n4"}}, "", "n4,n9"},
		{"migrate", Args{Avoid: []string{"n5"}}, "", "n5,n9"},
		{"preempt", Args{}, "", "n9"},
	} {
		a, err := r.Run(t.Context(), w.beginAction(t, j, c.kind, c.args))
		if now := w.currentJob(); err != nil || a.State != journal.Done || now.RequiredNodes != c.required || now.ExcludedNodes != c.excluded {
			t.Fatalf("%d: %v %s %s: requires %q, excludes %q", i, err, a.State, a.Problem, now.RequiredNodes, now.ExcludedNodes)
		}
		record, err := j.Origin(t.Context(), w.id)
		if err != nil {
			t.Fatal(err)
		}
		r, err := jobrequest.Decode(record)
		if err != nil {
			t.Fatal(err)
		}
		by := jobrequest.Editor{Who: "bob", Restarts: w.currentJob().Restarts}
		if r.Asked.Required != "" || r.Asked.Excluded != "n9" || r.Ours.Required != c.required || r.Ours.Excluded != c.excluded || r.By != by {
			t.Errorf("%d: the journal has %+v, want the user's \"\" and n9, ours %q and %q, by %+v", i, r, c.required, c.excluded, by)
		}
	}
	// A node that a user's own edit requires is the job's wish.
	w.full = true
	if _, err := r.Run(t.Context(), w.beginAction(t, j, "preempt", Args{Hold: true})); err != nil {
		t.Fatal(err)
	}
	w.srv.EditJob(w.id, func(j *slurmrest.Job) { j.RequiredNodes = "n8" })
	if a, err := r.Run(t.Context(), w.beginAction(t, j, "resume", Args{})); err != nil || a.State != journal.Done || w.currentJob().RequiredNodes != "n8" {
		t.Errorf("%v; %s, problem %q; the job requires %q, want n8", err, a.State, a.Problem, w.currentJob().RequiredNodes)
	}
}

// TestSizeInPlaceIsNoted: the journal has the person that chose the size of a job that is lent GPUs, beside the
// user's request, and drops this entry once the job is given a size in another way.
func TestSizeInPlaceIsNoted(t *testing.T) {
	w := newWorld(t, false)
	if err := os.WriteFile(filepath.Join(w.dir, "lends"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := w.openJournal(t)
	r := w.newRunner(t, j, nil)
	first := w.currentJob()
	asked := jobrequest.Of(&first)
	for i, c := range []struct {
		kind string
		args Args
		want jobrequest.Sizer
	}{
		{"resize", Args{GPUs: 4}, jobrequest.Sizer{Editor: jobrequest.Editor{Who: "bob"}, InPlace: 4}},
		{"migrate", Args{Avoid: []string{"n1"}}, jobrequest.Sizer{Editor: jobrequest.Editor{Who: "bob"}, InPlace: 4}},
		{"resize", Args{GPUs: 2}, jobrequest.Sizer{Editor: jobrequest.Editor{Who: "bob", Restarts: 1}, InPlace: 2}},
		{"resize", Args{NodeCount: 1}, jobrequest.Sizer{Editor: jobrequest.Editor{Who: "bob", Restarts: 2}}},
	} {
		if a, err := r.Run(t.Context(), w.beginAction(t, j, c.kind, c.args)); err != nil || a.State != journal.Done {
			t.Fatalf("action %d: %v; it is %s, problem %q, want done", i, err, a.State, a.Problem)
		}
		raw, err := j.Origin(t.Context(), w.id)
		if err != nil {
			t.Fatal(err)
		}
		record, err := jobrequest.Decode(raw)
		if err != nil || record.Asked != asked || record.SizedBy != c.want {
			t.Errorf("%d: %v: the journal has %+v, want the request %+v, sized by %+v", i, err, record, asked, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		args Args
		job  func(*slurmrest.Job)
		wait bool
		said string
	}{
		"preempt what waits":  {"preempt", Args{}, nil, true, "it is PENDING, and cannot be preempted"},
		"resume what runs":    {"resume", Args{}, nil, false, "it is RUNNING, and cannot be resumed"},
		"no batch script":     {"preempt", Args{}, func(j *slurmrest.Job) { j.Batch = false }, false, "no batch script"},
		"no requeue":          {"preempt", Args{}, func(j *slurmrest.Job) { j.Requeueable = false }, false, "--no-requeue"},
		"heterogeneous":       {"preempt", Args{}, func(j *slurmrest.Job) { j.Het.JobID = 1 }, false, "heterogeneous"},
		"too many nodes":      {"resize", Args{NodeCount: 5}, nil, false, "it has 4 tasks, which cannot be on 5 nodes"},
		"to too many nodes":   {"migrate", Args{Nodes: strings.Fields("a b c d e")}, nil, false, "it has 4 tasks, which cannot be on 5 nodes"},
		"GPUs for each task":  {"resize", Args{GPUs: 1}, func(j *slurmrest.Job) { j.TRESPerTask = "gres/gpu:1" }, false, "GPUs per task"},
		"resize without size": {"resize", Args{GPUs: 1}, func(j *slurmrest.Job) { j.Tasks = slurmrest.Number{} }, false, "how many tasks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.wait)
			w.full = true
			if c.job != nil {
				w.srv.EditJob(w.id, c.job)
			}
			before := w.currentJob()
			j := w.openJournal(t)
			a, err := w.newRunner(t, j, nil).Run(t.Context(), w.beginAction(t, j, c.kind, c.args))
			if err != nil || a.State != journal.Undone || !strings.Contains(a.Problem, c.said) {
				t.Errorf("Run: %v; the action is %s, problem %q, want undone", err, a.State, a.Problem)
			}
			now := w.currentJob()
			if jobrequest.Of(&now) != jobrequest.Of(&before) || now.State != before.State || now.Held || now.Restarts != 0 || w.countCheckpoints(t) != 0 {
				t.Errorf("the action changed the job: %+v", now)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	for said, c := range map[string]struct {
		kind string
		args Args
	}{
		`there is no action "kill": hold, migrate`: {"kill", Args{}},
		"preempt takes no nodes":                   {"preempt", Args{Nodes: []string{"n1"}}},
		"name nodes to run on":                     {"migrate", Args{}},
		"both to be used and to be avoided":        {"migrate", Args{Nodes: []string{"n1"}, Avoid: []string{"n1"}}},
		`"n[1-2]" is not a name`:                   {"migrate", Args{Nodes: []string{"n[1-2]"}}},
		"name the QOS":                             {"requeue", Args{}},
		"say how many nodes":                       {"resize", Args{}},
		"disagree":                                 {"resize", Args{NodeCount: 2, Nodes: []string{"n1"}}},
		"cannot be negative":                       {"resize", Args{GPUs: -1}},
		"name the nodes":                           {"place", Args{}},
	} {
		if raw, err := Encode(c.kind, c.args); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("Encode of arguments that are refused with %q = %s, %v", said, raw, err)
		}
	}
}

// A checkpoint that proxyd refuses, and would refuse again, ends the action, and the job runs on.
func TestNoCheckpoint(t *testing.T) {
	for _, refusal := range []error{rpc.ErrNotProtected, rpc.ErrObstacle, rpc.ErrSpace, rpc.ErrDenied} {
		t.Run(refusal.Error(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			j := w.openJournal(t)
			a, err := w.newRunner(t, j, func(point string) error {
				if point == "before checkpoint" {
					return rpc.Errorf(refusal, "no: %s", refusal)
				}
				return nil
			}).Run(t.Context(), w.beginAction(t, j, "preempt", Args{}))
			now := w.currentJob()
			if err != nil || a.State != journal.Undone || now.State.Base != slurmrest.Running || now.Restarts != 0 || now.Held {
				t.Errorf("after the refused checkpoint: %v, the action is %s, the job is %+v", err, a.State, now)
			}
			if want := userComment + "; preemptd: not preempted: no: " + refusal.Error(); !strings.HasPrefix(now.Comment, want) {
				t.Errorf("comment after the refused checkpoint = %q", now.Comment)
			}
			if dated := "; asked at " + a.Created.Local().Format(time.DateTime) + " by "; !strings.Contains(now.Comment, dated) {
				t.Errorf("comment %q does not say when that was", now.Comment)
			}
		})
	}
}

// TestRunsOnWhenUndone: a job that was captured for an action which is undone is told to run on; else the job
// would stand still for a while.
func TestRunsOnWhenUndone(t *testing.T) {
	w := newWorld(t, false)
	j := w.openJournal(t)
	a, err := w.newRunner(t, j, func(point string) error {
		if point == "before requeue" {
			return fmt.Errorf("requeue: %w", slurmrest.ErrAccessDenied)
		}
		return nil
	}).Run(t.Context(), w.beginAction(t, j, "preempt", Args{}))
	if err != nil || a.State != journal.Undone {
		t.Fatalf("after the refused requeue: %v, the action is %s, problem %q, want undone", err, a.State, a.Problem)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "ran on")); err != nil {
		t.Error("the job was not told to run on:", err)
	}
}

// TestWaitsUntilRestored: an action that a person has asked for ends when the job is restored, or is held instead; a
// policy's ends when the job has started.
func TestWaitsUntilRestored(t *testing.T) {
	for name, c := range map[string]struct {
		who   string
		held  bool // instead of restored
		left  string
		state journal.State
		text  string
	}{
		"by a person": {"bob", false, "", journal.Done, "restored from checkpoint 1"},
		"by a policy": {"policy tiers", false, "...", journal.Done, ""},
		"held":        {"bob", true, "..", journal.Dropped, "it was started, and is held instead of restored: its comment, and singctl show, say why"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			looks := filepath.Join(w.dir, "looks")
			if err := os.WriteFile(looks, []byte("..."), 0o600); err != nil {
				t.Fatal(err)
			}
			j := w.openJournal(t)
			a := w.beginAction(t, j, "migrate", Args{Nodes: []string{"n3", "n4"}})
			a.Who = c.who
			r := w.newRunner(t, j, nil)
			if c.held {
				sleep := r.Sleep
				r.Sleep = func(ctx context.Context, d time.Duration) error {
					if left, _ := os.ReadFile(looks); len(left) < 3 {
						w.srv.EditJob(w.id, func(j *slurmrest.Job) { j.State.Base, j.Held, j.Restarts = slurmrest.Pending, true, 2 })
					}
					return sleep(ctx, d)
				}
			}
			a, err := r.Run(t.Context(), a)
			left, readErr := os.ReadFile(looks)
			if err := errors.Join(err, readErr); err != nil || a.State != c.state || string(left) != c.left {
				t.Fatalf("%v %s %s, looks left %q", err, a.State, a.Problem, left)
			}
			lines, err := j.Lines(t.Context(), a.ID)
			if last := lines[len(lines)-1]; err != nil || last.Text != c.text {
				t.Errorf("last line: %v, %+v, want %s", err, last, c.text)
			}
		})
	}
}

// TestFindRestored: a restore counts if the restore is of the run.
func TestFindRestored(t *testing.T) {
	started := func(run, checkpoint uint32) *rpc.Event {
		return &rpc.Event{Event: "started", Run: run, Checkpoint: checkpoint}
	}
	back := &rpc.Event{Event: "restored", Text: "from checkpoint 1", Checkpoint: 1}
	for name, c := range map[string]struct {
		events []*rpc.Event
		want   finding
	}{
		"not yet known":  {nil, finding{wait, "its nodes are not done with it"}},
		"the run before": {[]*rpc.Event{started(1, 1), back}, finding{wait, "its nodes are not done with it"}},
		"under way":      {[]*rpc.Event{started(1, 0), started(2, 1)}, finding{wait, "its nodes are not done with it"}},
		"restored":       {[]*rpc.Event{started(1, 0), started(2, 1), back}, finding{done, "restored from checkpoint 1"}},
		"begun anew":     {[]*rpc.Event{started(1, 0), started(2, 0)}, finding{done, "it began anew"}},
		"run 20":         {[]*rpc.Event{started(20, 1), back}, finding{wait, "its nodes are not done with it"}},
	} {
		if got := findRestored(c.events, 2); got != c.want {
			t.Errorf("findRestored of %s = %+v, want %+v", name, got, c.want)
		}
	}
}

// An action that a newer preemptd or a person wrote is not guessed at: it gets stuck.
func TestNotUnderstood(t *testing.T) {
	w := newWorld(t, false)
	j := w.openJournal(t)
	for _, r := range []journal.Request{
		{Kind: "teleport", Job: w.id, Who: "bob"},
		{Kind: "preempt", Job: w.id, Who: "bob", Args: []byte("[]")},
	} {
		a, err := j.Begin(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if a, err = w.newRunner(t, j, nil).Run(t.Context(), a); err != nil || a.State != journal.Stuck {
			t.Errorf("action that is not understood: %v, %+v, want stuck", err, a)
		}
	}
	a := w.beginAction(t, j, "preempt", Args{})
	a.Step = "dance"
	if err := j.Save(t.Context(), &a, ""); err != nil {
		t.Fatal(err)
	}
	if a, err := w.newRunner(t, j, nil).Run(t.Context(), a); err != nil || a.State != journal.Stuck || !strings.Contains(a.Problem, `no step "dance"`) {
		t.Errorf("action with an unknown step: %v, %+v, want stuck", err, a)
	}
}

// TestOldStepNames shows that actions go on which an older release has begun: its journal has
// other names for some steps.
func TestOldStepNames(t *testing.T) {
	for old, c := range map[string]struct {
		kind  string
		state journal.State
	}{
		"survey": {"preempt", journal.Going}, "tell": {"preempt", journal.Going}, "vacate": {"preempt", journal.Going},
		"told": {"preempt", journal.Going}, "untold": {"preempt", journal.Undoing}, "keep": {"hold", journal.Going},
	} {
		w, err := (&Runner{}).loadAction(journal.Action{Request: journal.Request{Kind: c.kind, Args: []byte("{}")}, State: c.state, Step: old, Memo: []byte("{}")})
		if err != nil {
			t.Errorf("loadAction at step %s: %v", old, err)
			continue
		}
		if w.a.Step == old || stepIndex(w.currentSteps(), w.a.Step) < 0 {
			t.Errorf("step %s is loaded as %q", old, w.a.Step)
		}
	}
}

// Without the journal no step is taken.
func TestJournalFails(t *testing.T) {
	w := newWorld(t, false)
	j := w.openJournal(t)
	full := errors.New("the disk is full")
	at := func(point string) error {
		if point == "before save going park" {
			return full
		}
		return nil
	}
	a := w.beginAction(t, j, "preempt", Args{})
	if _, err := w.newRunner(t, j, at).Run(t.Context(), a); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if now := w.currentJob(); now.Restarts != 0 || now.State.Base != slurmrest.Running {
		t.Errorf("the job was requeued, though the journal could not be written: %+v", now.State)
	}
	again, err := j.Action(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if again, err = w.newRunner(t, j, nil).Run(t.Context(), again); err != nil || again.State != journal.Done || w.currentJob().Restarts != 1 || w.countCheckpoints(t) != 1 {
		t.Errorf("after the journal could be written again: %v, %+v, want done after one requeue", err, again)
	}
}

// TestOwnCheckpoint: an action knows its checkpoint by the number that people know, and not a checkpoint that an
// action with that number in an earlier journal has made.
func TestOwnCheckpoint(t *testing.T) {
	now := time.Now()
	w := &actionRun{a: journal.Action{ID: 7, Token: "9844e888d13d", Created: now, Request: journal.Request{Kind: "preempt", Who: "bob", Why: "room"}}}
	if said := w.checkpointReason(); said != "preempt by bob: room (action 7)" {
		t.Errorf("reason of the checkpoint = %q", said)
	}
	unexplained := &actionRun{a: w.a}
	unexplained.a.Why = journal.NoReason
	if said := unexplained.checkpointReason(); said != "preempt by bob (action 7)" {
		t.Errorf("reason of the checkpoint, without a Why = %q", said)
	}
	for name, c := range map[string]struct {
		reason string
		at     time.Time
		own    bool
	}{
		"own":                  {w.checkpointReason(), now.Add(time.Second), true},
		"clocks differ":        {w.checkpointReason(), now.Add(-time.Second), true},
		"of a journal before":  {w.checkpointReason(), now.Add(-time.Minute), false},
		"of action 17":         {"preempt by bob: room (action 17)", now.Add(time.Second), false},
		"of an older release":  {"preempt by bob: room (action 9844e888d13d)", now.Add(time.Second), true},
		"of one older than it": {"action 9844e888d13d: preempt by bob", now.Add(time.Second), true},
	} {
		if w.isOwnCheckpoint(&rpc.Checkpoint{Reason: c.reason, Created: timestamppb.New(c.at)}) != c.own {
			t.Errorf("%s: own is not %v", name, c.own)
		}
	}
}

// TestStepWords: people read words for a step, and never a step's name in the journal.
func TestStepWords(t *testing.T) {
	all := slices.Clone(undoSteps)
	for _, k := range kinds {
		all = append(all, k.steps(Args{})...)
		all = append(all, k.steps(Args{Hold: true})...)
	}
	for _, s := range all {
		if words := StepWords(s.name); words != s.words || words == s.name || words == "" {
			t.Errorf("StepWords(%q) = %q", s.name, words)
		}
	}
	if words := StepWords("of a later release"); words != "of a later release" {
		t.Errorf("a step that is not known: %q", words)
	}
}

// TestTargetText: behind an action's kind people read the nodes and the size that the job gets.
func TestTargetText(t *testing.T) {
	for encoded, want := range map[string]string{
		`{"nodeCount":1}`:                    "to 1 node",
		`{"nodeCount":2,"gpus":1}`:           "to 2 nodes, 1 GPU on each node",
		`{"gpus":4}`:                         "to 4 GPUs on each node",
		`{"nodes":["n3","n4"],"gpus":4}`:     "to n3,n4, 4 GPUs on each node",
		`{"avoid":["n1"]}`:                   "away from n1",
		`{"avoid":["n1"],"qos":"basic"}`:     "away from n1 with QOS basic",
		`{"qos":"basic"}`:                    "with QOS basic",
		`{"hold":true,"for":7}`:              "",
		`{}`:                                 "",
		`{"nodes":"another release's form"}`: "",
	} {
		if got := TargetText(json.RawMessage(encoded)); got != want {
			t.Errorf("TargetText(%s) = %q, want %q", encoded, got, want)
		}
	}
}
