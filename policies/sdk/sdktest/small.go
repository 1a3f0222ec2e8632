// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// SmallCluster returns a snapshot for a decision that a test writes out: the jobs, and nodes a, b, … that are idle but
// for the jobs, with 8 GPUs and 64 CPUs each.
func SmallCluster(nodes int, jobs ...sdk.Job) *sdk.Snapshot {
	s := &sdk.Snapshot{Time: Now, Rules: rules, Jobs: jobs}
	for i := range nodes {
		s.Nodes = append(s.Nodes, sdk.Node{Name: string(rune('a' + i)), CPUs: 64, Memory: 1000, GPUs: make([]sdk.GPU, 8)})
	}
	return s
}

// WaitingJob returns a preemptable job that has waited for ten minutes for some GPUs of a node. Its checkpoint and its
// restore take ten seconds each.
func WaitingJob(id sdk.JobID, tier sdk.Tier, gpus int) sdk.Job {
	return sdk.Job{
		ID: id, Label: fmt.Sprint(id), Tier: tier, Promised: rules.Promised[tier], Fraction: 1, Preemptable: true,
		Tasks: gpus, Capsules: 1, CPUs: gpus, Memory: 1, Request: gpus, GPUs: gpus, MinGPUs: gpus, MaxGPUs: gpus,
		Eligible: Now.Add(-10 * time.Minute), Checkpoint: sdk.Checkpoint{Dump: 10 * time.Second, Restore: 10 * time.Second},
	}
}

// RunOn returns the job as a job that has run for an hour on so many GPUs of each of some nodes, from the GPU with the
// number first on.
func RunOn(j sdk.Job, first, gpus int, nodes ...int32) sdk.Job {
	j.State, j.Started, j.Counted = sdk.Running, Now.Add(-time.Hour), time.Hour
	j.Capsules, j.GPUs, j.Shares = len(nodes), gpus*len(nodes), nil
	for _, n := range nodes {
		j.Shares = append(j.Shares, sdk.Share{Node: n, Capsules: 1, GPUs: sdk.GPUSet(1<<gpus-1) << first, CPUs: int32(j.CPUs), Memory: 1})
	}
	return j
}
