// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

var now = sdktest.Now

func TestContract(t *testing.T) { sdktest.Run(t, sdktest.BuildPolicy(t, "drain")) }

// newCluster returns a cluster of which node a is drained since a minute.
func newCluster(nodes int, jobs ...sdk.Job) *sdk.Snapshot {
	s := sdktest.SmallCluster(nodes, jobs...)
	s.Nodes[0].State, s.Nodes[0].Reason, s.Nodes[0].Since = sdk.NodeDraining, "firmware", now.Add(-time.Minute)
	return s
}

// runningJob returns a basic job that runs on some GPUs of a node.
func runningJob(id sdk.JobID, node int32, first, gpus int) sdk.Job {
	return sdktest.RunOn(sdktest.WaitingJob(id, sdk.Basic, gpus), first, gpus, node)
}

func TestDecisions(t *testing.T) {
	with := func(s *sdk.Snapshot, change func(*sdk.Snapshot)) *sdk.Snapshot { change(s); return s }
	closing := func(in time.Duration) func(*sdk.Snapshot) {
		return func(s *sdk.Snapshot) {
			s.Nodes[0].State = sdk.NodeUp
			s.Reservations = []sdk.Reservation{{Name: "upgrade", Maintenance: true, Start: now.Add(in), End: now.Add(in + time.Hour), Nodes: []int32{0}}}
		}
	}
	for _, c := range []struct {
		name string
		s    *sdk.Snapshot
		want []string
	}{
		{"a job moves", newCluster(2, runningJob(1, 0, 0, 4)), []string{"migrate job 1 on b (4 GPUs)"}},
		{"where there is no room it runs on", newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 1, 0, 8)), nil},
		{"until it has waited for long enough", with(newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 1, 0, 8)), func(s *sdk.Snapshot) { s.Nodes[0].Since = now.Add(-time.Hour) }),
			[]string{"preempt job 1"}},
		{"it moves smaller, if it can", with(newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 1, 0, 6)), func(s *sdk.Snapshot) { s.Jobs[0].MinGPUs = 1 }),
			[]string{"resize job 1 to 2 GPUs on b (2 GPUs)"}},
		{"but not so small that its ranks would be swapped", with(newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 1, 0, 6)), func(s *sdk.Snapshot) {
			s.Jobs[0].MinGPUs, s.Jobs[0].Fullest = 1, []float64{0.9, 1.2, 1.2, 0.6}
		}), []string{"resize job 1 to 1 GPU on b (1 GPU)"}},
		{"it stays if its ranks would be swapped", with(newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 1, 0, 6)), func(s *sdk.Snapshot) {
			s.Jobs[0].MinGPUs, s.Jobs[0].Fullest = 1, []float64{2.4, 1.2, 1.2, 0.6}
		}), nil},
		{"not to another node that is going", with(newCluster(2, runningJob(1, 0, 0, 4)), func(s *sdk.Snapshot) { s.Nodes[1].State = sdk.NodeDraining }), nil},
		{"what cannot be captured stays", with(newCluster(2, runningJob(1, 0, 0, 4)), func(s *sdk.Snapshot) { s.Jobs[0].Preemptable = false }), nil},
		{"what is being moved is left alone", with(newCluster(2, runningJob(1, 0, 0, 4)), func(s *sdk.Snapshot) { s.Jobs[0].Action = "migrate" }), nil},
		{"a maintenance that is far away moves nobody", with(newCluster(2, runningJob(1, 0, 0, 4)), closing(3*time.Hour)), nil},
		{"one that comes nearer does", with(newCluster(2, runningJob(1, 0, 0, 4)), closing(time.Hour)), []string{"migrate job 1 on b (4 GPUs)"}},
		{"who has no room stays for now", with(newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 1, 0, 8)), closing(time.Hour)), nil},
		{"and is stopped at the last moment", with(newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 1, 0, 8)), closing(10*time.Minute)), []string{"preempt job 1"}},
		{"a sick GPU is left", with(newCluster(2, runningJob(1, 1, 0, 4), runningJob(2, 1, 4, 2)), func(s *sdk.Snapshot) {
			s.Nodes[0].State, s.Nodes[1].GPUs[0].Health = sdk.NodeUp, sdk.HealthBad
		}), []string{"migrate job 1 on a (4 GPUs)"}},
		{"a gang is stopped as a whole", with(newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 0, 4, 4)), func(s *sdk.Snapshot) {
			s.Nodes[0].Since = now.Add(-time.Hour)
			s.Jobs[0].Gang, s.Jobs[1].Gang = 1, 1
		}), []string{"preempt job 1"}},
		{"a gang with one that cannot be captured stays", with(newCluster(2, runningJob(1, 0, 0, 4), runningJob(2, 0, 4, 4)), func(s *sdk.Snapshot) {
			s.Nodes[0].Since = now.Add(-time.Hour)
			s.Jobs[0].Gang, s.Jobs[1].Gang, s.Jobs[1].Preemptable = 1, 1, false
		}), nil},
		{"what has just started must leave, too", with(newCluster(2, runningJob(1, 0, 0, 4)), func(s *sdk.Snapshot) { s.Jobs[0].Started = now }), []string{"migrate job 1 on b (4 GPUs)"}},
		{"large ones first", newCluster(2, runningJob(1, 0, 0, 2), runningJob(2, 0, 2, 4), runningJob(3, 1, 0, 4)), []string{"migrate job 2 on b (4 GPUs)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			intents := sdktest.CheckDecision(t, New(), c.s, c.want)
			if p := plan.Try(c.s, intents); len(p.Rejected) > 0 {
				t.Errorf("plan rejected %v, want no rejected intent", p.Rejected)
			}
		})
	}
}

// On every random cluster plan accepts all intents of the policy, and places no job on a node that is going.
func TestPlanAcceptsEverything(t *testing.T) {
	moved := 0
	for seed := range uint64(2000) {
		s := sdktest.Random(rand.New(rand.NewPCG(seed, 13)))
		intents := decideOn(s, New().Settings)
		p := plan.Try(s, intents)
		for _, rejected := range p.Rejected {
			if rejected.Invariant != plan.Limit && rejected.Invariant != plan.MinRun && rejected.Invariant != plan.CoolDown && rejected.Invariant != plan.Guarantee {
				t.Fatalf("seed %d: plan rejected an intent: %v", seed, rejected.Error())
			}
		}
		for _, step := range p.Steps {
			moved++
			j, _ := p.Snapshot.Job(step.Intent.Job)
			for _, share := range j.Shares {
				if s.Nodes[share.Node].State != sdk.NodeUp {
					t.Fatalf("seed %d: a node that is going gets a job by %v", seed, step.Intent)
				}
			}
		}
	}
	if moved < 100 {
		t.Errorf("%d jobs were moved, too few for this test", moved)
	}
}

// A rolling upgrade: two of eight full nodes at a time are drained, until they are empty. All
// nodes are done in the end, and no job was ever without its work.
func TestARollingUpgrade(t *testing.T) {
	s := newCluster(10)
	s.Nodes[0].State = sdk.NodeUp
	for n := range int32(8) {
		s.Jobs = append(s.Jobs, runningJob(sdk.JobID(10*n+1), n, 0, 3), runningJob(sdk.JobID(10*n+2), n, 3, 5))
	}
	done := 0
	for first := 0; first < 10; first += 2 {
		s.Nodes[first].State, s.Nodes[first+1].State = sdk.NodeDraining, sdk.NodeDraining
		for range 20 {
			intents := decideOn(s, New().Settings)
			p := plan.Try(s, intents)
			if len(p.Rejected) > 0 {
				t.Fatalf("plan rejected %v, want no rejected intent", p.Rejected)
			}
			s = p.Snapshot
			for i := range s.Jobs { // carried out
				s.Jobs[i].Action = ""
				if !s.Jobs[i].Holds() {
					t.Fatalf("job %d was stopped though there is room", s.Jobs[i].ID)
				}
			}
		}
		for i := range s.Jobs {
			for _, share := range s.Jobs[i].Shares {
				if s.Nodes[share.Node].State != sdk.NodeUp {
					t.Fatalf("job %d is still on node %s", s.Jobs[i].ID, s.Nodes[share.Node].Name)
				}
			}
		}
		s.Nodes[first].State, s.Nodes[first+1].State = sdk.NodeUp, sdk.NodeUp
		done += 2
	}
	if done != 10 {
		t.Errorf("%d of 10 nodes were upgraded", done)
	}
}
