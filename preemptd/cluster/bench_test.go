// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// BenchmarkBuild makes a snapshot of slurmrestd's answers about a full cluster: five jobs for each node of 8 GPUs,
// four of them running.
func BenchmarkBuild(b *testing.B) {
	for _, jobs := range []int{1000, 10000, 50000} {
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			seen := largeCluster(jobs)
			known := BuildParameters{
				Number: 1, Rules: sdk.Rules{Window: time.Hour}, Tier: func(string) sdk.Tier { return sdk.Basic },
				Count:   func(sdk.JobID) (float64, time.Duration) { return 1, time.Hour },
				Account: func(string) float64 { return 1 },
			}
			began := processorTime(b)
			for b.Loop() {
				s := Build(seen, known)
				if held := len(s.Jobs[0].Shares); len(s.Jobs) != jobs || held != 1 {
					b.Fatalf("%d jobs, the first on %d nodes", len(s.Jobs), held)
				}
			}
			b.ReportMetric(float64((processorTime(b)-began).Milliseconds())/float64(b.N), "cpu-ms")
		})
	}
}

// processorTime is the CPU time of this process: on a busy machine this says more than the clock.
func processorTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func largeCluster(jobs int) Observation {
	seen := Observation{Time: at, Cluster: "made", Protected: map[int64]Protection{}}
	for n := range jobs / 5 {
		seen.Nodes = append(seen.Nodes, slurmrest.Node{
			Name: fmt.Sprintf("n%05d", n), State: slurmrest.NodeState{Base: "ALLOCATED"}, GRES: "gpu:a100:8(S:0-1)",
			CPUs: 128, RealMemory: 1 << 20, Partitions: []string{"gpu"}, ActiveFeatures: []string{"ib"},
		})
	}
	for i := range jobs {
		node, slot := i/5, i%5
		j := slurmrest.Job{
			ID: int64(1000 + i), Name: "train", User: fmt.Sprintf("user%03d", i%300), Account: "lab", Partition: "gpu", QOS: "basic", Batch: true, Requeueable: true,
			State: slurmrest.State{Base: slurmrest.Pending}, NodeCount: slurmrest.Num(1), Tasks: slurmrest.Num(2), CPUs: slurmrest.Num(16),
			TRESPerNode: "gres/gpu:a100:2", SubmitTime: at.Add(-2 * time.Hour), EligibleTime: at.Add(-2 * time.Hour), TimeLimit: slurmrest.LimitOf(time.Hour),
		}
		if slot < 4 {
			j.State.Base, j.Nodes, j.StartTime = slurmrest.Running, seen.Nodes[node].Name, at.Add(-time.Hour)
			j.GRESDetail = []string{fmt.Sprintf("gpu:a100:2(IDX:%d-%d)", 2*slot, 2*slot+1)}
			seen.Protected[j.ID] = Protection{Is: true}
		}
		seen.Jobs = append(seen.Jobs, j)
	}
	return seen
}
