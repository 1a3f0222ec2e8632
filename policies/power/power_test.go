// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package power

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

var now = sdktest.Now

func TestContract(t *testing.T) { sdktest.Run(t, sdktest.BuildPolicy(t, "power")) }

// newCluster returns a cluster with nodes a, b, … of 8 GPUs that draw 360 W each under a job, 60 W else, and a cap.
func newCluster(nodes int, watts float64, jobs ...sdk.Job) *sdk.Snapshot {
	s := sdktest.SmallCluster(nodes, jobs...)
	s.Power.Caps = []sdk.Cap{{Name: "grid", Watts: watts}}
	for i := range s.Nodes {
		for g := range s.Nodes[i].GPUs {
			s.Nodes[i].GPUs[g].Watts = 60
		}
	}
	for i := range jobs {
		for _, share := range jobs[i].Shares {
			for g := range s.Nodes[share.Node].GPUs {
				if share.GPUs>>g&1 == 1 {
					s.Nodes[share.Node].GPUs[g].Watts = 360
				}
			}
		}
	}
	for i := range s.Nodes {
		for _, g := range s.Nodes[i].GPUs {
			s.Nodes[i].Watts += float64(g.Watts)
		}
	}
	return s
}

// runOn returns the job, running on as many GPUs of a node as it asked for.
func runOn(j sdk.Job, node int32, first int) sdk.Job { return sdktest.RunOn(j, first, j.GPUs, node) }

func makeElastic(j sdk.Job) sdk.Job { j.MinGPUs = 1; return j }

func makeParked(j sdk.Job) sdk.Job { j.State, j.HeldBy = sdk.Held, sdk.HeldByPreemptd; return j }

// A node with 8 busy GPUs draws 2880 W, an idle node 480 W.
func TestDecisions(t *testing.T) {
	with := func(s *sdk.Snapshot, change func(*sdk.Snapshot)) *sdk.Snapshot { change(s); return s }
	for _, c := range []struct {
		name string
		s    *sdk.Snapshot
		want []string
	}{
		{"below the cap nothing is done", newCluster(1, 2880, runOn(sdktest.WaitingJob(1, sdk.Basic, 8), 0, 0)), nil},
		{"a job is slowed, by no more than needed", newCluster(1, 2200, runOn(makeElastic(sdktest.WaitingJob(1, sdk.Basic, 8)), 0, 0)), []string{"resize job 1 to 5 GPUs on a (5 GPUs)"}},
		{"but not to where its ranks are swapped", newCluster(1, 2200, runOn(func(j sdk.Job) sdk.Job { j.Fullest = []float64{4, 2, 0.9, 0.8, 1.2, 0.8, 0.8, 0.4}; return j }(makeElastic(sdktest.WaitingJob(1, sdk.Basic, 8))), 0, 0)),
			[]string{"resize job 1 to 4 GPUs on a (4 GPUs)"}},
		{"a job that cannot be resized is parked", newCluster(1, 2200, runOn(sdktest.WaitingJob(1, sdk.Basic, 8), 0, 0)), []string{"preempt job 1, parked"}},
		{"slowing comes before parking", newCluster(1, 2200, runOn(sdktest.WaitingJob(1, sdk.Basic, 4), 0, 0), runOn(makeElastic(sdktest.WaitingJob(2, sdk.Basic, 4)), 0, 4)), []string{"resize job 2 to 1 GPU on a (1 GPU)"}},
		{"a job is parked if slowing it does not help", newCluster(1, 500, runOn(makeElastic(sdktest.WaitingJob(1, sdk.Basic, 8)), 0, 0)), []string{"preempt job 1, parked"}},
		{"basic comes before standard", newCluster(2, 4000, runOn(makeElastic(sdktest.WaitingJob(1, sdk.Standard, 8)), 0, 0), runOn(sdktest.WaitingJob(2, sdk.Basic, 8), 1, 0)), []string{"preempt job 2, parked"}},
		{"standard after basic, if that is not enough", newCluster(2, 1000, runOn(sdktest.WaitingJob(1, sdk.Standard, 8), 0, 0), runOn(sdktest.WaitingJob(2, sdk.Basic, 8), 1, 0)), []string{"preempt job 2, parked", "preempt job 1, parked"}},
		{"standard at its promise, and premium, are left alone", with(newCluster(2, 1000, runOn(sdktest.WaitingJob(1, sdk.Standard, 8), 0, 0), runOn(sdktest.WaitingJob(2, sdk.Premium, 8), 1, 0)), func(s *sdk.Snapshot) { s.Jobs[0].Fraction = 0.7 }), nil},
		{"a cap binds its nodes", with(newCluster(2, 2000, runOn(sdktest.WaitingJob(1, sdk.Basic, 8), 0, 0), runOn(sdktest.WaitingJob(2, sdk.Basic, 8), 1, 0)), func(s *sdk.Snapshot) { s.Power.Caps[0].Nodes = []int32{1} }), []string{"preempt job 2, parked"}},
		{"only power saved on the nodes of the cap counts", func() *sdk.Snapshot {
			wide := runOn(makeElastic(sdktest.WaitingJob(1, sdk.Basic, 8)), 0, 0)
			wide.Capsules, wide.GPUs, wide.Request, wide.MaxGPUs = 2, 16, 16, 16
			wide.Shares = append(wide.Shares, sdk.Share{Node: 1, Capsules: 1, GPUs: 0b11111111, CPUs: 8, Memory: 1})
			return with(newCluster(2, 2000, wide), func(s *sdk.Snapshot) { s.Power.Caps[0].Nodes = []int32{1} })
		}(), []string{"resize job 1 to 10 GPUs on a (5 GPUs), b (5 GPUs)"}},
		{"a cap that is over binds nobody", with(newCluster(1, 100, runOn(sdktest.WaitingJob(1, sdk.Basic, 8), 0, 0)), func(s *sdk.Snapshot) { s.Power.Caps[0].End = now }), nil},
		{"one in an hour does not yet", with(newCluster(1, 100, runOn(sdktest.WaitingJob(1, sdk.Basic, 8), 0, 0)), func(s *sdk.Snapshot) { s.Power.Caps[0].Start = now.Add(time.Hour) }), nil},
		{"one in a minute does", with(newCluster(1, 1000, runOn(sdktest.WaitingJob(1, sdk.Basic, 8), 0, 0)), func(s *sdk.Snapshot) { s.Power.Caps[0].Start = now.Add(time.Minute) }), []string{"preempt job 1, parked"}},
		{"a job that is about to start counts", with(newCluster(2, 3000, runOn(makeElastic(sdktest.WaitingJob(1, sdk.Basic, 8)), 0, 0), runOn(sdktest.WaitingJob(2, sdk.Premium, 2), 1, 0)), func(s *sdk.Snapshot) {
			s.Jobs[1].Started, s.Jobs[1].Action = now, "place"
			s.Nodes[1].GPUs[0].Watts, s.Nodes[1].GPUs[1].Watts, s.Nodes[1].Watts = 60, 60, 480
		}), []string{"resize job 1 to 4 GPUs on a (4 GPUs)"}},
		{"a parked job goes on when there is power", newCluster(1, 2880, makeParked(sdktest.WaitingJob(1, sdk.Basic, 4))), []string{"resume job 1"}},
		{"as much as there is", newCluster(1, 2500, makeParked(sdktest.WaitingJob(1, sdk.Basic, 4)), makeParked(sdktest.WaitingJob(2, sdk.Standard, 4))), []string{"resume job 2"}},
		{"with no cap, all", with(newCluster(1, 0, makeParked(sdktest.WaitingJob(1, sdk.Basic, 4)), makeParked(sdktest.WaitingJob(2, sdk.Standard, 4))), func(s *sdk.Snapshot) { s.Power.Caps = nil }), []string{"resume job 2", "resume job 1"}},
		{"not what a person holds", with(newCluster(1, 9999, makeParked(sdktest.WaitingJob(1, sdk.Basic, 4))), func(s *sdk.Snapshot) { s.Jobs[0].HeldBy = sdk.HeldByUser }), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			intents := sdktest.CheckDecision(t, New(), c.s, c.want)
			if p := plan.Try(c.s, intents); len(p.Rejected) > 0 {
				t.Errorf("plan rejected %v, want no rejected intent", p.Rejected)
			}
		})
	}
}

// On every random cluster plan accepts all intents of the policy.
func TestPlanAcceptsEverything(t *testing.T) {
	done := 0
	for seed := range uint64(4000) {
		s := sdktest.Random(rand.New(rand.NewPCG(seed, 23)))
		p := plan.Try(s, decideOn(s, New().Settings))
		for _, rejected := range p.Rejected {
			t.Fatalf("seed %d: plan rejected an intent: %v", seed, rejected.Error())
		}
		done += len(p.Steps)
	}
	if done < 100 {
		t.Errorf("plan has %d steps, too few for this test", done)
	}
}
