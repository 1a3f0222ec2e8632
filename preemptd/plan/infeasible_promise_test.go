// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// TestWhyInfeasible: the text about the promise to job 9 on nodes a and b, which have 8 GPUs and 64 CPUs each. Basic
// jobs hold all GPUs, and do not matter.
func TestWhyInfeasible(t *testing.T) {
	spread := func(j *sdk.Job, gpus, nodes int) {
		j.Request, j.GPUs, j.MinGPUs, j.MaxGPUs, j.Capsules, j.CPUs = gpus, gpus, gpus, gpus, nodes, 1
	}
	ofKinds := func(s *sdk.Snapshot) {
		for i := range s.Nodes {
			for g := range s.Nodes[i].GPUs {
				if s.Nodes[i].GPUs[g].Kind = "a100"; g >= 6 {
					s.Nodes[i].GPUs[g].Kind = "h100"
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(s *sdk.Snapshot, j *sdk.Job)
		want   string
	}{
		{"feasible", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 4, 1) }, ""},
		{"exactly feasible on one node", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 8, 1) }, ""},
		{"exactly feasible on all nodes", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 16, 2) }, ""},
		{"exactly feasible where two of its capsules share a node", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 16, 4) }, ""},
		{"one GPU too many", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 17, 1) },
			"its promise cannot be kept: it asks for 17 GPUs, and the nodes that it may use have 16; not all promises can be kept: premium: 16.2 GPUs are promised, 16 are there"},
		{"one GPU too many for a node", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 9, 1) },
			"its promise cannot be kept: it asks for 9 GPUs on one node, and no node that it may use has more than 8"},
		{"too few large nodes", func(s *sdk.Snapshot, j *sdk.Job) { spread(j, 12, 2); s.Nodes[0].GPUs = s.Nodes[0].GPUs[:4] },
			"its promise cannot be kept: it asks for 6 GPUs on each of 2 nodes, and only 1 node that it may use can give so many"},
		{"a kind, exactly feasible", func(s *sdk.Snapshot, j *sdk.Job) { ofKinds(s); spread(j, 4, 2); j.Kind = "h100" }, ""},
		{"a kind, one GPU too many", func(s *sdk.Snapshot, j *sdk.Job) { ofKinds(s); spread(j, 5, 1); j.Kind = "h100" },
			"its promise cannot be kept: it asks for 5 GPUs of kind h100, and the nodes that it may use have 4"},
		{"a kind, too many for a node", func(s *sdk.Snapshot, j *sdk.Job) { ofKinds(s); spread(j, 4, 1); j.Kind = "h100" },
			"its promise cannot be kept: it asks for 4 GPUs of kind h100 on one node, and no node that it may use has more than 2"},
		{"a kind that is nowhere", func(s *sdk.Snapshot, j *sdk.Job) { ofKinds(s); spread(j, 1, 1); j.Kind = "l40" },
			"its promise cannot be kept: it asks for 1 GPU of kind l40, and the nodes that it may use have 0"},
		{"a drained node", func(s *sdk.Snapshot, j *sdk.Job) { spread(j, 16, 2); s.Nodes[1].State = sdk.NodeDraining },
			"its promise cannot be kept: it asks for 16 GPUs, and the nodes that it may use have 8; not all promises can be kept: premium: 15.2 GPUs are promised, 8 are there"},
		{"a drained node, exactly feasible", func(s *sdk.Snapshot, j *sdk.Job) { spread(j, 8, 1); s.Nodes[1].State = sdk.NodeDraining }, ""},
		{"all nodes drained", func(s *sdk.Snapshot, j *sdk.Job) {
			spread(j, 1, 1)
			s.Nodes[0].State, s.Nodes[1].State = sdk.NodeDraining, sdk.NodeDown
		}, "its promise cannot be kept: it asks for 1 GPU, and it may use none of the nodes that are up; not all promises can be kept: premium: 1 GPU is promised, 0 are there"},
		{"a bad GPU", func(s *sdk.Snapshot, j *sdk.Job) {
			spread(j, 8, 1)
			s.Nodes[0].GPUs[7].Health, s.Nodes[1].GPUs[0].Health = sdk.HealthBad, sdk.HealthBad
		},
			"its promise cannot be kept: it asks for 8 GPUs on one node, and no node that it may use has more than 7"},
		{"a partition", func(s *sdk.Snapshot, j *sdk.Job) {
			spread(j, 16, 2)
			j.Partition, s.Nodes[0].Partitions = "gpu", []string{"gpu"}
		},
			"its promise cannot be kept: it asks for 16 GPUs, and the nodes that it may use have 8"},
		{"CPUs", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 8, 1); j.CPUs = 65 },
			"its promise cannot be kept: it asks for 8 GPUs on one node, beside 65 CPUs and 1 MiB of memory, and the nodes that it may use do not have that together"},
		{"may be shrunk, exactly feasible", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 11, 1); j.MinGPUs, j.Promised = 2, 0.7 }, ""}, // 7.7: 8 GPUs
		{"may be shrunk, one GPU too many", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 12, 1); j.MinGPUs, j.Promised = 2, 0.7 }, // 8.4: 9 GPUs
			"its promise cannot be kept: it needs 9 of its 12 GPUs for the promised 70 %, and the nodes that it may use have room for 8 of them at most"},
		{"may not be shrunk so far", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 11, 1); j.MinGPUs, j.Promised = 11, 0.7 },
			"its promise cannot be kept: it asks for 11 GPUs on one node, and no node that it may use has more than 8"},
		{"waits for something else than room", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 17, 1); j.State = sdk.Deferred },
			"its promise cannot be kept: it asks for 17 GPUs, and the nodes that it may use have 16"},
		{"held", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 17, 1); j.State = sdk.Held }, ""},
		{"promised nothing", func(_ *sdk.Snapshot, j *sdk.Job) { spread(j, 17, 1); j.Tier, j.Promised = sdk.Basic, 0 }, ""},
		{"no GPUs", func(s *sdk.Snapshot, j *sdk.Job) { spread(j, 0, 1); s.Nodes = nil; s.Jobs = s.Jobs[2:] }, ""},
		{"all nodes are kept for another job", func(s *sdk.Snapshot, j *sdk.Job) {
			spread(j, 8, 1)
			s.Reservations = []sdk.Reservation{{Name: sdk.RoomPrefix + "7", Start: sdktest.Now, Nodes: []int32{0, 1}}}
		}, ""},
		{"a node is kept for it", func(s *sdk.Snapshot, j *sdk.Job) {
			spread(j, 16, 2)
			j.Reservation = sdk.RoomPrefix + "9"
			s.Reservations = []sdk.Reservation{{Name: j.Reservation, Start: sdktest.Now, Nodes: []int32{0}}}
		}, ""},
		{"a node is reserved for other people", func(s *sdk.Snapshot, j *sdk.Job) {
			spread(j, 16, 2)
			s.Reservations = []sdk.Reservation{{Name: "course", Start: sdktest.Now, End: sdktest.Now.Add(time.Hour), Nodes: []int32{0}, Users: []string{"bob"}}}
		}, "its promise cannot be kept: it asks for 16 GPUs, and the nodes that it may use have 8"},
		{"runs beside too many promises", func(s *sdk.Snapshot, j *sdk.Job) {
			*j = sdktest.RunOn(*j, 0, 8, 0)
			s.Jobs[1].Tier, s.Jobs[1].Promised, s.Jobs[1].Request = sdk.Premium, 0.95, 9
		}, "not all promises can be kept: premium: 16.2 GPUs are promised, 16 are there"},
		{"runs beside as many promises as can be kept", func(s *sdk.Snapshot, j *sdk.Job) {
			*j = sdktest.RunOn(*j, 0, 8, 0)
			s.Jobs[1].Tier, s.Jobs[1].Promised = sdk.Premium, 0.95
		}, ""},
		{"runs on a draining node", func(s *sdk.Snapshot, j *sdk.Job) {
			*j = sdktest.RunOn(*j, 0, 8, 0)
			s.Nodes[0].State = sdk.NodeDraining
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			basic := func(id sdk.JobID, node int32) sdk.Job {
				return sdktest.RunOn(sdktest.WaitingJob(id, sdk.Basic, 8), 0, 8, node)
			}
			s := sdktest.SmallCluster(2, basic(1, 0), basic(2, 1), sdktest.WaitingJob(9, sdk.Premium, 8))
			c.change(s, &s.Jobs[2%len(s.Jobs)])
			j, _ := s.Job(9)
			if got := plan.WhyInfeasible(s, j); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
