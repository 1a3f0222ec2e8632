// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// sampleSnapshot is a small cluster in which there is something of everything: a file is tried on
// this snapshot before the file comes into force.
func sampleSnapshot() *sdk.Snapshot {
	now := time.Date(2026, 3, 4, 12, 30, 0, 0, time.UTC)
	gpus := func() []sdk.GPU {
		all := make([]sdk.GPU, 8)
		for i := range all {
			all[i] = sdk.GPU{Kind: "a100", Health: sdk.HealthGood, Watts: 250, Limit: 400}
		}
		return all
	}
	s := &sdk.Snapshot{
		Cluster: "sample", Number: 1, Time: now,
		Rules: sdk.Rules{
			Window: time.Hour, Promised: [sdk.Tiers]float64{sdk.Standard: 0.7, sdk.Premium: 0.95},
			MinRun: time.Minute, CoolDown: 5 * time.Minute,
		},
		Partitions: []sdk.Partition{{Name: "gpu", Up: true}},
		QOS:        []sdk.QOS{{Name: "basic"}, {Name: "premium", Tier: sdk.Premium}, {Name: "standard", Tier: sdk.Standard}},
	}
	for i, state := range []sdk.NodeState{sdk.NodeUp, sdk.NodeUp, sdk.NodeDraining, sdk.NodeDown} {
		s.Nodes = append(s.Nodes, sdk.Node{
			Name: string(rune('a' + i)), State: state, Partitions: []string{"gpu"}, Features: []string{"ib"},
			CPUs: 64, Memory: 512 << 10, Watts: 3000, GPUs: gpus(),
		})
	}
	states := []sdk.JobState{sdk.Running, sdk.Running, sdk.Running, sdk.Suspended, sdk.Leaving, sdk.Waiting, sdk.Waiting, sdk.Waiting, sdk.Held, sdk.Deferred}
	for i, state := range states {
		tier := sdk.Tier(i % sdk.Tiers)
		j := sdk.Job{
			ID: sdk.JobID(100 + i), Label: "100", Name: "train", User: "ann", Account: "lab", Partition: "gpu", QOS: tier.String(),
			Priority: int64(i), State: state, Tier: tier, Promised: s.Rules.Promised[tier], Fraction: 1, Counted: time.Hour,
			Preemptable: true, Tasks: 2, Capsules: 1, CPUs: 8, Memory: 32 << 10, Kind: "a100", Request: 2, GPUs: 2, MinGPUs: 1, MaxGPUs: 2,
			Submitted: now.Add(-3 * time.Hour), Eligible: now.Add(-3 * time.Hour), Limit: 24 * time.Hour,
			Checkpoint: sdk.Checkpoint{At: now.Add(-time.Hour), Bytes: 1 << 30, Dump: 10 * time.Second, Restore: 20 * time.Second, Measured: true},
		}
		switch state {
		case sdk.Held:
			j.HeldBy = sdk.HeldByPreemptd
		case sdk.Running, sdk.Suspended, sdk.Leaving:
			j.Started = now.Add(-2 * time.Hour)
			j.Shares = []sdk.Share{{Node: int32(i % 3), Capsules: 1, GPUs: 3 << (2 * (i / 3)), CPUs: 8, Memory: 32 << 10}}
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}
