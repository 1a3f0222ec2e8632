// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

func TestContract(t *testing.T) { sdktest.Run(t, sdktest.BuildPolicy(t, "defrag")) }

// waitingJob returns a basic job that waits.
func waitingJob(id sdk.JobID, gpus int) sdk.Job { return sdktest.WaitingJob(id, sdk.Basic, gpus) }

// runningJob returns a basic job that runs on some GPUs of a node.
func runningJob(id sdk.JobID, node int32, first, gpus int) sdk.Job {
	return sdktest.RunOn(waitingJob(id, gpus), first, gpus, node)
}

func TestDecisions(t *testing.T) {
	with := func(s *sdk.Snapshot, change func(*sdk.Snapshot)) *sdk.Snapshot { change(s); return s }
	scattered := func() *sdk.Snapshot {
		return sdktest.SmallCluster(2, waitingJob(1, 8), runningJob(2, 0, 0, 2), runningJob(3, 1, 0, 3))
	}
	for _, c := range []struct {
		name string
		s    *sdk.Snapshot
		want []string
	}{
		{"small jobs move together", scattered(), []string{"migrate job 2 on b (2 GPUs)", "place job 1 on a (8 GPUs)"}},
		{"the cheapest node is cleared", with(scattered(), func(s *sdk.Snapshot) { s.Jobs[1].Checkpoint.Dump = time.Minute }),
			[]string{"migrate job 3 on a (3 GPUs)", "place job 1 on b (8 GPUs)"}},
		{"nobody moves where there is room", with(scattered(), func(s *sdk.Snapshot) { s.Jobs[0].GPUs = 5 }), nil},
		{"nor for one that has just come", with(scattered(), func(s *sdk.Snapshot) { s.Jobs[0].Eligible = sdktest.Now }), nil},
		{"nor when it does not pay", with(scattered(), func(s *sdk.Snapshot) {
			s.Jobs[1].Checkpoint.Dump, s.Jobs[2].Checkpoint.Dump = 3*time.Hour, 3*time.Hour
		}), nil},
		{"nor when there are not GPUs enough", sdktest.SmallCluster(2, waitingJob(1, 8), runningJob(2, 0, 0, 5), runningJob(3, 1, 0, 5)), nil},
		{"nor who cannot be captured", with(scattered(), func(s *sdk.Snapshot) { s.Jobs[1].Preemptable, s.Jobs[2].Preemptable = false, false }), nil},
		{"nor who was moved a moment ago", with(scattered(), func(s *sdk.Snapshot) { s.Jobs[1].Acted, s.Jobs[2].Acted = sdktest.Now, sdktest.Now }), nil},
		{"no node is filled that was just cleared", with(sdktest.SmallCluster(3, waitingJob(1, 16), runningJob(2, 0, 0, 2), runningJob(3, 1, 0, 2), runningJob(4, 2, 0, 4)), func(s *sdk.Snapshot) { s.Jobs[0].Capsules, s.Jobs[0].CPUs = 2, 8 }),
			[]string{"migrate job 2 on c (2 GPUs)", "migrate job 3 on c (2 GPUs)", "place job 1 on a (8 GPUs), b (8 GPUs)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			intents := sdktest.CheckDecision(t, New(), c.s, c.want)
			if p := plan.Try(c.s, intents); len(p.Rejected) > 0 {
				t.Errorf("plan rejected %v, want no rejected intent", p.Rejected)
			}
		})
	}
}

// On every random cluster plan accepts all intents of the policy, and the job that waited runs.
func TestPlanAcceptsEverything(t *testing.T) {
	placed := 0
	for seed := range uint64(6000) {
		s := sdktest.Random(rand.New(rand.NewPCG(seed, 17)))
		intents := decideOn(s, New().Settings)
		p := plan.Try(s, intents)
		for _, rejected := range p.Rejected {
			if rejected.Invariant != plan.Limit {
				t.Fatalf("seed %d: plan rejected an intent: %v", seed, rejected.Error())
			}
		}
		if len(p.Steps) > 0 {
			placed++
		}
	}
	if placed < 20 {
		t.Errorf("room was made %d times, too few for this test", placed)
	}
}
