// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// smallCluster is two nodes of 4 GPUs, and five jobs:
//
//	10 basic     runs on 4 GPUs of a, elastic from 2
//	20 standard  runs on 2 GPUs of b, and has lost 17 of the 18 minutes that are allowed
//	30 premium   waits for 4 GPUs
//	40 and 41    a gang of basic jobs, one GPU of b each
//	50 basic     parked, wants 2 GPUs
func smallCluster() *sdk.Snapshot {
	gpus := func() []sdk.GPU { return make([]sdk.GPU, 4) }
	job := func(id sdk.JobID, tier sdk.Tier, n int) sdk.Job {
		return sdk.Job{
			ID: id, QOS: tier.String(), Tier: tier, Promised: [...]float64{0, 0.7, 0.95}[tier], Fraction: 1,
			Preemptable: true, Tasks: n, Capsules: 1, CPUs: n, Memory: 1, Request: n, GPUs: n, MinGPUs: n, MaxGPUs: n,
			Checkpoint: sdk.Checkpoint{Dump: 10 * time.Second, Restore: 20 * time.Second},
		}
	}
	run := func(j sdk.Job, node int32, set sdk.GPUSet) sdk.Job {
		j.State, j.Started = sdk.Running, now.Add(-time.Hour)
		j.Counted = time.Hour
		j.Shares = []sdk.Share{{Node: node, Capsules: 1, GPUs: set, CPUs: int32(j.CPUs), Memory: j.Memory}}
		return j
	}
	elastic, worn, parked := run(job(10, sdk.Basic, 4), 0, 0b1111), run(job(20, sdk.Standard, 2), 1, 0b0011), job(50, sdk.Basic, 2)
	elastic.MinGPUs = 2
	worn.Fraction = 1 - 17.0/60
	parked.State, parked.HeldBy = sdk.Held, sdk.HeldByPreemptd
	gang, member := run(job(40, sdk.Basic, 1), 1, 0b0100), run(job(41, sdk.Basic, 1), 1, 0b1000)
	gang.Gang, member.Gang = 40, 40
	return &sdk.Snapshot{
		Time: now,
		Rules: sdk.Rules{
			Window: time.Hour, Promised: [sdk.Tiers]float64{0, 0.7, 0.95},
			MinRun: time.Minute, CoolDown: 5 * time.Minute,
		},
		Nodes: []sdk.Node{{Name: "a", CPUs: 8, Memory: 100, GPUs: gpus()}, {Name: "b", CPUs: 8, Memory: 100, GPUs: gpus()}},
		Jobs:  []sdk.Job{elastic, worn, job(30, sdk.Premium, 4), gang, member, parked},
		QOS:   []sdk.QOS{{Name: "basic"}, {Name: "standard", Tier: sdk.Standard}, {Name: "premium", Tier: sdk.Premium}},
	}
}

// findJob returns the job in the snapshot.
func findJob(s *sdk.Snapshot, id sdk.JobID) *sdk.Job {
	j, _ := s.Job(id)
	return j
}

func spotsOn(node string, gpus int) []sdk.Spot {
	return []sdk.Spot{{Node: node, Capsules: 1, GPUs: gpus}}
}

func TestEachInvariantIsKept(t *testing.T) {
	for _, c := range []struct {
		name      string
		invariant plan.Invariant
		detail    string
		change    func(*sdk.Snapshot)
		intent    sdk.Intent
	}{
		{"no such verb", plan.Sense, "no verb 99", nil, sdk.Intent{Verb: 99, Job: 10}},
		{"places for a release", plan.Sense, "resume does", nil, sdk.Intent{Verb: sdk.Release, Job: 50, Where: spotsOn("b", 2)}},
		{"place without places", plan.Sense, "no places", nil, sdk.Intent{Verb: sdk.Place, Job: 30}},
		{"wanted and avoided", plan.Sense, "both wanted and avoided", func(s *sdk.Snapshot) { findJob(s, 20).Shares = nil; findJob(s, 20).State = sdk.Waiting },
			sdk.Intent{Verb: sdk.Migrate, Job: 10, Where: spotsOn("a", 4), Avoid: []string{"a"}}},
		{"no such job", plan.Known, "no such job", nil, sdk.Intent{Verb: sdk.Preempt, Job: 11}},
		{"in the middle of something", plan.Idle, "migrate is in progress", func(s *sdk.Snapshot) { findJob(s, 10).Action = "migrate" }, sdk.Intent{Verb: sdk.Preempt, Job: 10}},
		{"a component is in the middle of something", plan.Idle, "component 41", func(s *sdk.Snapshot) { findJob(s, 41).Action = "resume" }, sdk.Intent{Verb: sdk.Preempt, Job: 40}},
		{"a component alone", plan.Gang, "component of job 40", nil, sdk.Intent{Verb: sdk.Preempt, Job: 41}},
		{"one place for a gang", plan.Gang, "places of their own", nil, sdk.Intent{Verb: sdk.Migrate, Job: 40, Where: spotsOn("a", 1)}},
		{"preempt what waits", plan.State, "does not run", nil, sdk.Intent{Verb: sdk.Preempt, Job: 30}},
		{"place what runs", plan.State, "does not wait", nil, sdk.Intent{Verb: sdk.Place, Job: 10, Where: spotsOn("b", 4)}},
		{"place what is parked", plan.State, "does not wait", nil, sdk.Intent{Verb: sdk.Place, Job: 50, Where: spotsOn("b", 2)}},
		{"hold what runs", plan.State, "it runs", nil, sdk.Intent{Verb: sdk.Hold, Job: 10}},
		{"release what is not held", plan.State, "not held", nil, sdk.Intent{Verb: sdk.Release, Job: 30}},
		{"release what a user holds", plan.Holder, "a person holds it", func(s *sdk.Snapshot) { findJob(s, 50).HeldBy = sdk.HeldByUser }, sdk.Intent{Verb: sdk.Resume, Job: 50}},
		{"preempt what cannot be captured", plan.Preemptable, "submitted without", func(s *sdk.Snapshot) {
			findJob(s, 10).Preemptable, findJob(s, 10).Obstacle = false, "submitted without"
		}, sdk.Intent{Verb: sdk.Preempt, Job: 10}},
		{"another number of tasks", plan.Tasks, "2 tasks; it has 4", nil, sdk.Intent{Verb: sdk.Resize, Job: 10, GPUs: 2, Tasks: 2}},
		{"smaller than it can be", plan.Size, "1 GPU; it runs on 2 to 4", nil, sdk.Intent{Verb: sdk.Resize, Job: 10, GPUs: 1}},
		{"where its ranks would be swapped", plan.Size, "swapped on 2 GPUs", func(s *sdk.Snapshot) { findJob(s, 10).Fullest = []float64{2, 1.1, 1.1, 0.5} }, sdk.Intent{Verb: sdk.Resize, Job: 10, GPUs: 2}},
		{"resize what is rigid", plan.Size, "it runs on 2 to 2", nil, sdk.Intent{Verb: sdk.Resize, Job: 20, GPUs: 1}},
		{"not all capsules", plan.Whole, "1 capsule and 2 GPUs; it has 2 and 4", func(s *sdk.Snapshot) { findJob(s, 30).Capsules = 2 }, sdk.Intent{Verb: sdk.Place, Job: 30, Where: spotsOn("a", 2)}},
		{"uneven", plan.Whole, "3 GPUs on node a and 1 on b", func(s *sdk.Snapshot) { findJob(s, 30).Capsules = 2 },
			sdk.Intent{Verb: sdk.Place, Job: 30, Where: []sdk.Spot{{Node: "a", Capsules: 1, GPUs: 3}, {Node: "b", Capsules: 1, GPUs: 1}}}},
		{"the size that it has", plan.Change, "4 GPUs already", nil, sdk.Intent{Verb: sdk.Resize, Job: 10, GPUs: 4}},
		{"the place that it has", plan.Change, "there already", nil, sdk.Intent{Verb: sdk.Migrate, Job: 10, Where: spotsOn("a", 4)}},
		{"the QOS that it has", plan.Change, "QOS basic already", nil, sdk.Intent{Verb: sdk.Requeue, Job: 10, QOS: "basic"}},
		{"just started", plan.MinRun, "30s of at least 1m", func(s *sdk.Snapshot) { findJob(s, 10).Started = now.Add(-30 * time.Second) }, sdk.Intent{Verb: sdk.Preempt, Job: 10}},
		{"just moved", plan.CoolDown, "2m0s ago", func(s *sdk.Snapshot) { findJob(s, 10).Acted = now.Add(-2 * time.Minute) }, sdk.Intent{Verb: sdk.Resize, Job: 10, GPUs: 2}},
		{"below what is promised", plan.Guarantee, "promised 70 %", func(s *sdk.Snapshot) { findJob(s, 20).Checkpoint.Dump = time.Minute }, sdk.Intent{Verb: sdk.Preempt, Job: 20, For: 30}},
		{"hold what is owed its time", plan.Guarantee, "promised 95 %", func(s *sdk.Snapshot) { findJob(s, 30).Fraction, findJob(s, 30).Counted = 0, 4*time.Minute }, sdk.Intent{Verb: sdk.Hold, Job: 30}},
		{"no room", plan.Room, "node a has 0 GPUs free, not 4", nil, sdk.Intent{Verb: sdk.Place, Job: 30, Where: spotsOn("a", 4)}},
		{"no such node", plan.Room, `no node "c"`, nil, sdk.Intent{Verb: sdk.Place, Job: 30, Where: spotsOn("c", 4)}},
		{"no room elsewhere", plan.Room, "elsewhere there is no room for its 4 GPUs", nil, sdk.Intent{Verb: sdk.Migrate, Job: 10, Avoid: []string{"a"}}},
		{"grows beyond all nodes while it waits", plan.Room, "no nodes have 5 GPUs for it", func(s *sdk.Snapshot) { findJob(s, 30).MaxGPUs = 8 }, sdk.Intent{Verb: sdk.Resize, Job: 30, GPUs: 5}},
		{"drained", plan.Room, "node a is not up", func(s *sdk.Snapshot) { s.Nodes[0].State = sdk.NodeDraining }, sdk.Intent{Verb: sdk.Place, Job: 30, Where: spotsOn("a", 4)}},
		{"reserved", plan.Room, "kept by reservation upgrade", func(s *sdk.Snapshot) {
			s.Reservations = []sdk.Reservation{{Name: "upgrade", Start: now.Add(time.Hour), Maintenance: true, Nodes: []int32{0}}}
		}, sdk.Intent{Verb: sdk.Place, Job: 30, Where: spotsOn("a", 4)}},
		{"sick GPUs", plan.Room, "node b has 0 GPUs free", func(s *sdk.Snapshot) { s.Nodes[1].GPUs[0].Health = sdk.HealthBad }, sdk.Intent{Verb: sdk.Place, Job: 30, Where: spotsOn("b", 4)}},
		{"no CPUs", plan.Room, "node b has 2 CPUs free, not 4", func(s *sdk.Snapshot) { s.Nodes[1].GPUs = make([]sdk.GPU, 8); s.Nodes[1].CPUs = 6 }, sdk.Intent{Verb: sdk.Place, Job: 30, Where: spotsOn("b", 4)}},
		{"no such QOS", plan.QOS, `no QOS "gold"`, nil, sdk.Intent{Verb: sdk.Requeue, Job: 10, QOS: "gold"}},
		{"more than the account may hold", plan.Limit, "account lab holds 0 of 3", func(s *sdk.Snapshot) {
			findJob(s, 30).Account = "lab"
			s.Accounts = []sdk.Account{{Name: "lab", MaxGPUs: 3}}
		}, sdk.Intent{Verb: sdk.Place, Job: 30, Where: spotsOn("a", 4)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := smallCluster()
			if c.change != nil {
				c.change(s)
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			c.intent.Reason = "to see"
			p := plan.Try(s, []sdk.Intent{c.intent})
			if len(p.Rejected) != 1 || p.Rejected[0].Invariant != c.invariant || !strings.Contains(p.Rejected[0].Detail, c.detail) {
				t.Errorf("rejected %v, want %s: …%s…", p.Rejected, c.invariant, c.detail)
			}
			if p.Snapshot != s {
				t.Error("a rejected intent made another snapshot")
			}
		})
	}
}

func TestNothingIsDoneWithoutReason(t *testing.T) {
	p := plan.Try(smallCluster(), []sdk.Intent{{Verb: sdk.Preempt, Job: 10}})
	if len(p.Rejected) != 1 || p.Rejected[0].Invariant != plan.Sense {
		t.Errorf("rejected %v, want the intent without a reason, by sense", p.Rejected)
	}
}

// A premium job gets its place by shrinking a single job and parking a gang, and waits for
// both.
func TestIntentsBuildOnEachOther(t *testing.T) {
	s := smallCluster()
	findJob(s, 30).GPUs, findJob(s, 30).Capsules, findJob(s, 30).CPUs = 4, 2, 2
	p := plan.Try(s, []sdk.Intent{
		{Verb: sdk.Resize, Job: 10, GPUs: 2, Tasks: 4, For: 30, Reason: "gives 2 GPUs to 30"},
		{Verb: sdk.Preempt, Job: 40, Park: true, For: 30, Reason: "gives 2 GPUs to 30"},
		{Verb: sdk.Preempt, Job: 10, Reason: "twice"},
		{Verb: sdk.Place, Job: 30, Reason: "premium", Where: []sdk.Spot{{Node: "a", Capsules: 1, GPUs: 2}, {Node: "b", Capsules: 1, GPUs: 2}}},
		{Verb: sdk.Resume, Job: 50, Where: spotsOn("b", 2), Reason: "there is no room left"},
	})
	if len(p.Steps) != 3 || len(p.Rejected) != 2 || p.Rejected[0].Invariant != plan.Once || p.Rejected[1].Invariant != plan.Room {
		t.Fatalf("steps %+v\nrejected %v", p.Steps, p.Rejected)
	}
	if want := []sdk.JobID{40, 41}; !slices.Equal(p.Steps[1].Jobs, want) {
		t.Errorf("preempting the gang is a step for %v, want %v", p.Steps[1].Jobs, want)
	}
	if want := []sdk.JobID{10, 40, 41}; !slices.Equal(p.Steps[2].After, want) {
		t.Errorf("30 waits for %v, want %v", p.Steps[2].After, want)
	}
	shrunk, parked, premium := findJob(p.Snapshot, 10), findJob(p.Snapshot, 41), findJob(p.Snapshot, 30)
	if shrunk.GPUs != 2 || shrunk.Tasks != 4 || shrunk.Shares[0].GPUs.Count() != 2 || shrunk.Acted != now || shrunk.Action != "resize" {
		t.Errorf("shrunk job 10 = %+v", shrunk)
	}
	if parked.State != sdk.Held || parked.HeldBy != sdk.HeldByPreemptd || parked.Holds() {
		t.Errorf("parked job 41 = %+v", parked)
	}
	if premium.State != sdk.Running || len(premium.Shares) != 2 {
		t.Errorf("premium job 30 = %+v", premium)
	}
	if !reflect.DeepEqual(findJob(s, 10), findJob(smallCluster(), 10)) {
		t.Error("the snapshot that was given has changed")
	}
}

// A job without time for a dump and a restore can be given another size in place, which leases do, and only there.
func TestResizedInPlace(t *testing.T) {
	s := smallCluster()
	j := findJob(s, 20)
	j.MinGPUs, j.Checkpoint.Dump, j.PauseInPlace, j.Leased = 1, time.Minute, time.Second, 1
	for _, c := range []struct {
		name     string
		where    []sdk.Spot
		accepted bool
	}{
		{"on its node", spotsOn("b", 1), true},
		{"on another node", spotsOn("a", 1), false},
		{"anywhere", nil, false},
	} {
		findJob(s, 10).Shares[0].GPUs = 0b0111 // there is room on a
		p := plan.Try(s, []sdk.Intent{{Verb: sdk.Resize, Job: 20, GPUs: 1, Where: c.where, Reason: "idle GPUs are wanted"}})
		if (len(p.Steps) == 1) != c.accepted {
			t.Errorf("%s: steps %v, rejected %v", c.name, p.Steps, p.Rejected)
		}
	}
	j.Leased = 0
	if p := plan.Try(s, []sdk.Intent{{Verb: sdk.Resize, Job: 20, GPUs: 1, Where: spotsOn("b", 1), Reason: "its own"}}); len(p.Rejected) != 1 || p.Rejected[0].Invariant != plan.Guarantee {
		t.Errorf("a job gives its own GPUs without a dump: %v, rejected %v", p.Steps, p.Rejected)
	}
}

// The promise to a lower tier is broken only for a higher tier that is below its own promise.
func TestAPromiseGivesWayToAHigherBrokenOne(t *testing.T) {
	s := smallCluster()
	findJob(s, 20).Checkpoint.Dump = time.Minute
	findJob(s, 30).Fraction, findJob(s, 30).Counted = 0, 10*time.Minute
	intent := sdk.Intent{Verb: sdk.Preempt, Job: 20, For: 30, Reason: "30 has waited for too long"}
	if p := plan.Try(s, []sdk.Intent{intent}); len(p.Steps) != 1 {
		t.Errorf("plan rejected %v, want the intent accepted", p.Rejected)
	}
	findJob(s, 30).Tier = sdk.Standard
	if p := plan.Try(s, []sdk.Intent{intent}); len(p.Steps) != 0 {
		t.Error("the promise was broken for a job of the same tier")
	}
}

// A node that is going is left without regard to the other rules.
func TestADrainedNodeIsLeft(t *testing.T) {
	s := smallCluster()
	j := findJob(s, 20)
	s.Nodes = append(s.Nodes, sdk.Node{Name: "c", CPUs: 8, Memory: 100, GPUs: make([]sdk.GPU, 4)})
	j.Fraction, j.Started, j.Acted = 0.1, now, now
	intent := []sdk.Intent{{Verb: sdk.Migrate, Job: 20, Avoid: []string{"b"}, Reason: "b is going"}}
	if p := plan.Try(s, intent); len(p.Steps) != 0 {
		t.Error("moved though it just started and is owed its time")
	}
	s.Nodes[1].State = sdk.NodeDraining
	p := plan.Try(s, intent)
	if len(p.Steps) != 1 {
		t.Fatalf("plan rejected %v, want the intent accepted", p.Rejected)
	}
	if moved := findJob(p.Snapshot, 20); moved.Shares[0].Node != 2 || moved.Shares[0].GPUs.Count() != 2 {
		t.Errorf("the job was moved to %+v", moved.Shares)
	}
}

func TestRequeueGivesAnotherTier(t *testing.T) {
	p := plan.Try(smallCluster(), []sdk.Intent{
		{Verb: sdk.Requeue, Job: 10, QOS: "standard", Park: true, Reason: "it was paid for"},
		{Verb: sdk.Requeue, Job: 30, QOS: "basic", Reason: "it was not"},
	})
	if len(p.Steps) != 2 {
		t.Fatalf("plan rejected %v, want both intents accepted", p.Rejected)
	}
	up, down := findJob(p.Snapshot, 10), findJob(p.Snapshot, 30)
	if up.QOS != "standard" || up.Tier != sdk.Standard || up.Promised != 0.7 || up.State != sdk.Held || up.Holds() {
		t.Errorf("job 10 after the requeue to standard = %+v", up)
	}
	if down.QOS != "basic" || down.Tier != sdk.Basic || down.Promised != 0 || down.State != sdk.Waiting {
		t.Errorf("job 30 after the requeue to basic = %+v", down)
	}
}

// GPUs that a step gives back to a limit the next step can have.
func TestALimitIsGivenBack(t *testing.T) {
	s := smallCluster()
	s.Accounts = []sdk.Account{{Name: "lab", MaxGPUs: 4}}
	findJob(s, 10).Account, findJob(s, 30).Account = "lab", "lab"
	p := plan.Try(s, []sdk.Intent{
		{Verb: sdk.Preempt, Job: 10, Reason: "gives way"},
		{Verb: sdk.Place, Job: 30, Reason: "premium", Where: spotsOn("a", 4)},
	})
	if len(p.Steps) != 2 {
		t.Errorf("plan rejected %v, want both intents accepted", p.Rejected)
	}
}
