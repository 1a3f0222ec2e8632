// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"slices"
	"testing"
)

// TestUnkeptPromises: nodes a and b have 8 GPUs each. The promises are compared with these 16 GPUs.
func TestUnkeptPromises(t *testing.T) {
	waiting := func(tier Tier, promised float64, gpus int) Job {
		return Job{Tier: tier, Promised: promised, Request: gpus, GPUs: gpus}
	}
	running := func(j Job, node int32, set GPUSet) Job {
		j.State, j.Shares = Running, []Share{{Node: node, GPUs: set}}
		return j
	}
	in := func(state JobState, j Job) Job {
		j.State = state
		return j
	}
	for name, c := range map[string]struct {
		change func(a, b *Node)
		jobs   []Job
		want   []string
	}{
		"no job":           {},
		"feasible":         {jobs: []Job{waiting(Premium, 0.95, 8), running(waiting(Standard, 0.7, 8), 1, 0xff)}},
		"exactly feasible": {jobs: []Job{waiting(Premium, 1, 8), running(waiting(Premium, 1, 8), 1, 0xff)}},
		"exactly feasible in parts": {jobs: []Job{
			waiting(Standard, 0.1, 10), waiting(Standard, 0.7, 10), waiting(Standard, 0.7, 10), waiting(Standard, 0.1, 10),
		}},
		"one GPU too many": {jobs: []Job{waiting(Premium, 1, 9), running(waiting(Premium, 1, 8), 1, 0xff)},
			want: []string{"premium: 17 GPUs are promised, 16 are there"}},
		"a little too many":                     {jobs: []Job{waiting(Premium, 0.8001, 20)}, want: []string{"premium: 16.1 GPUs are promised, 16 are there"}},
		"a lower tier alone":                    {jobs: []Job{waiting(Standard, 0.7, 24)}, want: []string{"standard: 16.8 GPUs are promised, 16 are there"}},
		"a lower tier with a higher":            {jobs: []Job{waiting(Premium, 0.95, 8), waiting(Standard, 0.7, 16)}, want: []string{"standard and higher: 18.8 GPUs are promised, 16 are there"}},
		"each tier, the highest first":          {jobs: []Job{waiting(Standard, 0.5, 2), waiting(Premium, 1, 17)}, want: []string{"premium: 17 GPUs are promised, 16 are there", "standard and higher: 18 GPUs are promised, 16 are there"}},
		"a lower tier is no matter of a higher": {jobs: []Job{waiting(Basic, 0, 500), waiting(Premium, 1, 16)}},
		"basic jobs are promised nothing":       {jobs: []Job{waiting(Basic, 0, 500), waiting(Premium, 1, 17)}, want: []string{"premium: 17 GPUs are promised, 16 are there"}},
		"jobs that could not run": {jobs: []Job{
			waiting(Premium, 1, 16), in(Held, waiting(Premium, 1, 16)), in(Deferred, waiting(Premium, 1, 16)), in(Leaving, waiting(Premium, 1, 16)),
		}},
		"a drained node": {change: func(a, _ *Node) { a.State = NodeDraining },
			jobs: []Job{waiting(Premium, 1, 9)}, want: []string{"premium: 9 GPUs are promised, 8 are there"}},
		"a drained node, exactly feasible": {change: func(a, _ *Node) { a.State = NodeDraining }, jobs: []Job{waiting(Premium, 1, 8)}},
		"a draining node serves its job": {change: func(a, _ *Node) { a.State = NodeDraining },
			jobs: []Job{waiting(Premium, 1, 8), running(waiting(Premium, 1, 4), 0, 0x0f)}},
		"the rest of a draining node serves no job": {change: func(a, _ *Node) { a.State = NodeDraining },
			jobs: []Job{waiting(Premium, 1, 9), running(waiting(Premium, 1, 4), 0, 0x0f)}, want: []string{"premium: 13 GPUs are promised, 12 are there"}},
		"a basic job on a draining node": {change: func(a, _ *Node) { a.State = NodeDraining },
			jobs: []Job{waiting(Premium, 1, 9), running(waiting(Basic, 0, 4), 0, 0x0f)}, want: []string{"premium: 9 GPUs are promised, 8 are there"}},
		"a node that is down serves no job": {change: func(a, _ *Node) { a.State = NodeDown },
			jobs: []Job{waiting(Premium, 1, 5), running(waiting(Premium, 1, 4), 0, 0x0f)}, want: []string{"premium: 9 GPUs are promised, 8 are there"}},
		"all nodes drained": {change: func(a, b *Node) { a.State, b.State = NodeDraining, NodeDown },
			jobs: []Job{waiting(Premium, 1, 1)}, want: []string{"premium: 1 GPU is promised, 0 are there"}},
		"a single GPU": {change: func(a, b *Node) { a.State, b.GPUs = NodeDraining, b.GPUs[:1] },
			jobs: []Job{waiting(Premium, 1, 2)}, want: []string{"premium: 2 GPUs are promised, 1 is there"}},
		"a bad GPU": {change: func(_, b *Node) { b.GPUs[3].Health = HealthBad },
			jobs: []Job{waiting(Premium, 1, 16)}, want: []string{"premium: 16 GPUs are promised, 15 are there"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Snapshot{Jobs: c.jobs, Nodes: []Node{{Name: "a", GPUs: make([]GPU, 8)}, {Name: "b", GPUs: make([]GPU, 8)}}}
			if c.change != nil {
				c.change(&s.Nodes[0], &s.Nodes[1])
			}
			if got := s.UnkeptPromises(); !slices.Equal(got, c.want) {
				t.Errorf("UnkeptPromises = %q, want %q; the promises are %+v", got, c.want, s.PromisesByTier())
			}
		})
	}
}
