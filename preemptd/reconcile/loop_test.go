// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// proxyd protects all jobs.
type proxyd struct {
	mu   sync.Mutex
	made []*rpc.Checkpoint
	hold chan struct{} // a checkpoint waits for the channel, if there is any
	// asked is called when a checkpoint waits.
	asked func()
}

func (p *proxyd) Show(context.Context, *slurmrest.Job) (*rpc.Job, error) {
	return &rpc.Job{Capsules: []*rpc.Capsule{{Index: 0}}}, nil
}

func (p *proxyd) AllCheckpoints(context.Context, []slurmrest.Node) ([]*rpc.Checkpoint, error) {
	return p.Checkpoints(nil, nil) //nolint:staticcheck // the fake needs neither
}

func (p *proxyd) RunOn(context.Context, *slurmrest.Job) error { return nil }

func (p *proxyd) Lend(context.Context, *slurmrest.Job, int64, string) ([]uint32, error) {
	return nil, &rpc.Error{Kind: rpc.ErrInvalid, Text: "it cannot have that number of GPUs in place"}
}

func (p *proxyd) Checkpoints(context.Context, *slurmrest.Job) ([]*rpc.Checkpoint, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.made), nil
}

func (p *proxyd) Checkpoint(ctx context.Context, j *slurmrest.Job, reason string) (*rpc.Checkpoint, error) {
	if p.hold != nil {
		if p.asked != nil {
			p.asked()
		}
		select {
		case <-p.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &rpc.Checkpoint{Id: fmt.Sprintf("fake/%d/%d", j.ID, len(p.made)+1), Job: j.Label(), Reason: reason, Created: timestamppb.Now()}
	p.made = append(p.made, c)
	return c, nil
}

// says is a policy made of a function.
type says func(*sdk.Snapshot) ([]sdk.Intent, error)

func (s says) Ask(_ context.Context, pb *policypb.Snapshot) ([]sdk.Intent, error) {
	snapshot, err := sdk.Decode(pb)
	if err != nil {
		return nil, err
	}
	return s(snapshot)
}

// site is a cluster of two nodes with 4 GPUs each, on which a basic job holds all, and a
// premium job waits.
type site struct {
	*testing.T
	srv       *slurmresttest.Server
	proxyd    *proxyd
	journal   *journal.Journal
	loop      *Loop
	settings  Settings
	decisions []Decision
	mu        sync.Mutex
	ended     []journal.Action
}

const (
	basic   = 1
	premium = 2
)

func newSite(t *testing.T, policies ...chain.NamedPolicy) *site {
	t.Helper()
	s := &site{T: t, srv: slurmresttest.Start(t, slurmresttest.Options{}), proxyd: &proxyd{}}
	for _, n := range []string{"n1", "n2"} {
		s.srv.AddNode(slurmrest.Node{Name: n, GRES: "gpu:4", CPUs: 8, RealMemory: 4000, Partitions: []string{"main"}})
	}
	s.srv.AddPartition(slurmrest.Partition{Name: "main", State: "UP", Nodes: "n[1-2]"})
	for _, q := range []string{"basic", "premium"} {
		s.srv.AddQOS(slurmrest.QOS{Name: q})
	}
	job := slurmrest.Job{
		User: "alice", Account: "research", Partition: "main", Batch: true, Requeueable: true,
		NodeCount: slurmrest.Num(2), Tasks: slurmrest.Num(2), CPUs: slurmrest.Num(2), TRESPerNode: "gres/gpu:4",
	}
	job.ID, job.QOS = basic, "basic"
	s.srv.AddJob(job)
	s.srv.StartJob(basic, "n1", "n2")
	s.srv.EditJob(basic, func(j *slurmrest.Job) {
		j.TRESAllocated, j.StartTime = "gres/gpu=8", time.Now().Add(-time.Hour)
		j.GRESDetail = []string{"gpu:4(IDX:0-3)", "gpu:4(IDX:0-3)"}
	})
	job.ID, job.QOS = premium, "premium"
	s.srv.AddJob(job)
	s.openJournal()
	s.settings = Settings{
		Interval: time.Hour, MaxActions: 4, Retention: time.Hour, Policies: policies,
		Rules: sdk.Rules{Window: time.Hour, Promised: [sdk.Tiers]float64{sdk.Premium: 0.95}},
	}
	s.loop = s.newLoop()
	return s
}

func (s *site) openJournal() {
	s.Helper()
	var err error
	if s.journal, err = journal.Open(s.Context(), filepath.Join(s.TempDir(), "preemptd.db"), "fake"); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.journal.Close() })
	if err := s.journal.Await(s.Context(), nil); err != nil {
		s.Fatal(err)
	}
}

func (s *site) newLoop() *Loop {
	c := s.srv.Client(s.T)
	return &Loop{
		Observer: &cluster.Watch{Slurm: c, Proxyd: s.proxyd},
		Executor: &action.Runner{Slurm: settling{c, s.srv}, Proxyd: s.proxyd, Journal: s.journal, Poll: time.Millisecond},
		Journal:  s.journal, Commenter: c, Settings: func() Settings { return s.settings },
		Log:        slog.New(slog.NewTextHandler(io.Discard, nil)),
		OnDecision: func(d Decision, _ *sdk.Snapshot) { s.decisions = append(s.decisions, d) },
		OnActionEnd: func(a journal.Action) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ended = append(s.ended, a)
		},
		wake: make(chan struct{}, 1), running: map[int64]bool{},
	}
}

// settling is Slurm with epilogs that end at once.
type settling struct {
	*slurmrest.Client
	srv *slurmresttest.Server
}

func (c settling) Job(ctx context.Context, ref slurmrest.Ref) (slurmrest.Job, error) {
	if j, ok := c.srv.Job(ref.ID); ok && j.State.Base == slurmrest.Pending && j.State.Has(slurmrest.Completing) {
		c.srv.Settle(ref.ID)
		c.srv.EditJob(ref.ID, func(j *slurmrest.Job) { j.SubmitTime = j.SubmitTime.Add(-3 * time.Second) })
	}
	return c.Client.Job(ctx, ref)
}

// runTick does a single round, and waits for the actions begun there.
func (s *site) runTick() Decision {
	s.Helper()
	before := len(s.decisions)
	if err := s.loop.Tick(s.Context(), s.Context()); err != nil {
		s.Fatal(err)
	}
	s.loop.actions.Wait()
	if len(s.decisions) != before+1 {
		s.Fatal("no decision was told")
	}
	return s.decisions[before]
}

func (s *site) readJob(id int64) slurmrest.Job {
	j, _ := s.srv.Job(id)
	return j
}

// forPremium preempts the jobs in the way of a premium job that waits, and places that.
var forPremium = chain.NamedPolicy{Name: "tiers", Policy: says(func(s *sdk.Snapshot) ([]sdk.Intent, error) {
	var all []sdk.Intent
	waits, _ := s.Job(premium)
	if waits.State != sdk.Waiting || waits.Action != "" {
		return nil, nil
	}
	if runs, ok := s.Job(basic); ok && runs.Preemptable && runs.Action == "" {
		all = append(all, sdk.Intent{Verb: sdk.Preempt, Job: basic, For: premium, Reason: "room for job 2", Park: true})
	}
	return append(all, sdk.Intent{Verb: sdk.Place, Job: premium, Reason: "its turn", Where: []sdk.Spot{{Node: "n1", Capsules: 1, GPUs: 4}, {Node: "n2", Capsules: 1, GPUs: 4}}}), nil
})}

// TestPremium: a premium job that waits gets the places of a basic job, which is parked:
// first the basic job leaves, and a tick later the premium job is placed.
func TestPremium(t *testing.T) {
	s := newSite(t, forPremium)
	d := s.runTick()
	if len(d.Accepted) != 2 || d.Accepted[0].Outcome != "begun" || d.Accepted[1].Outcome != "waits for job 1" ||
		d.Accepted[0].Verdict != Begun || d.Accepted[1].Verdict != Waits {
		t.Fatalf("first decision = %+v, want job 1 preempted and job 2 to wait for that", d)
	}
	if len(s.ended) != 1 || s.ended[0].Kind != "preempt" || s.ended[0].State != journal.Done {
		t.Errorf("ended actions = %+v, want a preempt done", s.ended)
	}
	left := s.readJob(basic)
	if !left.Held || left.Restarts != 1 || left.State.Base != slurmrest.Pending || !strings.Contains(left.Comment, "preempted by policy tiers: room for job 2 (action 1); checkpoint fake/1/1") {
		t.Errorf("job 1: %s, comment %q", left.State, left.Comment)
	}
	// Slurm starts a released job at once.
	go func() {
		for t.Context().Err() == nil && s.readJob(premium).State.Base != slurmrest.Running {
			if j := s.readJob(premium); !j.Held && j.RequiredNodes == "n1,n2" {
				s.srv.StartJob(premium, "n1", "n2")
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if d = s.runTick(); len(d.Accepted) != 1 || d.Accepted[0].Outcome != "begun" {
		t.Fatalf("second decision = %+v, want one action begun", d)
	}
	if j := s.readJob(premium); j.State.Base != slurmrest.Running || !strings.Contains(j.Comment, "placed to n1,n2 by policy tiers") {
		t.Errorf("job 2: %s, comment %q", j.State, j.Comment)
	}
	if d = s.runTick(); len(d.Accepted) != 0 {
		t.Errorf("third decision = %+v, want no action", d)
	}
	past, err := s.journal.History(t.Context(), 0, 10)
	if err != nil || len(past) != 2 || past[0].State != journal.Done || past[1].State != journal.Done || past[0].User != "alice" {
		t.Errorf("history: %v, %+v, want two actions done, on jobs of alice", err, past)
	}
}

// A job that we parked is ours to resume, also for the next preemptd.
func TestParked(t *testing.T) {
	s := newSite(t, forPremium)
	s.runTick()
	s.srv.EndJob(premium, slurmrest.Cancelled, slurmrest.ExitCode{})
	s.loop = s.newLoop()
	var seen sdk.Job
	s.settings.Policies = []chain.NamedPolicy{{Name: "back", Policy: says(func(s *sdk.Snapshot) ([]sdk.Intent, error) {
		j, _ := s.Job(basic)
		seen = *j
		return []sdk.Intent{{Verb: sdk.Resume, Job: basic, Reason: "there is room"}}, nil
	})}}
	if d := s.runTick(); len(d.Accepted) != 1 || d.Accepted[0].Outcome != "begun" {
		t.Fatalf("decision = %+v, want the resume begun", d)
	}
	if seen.HeldBy != sdk.HeldByPreemptd || seen.Acted.IsZero() {
		t.Errorf("the parked job in the snapshot = %+v", seen)
	}
	if j := s.readJob(basic); j.Held || !strings.Contains(j.Comment, "resumed by policy back") {
		t.Errorf("held %v, comment %q", j.Held, j.Comment)
	}
}

// A job that a person parked is a person's to resume, however much room there is.
func TestParkedByAPerson(t *testing.T) {
	for who, holder := range map[string]sdk.Holder{"alice": sdk.HeldByUser, "operator": sdk.HeldByOperator} {
		t.Run(who, func(t *testing.T) {
			s := newSite(t)
			raw, err := action.Encode("preempt", action.Args{Hold: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.journal.Begin(t.Context(), journal.Request{Kind: "preempt", Job: basic, Args: raw, Who: who, Why: "back tomorrow"}); err != nil {
				t.Fatal(err)
			}
			s.runTick()
			var seen sdk.Job
			s.settings.Policies = []chain.NamedPolicy{{Name: "back", Policy: says(func(s *sdk.Snapshot) ([]sdk.Intent, error) {
				j, _ := s.Job(basic)
				seen = *j
				return []sdk.Intent{{Verb: sdk.Resume, Job: basic, Reason: "there is room"}}, nil
			})}}
			if d := s.runTick(); len(d.Accepted) != 0 || len(d.Rejected) != 1 || d.Rejected[0].Invariant != plan.Holder {
				t.Errorf("decision = %+v, want the resume rejected", d)
			}
			if seen.State != sdk.Held || seen.HeldBy != holder || !s.readJob(basic).Held {
				t.Errorf("state %d, held by %d, want %d", seen.State, seen.HeldBy, holder)
			}
		})
	}
}

// TestNotAtOnce: an action on a job that was undone is not tried again before the job has cooled down.
func TestNotAtOnce(t *testing.T) {
	s := newSite(t, forPremium)
	s.settings.Rules.CoolDown = time.Hour
	raw, err := action.Encode("preempt", action.Args{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.journal.Begin(t.Context(), journal.Request{Kind: "preempt", Job: basic, Args: raw, Who: "policy tiers", Why: "room"})
	if err != nil {
		t.Fatal(err)
	}
	a.State = journal.Undone
	if err := s.journal.Save(t.Context(), &a, "refused"); err != nil {
		t.Fatal(err)
	}
	if d := s.runTick(); len(d.Accepted) != 0 || len(d.Rejected) == 0 || d.Rejected[0].Invariant != plan.CoolDown {
		t.Errorf("decision after an undone action = %+v, want it rejected", d)
	}
}

// TestRecovery: an action that a predecessor began is done first, and no policy touches the job meanwhile.
func TestRecovery(t *testing.T) {
	s := newSite(t)
	s.proxyd.hold = make(chan struct{})
	raw, err := action.Encode("preempt", action.Args{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.journal.Begin(t.Context(), journal.Request{Kind: "preempt", Job: basic, Args: raw, Who: "bob", Why: "x"}); err != nil {
		t.Fatal(err)
	}
	s.settings.Policies = []chain.NamedPolicy{forPremium}
	if err := s.loop.Tick(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.decisions[0].Accepted {
		if c.Intent.Job == basic {
			t.Errorf("policies decided on the basic job: %+v", c)
		}
	}
	close(s.proxyd.hold)
	s.loop.actions.Wait()
	if j := s.readJob(basic); j.Restarts != 1 || len(s.proxyd.made) != 1 {
		t.Errorf("restarts %d, %d checkpoints", j.Restarts, len(s.proxyd.made))
	}
}

// TestMakingRoom: while a job leaves for a job that waits, the waiting job is being placed, and no further job has to
// leave: also for the next preemptd.
func TestMakingRoom(t *testing.T) {
	s := newSite(t, forPremium)
	s.proxyd.hold = make(chan struct{})
	for range 2 {
		var waits sdk.Job
		s.loop = s.newLoop()
		s.loop.OnDecision = func(_ Decision, seen *sdk.Snapshot) {
			j, _ := seen.Job(premium)
			waits = *j
		}
		ctx, stop := context.WithCancel(t.Context())
		for range 2 {
			if err := s.loop.Tick(ctx, ctx); err != nil {
				t.Fatal(err)
			}
		}
		if waits.State != sdk.Waiting || waits.Action != "place" {
			t.Errorf("the job that waits: state %d, action %q", waits.State, waits.Action)
		}
		stop()
		s.loop.actions.Wait()
	}
}

func TestDryRun(t *testing.T) {
	s := newSite(t, forPremium)
	s.loop.DryRun = true
	if d := s.runTick(); len(d.Accepted) != 2 || d.Accepted[0].Outcome != "dry run" {
		t.Fatalf("decision = %+v, want a dry run of two actions", d)
	}
	for _, r := range s.srv.Requests() {
		if r.Method != "GET" {
			t.Errorf("a dry run sent %s %s", r.Method, r.Path)
		}
	}
}

// A policy that fails is passed over, and reported.
func TestPolicyFails(t *testing.T) {
	bad := chain.NamedPolicy{Name: "bad", Policy: says(func(*sdk.Snapshot) ([]sdk.Intent, error) { return nil, errors.New("policy bad: crash") })}
	wrong := chain.NamedPolicy{Name: "wrong", Policy: says(func(*sdk.Snapshot) ([]sdk.Intent, error) {
		return []sdk.Intent{{Verb: sdk.Preempt, Job: 99, Reason: "x"}}, nil
	})}
	s := newSite(t, bad, wrong, forPremium)
	d := s.runTick()
	if len(d.Problems) != 1 || d.Problems[0] != "policy bad: crash" || len(d.Rejected) != 1 || d.Rejected[0].Policy != "wrong" || len(d.Accepted) != 2 {
		t.Errorf("decision = %+v", d)
	}
}

// Events by other people are recorded, and our own are not.
func TestEvents(t *testing.T) {
	s := newSite(t, forPremium)
	s.runTick()
	s.settings.Policies = nil
	s.runTick() // which sees our own requeue
	if all, err := s.journal.Events(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("events after our own requeue: %v, %+v, want none", err, all)
	}
	s.srv.EditJob(premium, func(j *slurmrest.Job) { j.Restarts, j.PreemptTime = 3, time.Unix(1000, 0) })
	s.runTick()
	s.runTick()
	all, err := s.journal.Events(t.Context(), 0, 10)
	if err != nil || len(all) != 1 || all[0].What != "preempted" || all[0].Job != premium || all[0].Restarts != 3 || all[0].At.Unix() != 1000 {
		t.Errorf("events after a preemption by Slurm: %v, %+v", err, all)
	}
}

// TestEnd: actions in progress may come to an end, for a while; then they are left to the
// next preemptd.
func TestEnd(t *testing.T) {
	for name, long := range map[string]bool{"in time": false, "too long": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, forPremium)
			s.proxyd.hold = make(chan struct{})
			s.loop.Grace = time.Minute
			if long {
				s.loop.Grace = time.Millisecond
			}
			ctx, stop := context.WithCancel(t.Context())
			s.proxyd.asked = func() {
				stop()
				if !long {
					close(s.proxyd.hold)
				}
			}
			if err := s.loop.Run(ctx); err != nil {
				t.Fatal(err)
			}
			open, err := s.journal.Unfinished(t.Context())
			if err != nil || (len(open) == 1) != long {
				t.Errorf("unfinished actions: %v, %+v", err, open)
			}
			if j := s.readJob(basic); long && j.Restarts != 0 {
				t.Errorf("the job was requeued %d times, want 0", j.Restarts)
			}
		})
	}
}

// TestTicked: OnTick is called for each tick, also for a tick that fails.
func TestTicked(t *testing.T) {
	s := newSite(t)
	s.srv.Fail(slurmresttest.Fault{Path: "/nodes", Slurm: 2002})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var failed []bool
	s.loop.OnTick = func(took time.Duration, err error) {
		if failed = append(failed, err != nil); took <= 0 {
			t.Errorf("a tick took %v", took)
		}
		if len(failed) == 2 {
			stop()
		}
		s.loop.Wake()
	}
	if err := s.loop.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(failed, []bool{true, false}) {
		t.Errorf("ticks that failed = %v, want the first alone", failed)
	}
}

// A tick asks for its settings once, in any state of the cluster: policies' files are read for that.
func TestSettings(t *testing.T) {
	s := newSite(t)
	asked := 0
	s.loop.Settings = func() Settings {
		asked++
		return s.settings
	}
	if s.runTick(); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// A preemptd that loses the mandate begins no action any more.
func TestLost(t *testing.T) {
	s := newSite(t, forPremium)
	s.loop.Journal = lost{s.journal}
	if err := s.loop.Run(t.Context()); !errors.Is(err, journal.ErrLost) {
		t.Error(err)
	}
}

type lost struct{ *journal.Journal }

func (lost) Begin(context.Context, journal.Request) (journal.Action, error) {
	return journal.Action{}, journal.ErrLost
}

func TestTranslate(t *testing.T) {
	two := []sdk.Share{{Node: 0, Capsules: 1, GPUs: 15}, {Node: 1, Capsules: 1, GPUs: 15}}
	snapshot := &sdk.Snapshot{Nodes: []sdk.Node{{Name: "a"}, {Name: "b"}}, Jobs: []sdk.Job{{ID: 1, GPUs: 8, Capsules: 2, Shares: two}, {ID: 2, GPUs: 8, Capsules: 2}}}
	on := func(gpus int, nodes ...string) (all []sdk.Spot) {
		for _, n := range nodes {
			all = append(all, sdk.Spot{Node: n, Capsules: 1, GPUs: gpus})
		}
		return all
	}
	for name, c := range map[string]struct {
		intent sdk.Intent
		want   string
	}{
		"preempt":          {sdk.Intent{Verb: sdk.Preempt, Job: 1, Park: true}, `preempt {"hold":true}`},
		"preempt for":      {sdk.Intent{Verb: sdk.Preempt, Job: 1, For: 2}, `preempt {"for":2,"forNodes":["a","b"]}`},
		"resume":           {sdk.Intent{Verb: sdk.Resume, Job: 2}, `resume {}`},
		"resume smaller":   {sdk.Intent{Verb: sdk.Resume, Job: 2, Where: on(2, "b", "a")}, `resume {"nodes":["a","b"],"gpus":2}`},
		"migrate":          {sdk.Intent{Verb: sdk.Migrate, Job: 1, Where: on(4, "a", "b")}, `migrate {"nodes":["a","b"]}`},
		"migrate away":     {sdk.Intent{Verb: sdk.Migrate, Job: 1, Avoid: []string{"a"}}, `migrate {"avoid":["a"]}`},
		"migrate onto one": {sdk.Intent{Verb: sdk.Migrate, Job: 1, Where: on(8, "a")}, `migrate {"nodes":["a"],"gpus":8}`},
		"place":            {sdk.Intent{Verb: sdk.Place, Job: 2, Where: on(4, "a", "b")}, `place {"nodes":["a","b"]}`},
		"resize":           {sdk.Intent{Verb: sdk.Resize, Job: 1, GPUs: 4}, `resize {"nodeCount":2,"gpus":2}`},
		"resize to one":    {sdk.Intent{Verb: sdk.Resize, Job: 1, GPUs: 1}, `resize {"nodeCount":1,"gpus":1}`},
		"resize oddly":     {sdk.Intent{Verb: sdk.Resize, Job: 1, GPUs: 3}, `resize {"nodeCount":1,"gpus":3}`},
		"resize there":     {sdk.Intent{Verb: sdk.Resize, Job: 1, GPUs: 4, Where: on(4, "a")}, `resize {"nodes":["a"]}`},
		"requeue":          {sdk.Intent{Verb: sdk.Requeue, Job: 1, QOS: "basic"}, `requeue {"qos":"basic"}`},
		"hold":             {sdk.Intent{Verb: sdk.Hold, Job: 2}, `hold {}`},
	} {
		r, err := actionRequest(snapshot, c.intent, nil)
		if got := r.Kind + " " + string(r.Args); err != nil || got != c.want {
			t.Errorf("actionRequest of %s: %v: %s, want %s", name, err, got, c.want)
		}
	}
	if _, err := actionRequest(snapshot, sdk.Intent{Verb: sdk.Hold, Job: 9}, nil); err == nil {
		t.Error("actionRequest for a job that is not in the snapshot returned no error")
	}
}
