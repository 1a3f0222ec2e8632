// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestContract(t *testing.T) { sdktest.Run(t, sdktest.BuildPolicy(t, "defrag")) }

// newCluster returns a cluster with nodes a, b, … of 8 GPUs.
func newCluster(nodes int, jobs ...sdk.Job) *sdk.Snapshot {
	s := &sdk.Snapshot{Time: now, Rules: sdk.Rules{Window: time.Hour, MinRun: time.Minute, CoolDown: time.Minute}, Jobs: jobs}
	for i := range nodes {
		s.Nodes = append(s.Nodes, sdk.Node{Name: string(rune('a' + i)), CPUs: 64, Memory: 1000, GPUs: make([]sdk.GPU, 8)})
	}
	return s
}

// waitingJob returns a job that waits since ten minutes.
func waitingJob(id sdk.JobID, gpus int) sdk.Job {
	return sdk.Job{
		ID: id, Label: fmt.Sprint(id), Fraction: 1, Preemptable: true, Eligible: now.Add(-10 * time.Minute),
		Tasks: gpus, Capsules: 1, CPUs: gpus, Memory: 1, Request: gpus, GPUs: gpus, MinGPUs: gpus, MaxGPUs: gpus,
		Checkpoint: sdk.Checkpoint{Dump: 10 * time.Second, Restore: 10 * time.Second},
	}
}

// runningJob is a job that runs on some GPUs of a node.
func runningJob(id sdk.JobID, node int32, first, gpus int) sdk.Job {
	j := waitingJob(id, gpus)
	j.State, j.Started = sdk.Running, now.Add(-time.Hour)
	j.Shares = []sdk.Share{{Node: node, Capsules: 1, GPUs: sdk.GPUSet(1<<gpus-1) << first, CPUs: int32(gpus), Memory: 1}}
	return j
}

func TestDecisions(t *testing.T) {
	with := func(s *sdk.Snapshot, change func(*sdk.Snapshot)) *sdk.Snapshot { change(s); return s }
	scattered := func() *sdk.Snapshot {
		return newCluster(2, waitingJob(1, 8), runningJob(2, 0, 0, 2), runningJob(3, 1, 0, 3))
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
		{"nor for one that has just come", with(scattered(), func(s *sdk.Snapshot) { s.Jobs[0].Eligible = now }), nil},
		{"nor when it does not pay", with(scattered(), func(s *sdk.Snapshot) {
			s.Jobs[1].Checkpoint.Dump, s.Jobs[2].Checkpoint.Dump = 3*time.Hour, 3*time.Hour
		}), nil},
		{"nor when there are not GPUs enough", newCluster(2, waitingJob(1, 8), runningJob(2, 0, 0, 5), runningJob(3, 1, 0, 5)), nil},
		{"nor who cannot be captured", with(scattered(), func(s *sdk.Snapshot) { s.Jobs[1].Preemptable, s.Jobs[2].Preemptable = false, false }), nil},
		{"nor who was moved a moment ago", with(scattered(), func(s *sdk.Snapshot) { s.Jobs[1].Acted, s.Jobs[2].Acted = now, now }), nil},
		{"no node is filled that was just cleared", with(newCluster(3, waitingJob(1, 16), runningJob(2, 0, 0, 2), runningJob(3, 1, 0, 2), runningJob(4, 2, 0, 4)), func(s *sdk.Snapshot) { s.Jobs[0].Capsules, s.Jobs[0].CPUs = 2, 8 }),
			[]string{"migrate job 2 on c (2 GPUs)", "migrate job 3 on c (2 GPUs)", "place job 1 on a (8 GPUs), b (8 GPUs)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			intents := sdktest.CheckDecision(t, New(), c.s, c.want)
			if p := plan.Try(c.s, intents); len(p.Rejected) > 0 {
				t.Errorf("rejected: %v", p.Rejected)
			}
		})
	}
}

// Whatever the cluster is like, plan accepts what is asked for, and the job that waited runs.
func TestPlanAcceptsEverything(t *testing.T) {
	placed := 0
	for seed := range uint64(6000) {
		s := sdktest.Random(rand.New(rand.NewPCG(seed, 17)))
		intents := decideOn(s, New().Settings)
		p := plan.Try(s, intents)
		for _, rejected := range p.Rejected {
			if rejected.Invariant != plan.Limit {
				t.Fatalf("seed %d: %v", seed, rejected.Error())
			}
		}
		if len(p.Steps) > 0 {
			placed++
		}
	}
	if placed < 20 {
		t.Errorf("room was made %d times: this shows nothing", placed)
	}
}
