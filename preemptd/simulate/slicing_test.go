// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// newSimulated is a job of a trace as a simulation has it.
func newSimulated(j *Job) *job { return &job{Job: j, sharing: sharingOf(j)} }

// TestSlicingTime: the model comes near the counts of make slicing (docs/splicing.md), in percent over the ideal.
func TestSlicingTime(t *testing.T) {
	for _, c := range []struct {
		name          string
		ranks         int
		memory, alike float64
		counted       float64
		within        float64 // times
	}{
		{"mlp, resident", 2, 0, 0, 1.0, 2},
		{"mlp, resident", 4, 0, 0, 1.4, 2},
		{"mlp, resident", 8, 0, 0, 1.6, 2},
		{"mlp --extra, swap", 4, 1, 0, 2152, 1.5},
		{"mlp --extra, swap", 8, 1, 0, 2735, 1.5},
		{"mlp --extra, alias: parameters and Adam's moments", 4, 1, 0.85, 272, 1.5},
	} {
		j := &Job{GPUs: c.ranks, MinGPUs: 1, MaxGPUs: c.ranks, Nodes: 1, Memory: c.memory, Alike: c.alike}
		if got := 100 * (sharingOf(j).Time(1) - 1); got > c.counted*c.within || got < c.counted/c.within {
			t.Errorf("%s, %d ranks: +%.1f %%, counted +%.1f %%", c.name, c.ranks, got, c.counted)
		}
	}
	uneven := &Job{GPUs: 4, MinGPUs: 1, MaxGPUs: 4, Nodes: 1}
	if got := sharingOf(uneven).Time(3); math.Abs(got-1.5) > 0.02 {
		t.Errorf("4 ranks on 3 GPUs take %.3f times 4/3: want the time of 4 ranks on 2 GPUs", got)
	}
	if got := newSimulated(uneven).paceOn(4); got != fullPace {
		t.Errorf("the pace on its own GPUs is %d", got)
	}
}

// TestWorkAndTime: work that was given its time is done, and not done a millisecond earlier.
func TestWorkAndTime(t *testing.T) {
	for gpus := 1; gpus <= 64; gpus++ {
		for _, work := range []int64{1, 999, 12_345_678, 64 * 48 * 3600_000} {
			j := newSimulated(&Job{GPUs: 16, MinGPUs: 1, MaxGPUs: 64, Nodes: 1, Memory: 0.5, Alike: 0.5})
			took := j.timeFor(work, gpus)
			if j.workIn(took, gpus) < work || took > 0 && j.workIn(took-1, gpus) >= work {
				t.Fatalf("%d on %d GPUs: %d ms do %d", work, gpus, took, j.workIn(took, gpus))
			}
		}
	}
}

// TestNoSwapping: a job is not shrunk to a size at which its ranks would have to be swapped, but is if the
// ranks have most of their memory alike.
func TestNoSwapping(t *testing.T) {
	program := buildPolicy(t, "tiers")
	for alike, shrinks := range map[string]bool{"0": false, "0.95": true} {
		jobs, err := ReadCSV(strings.NewReader("id,submit,duration,gpus,min_gpus,memory,alike,qos\n1,0,4000,8,2,0.9," + alike + ",basic\n2,595,600,4,,,,premium\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := newSimulated(&jobs[0]).leastGPUs() < 8; got != shrinks {
			t.Errorf("alike %s: %d GPUs at least", alike, newSimulated(&jobs[0]).leastGPUs())
		}
		res, err := Run(t.Context(), newConfig(1, 8, tiersPolicy(t, program)), jobs)
		if err != nil {
			t.Fatal(err)
		}
		if (res.Resized > 0) != shrinks || res.Tiers[sdk.Premium].Wait.Mean > time.Minute {
			t.Errorf("alike %s: resized %d times, preempted %d times; premium waits %v", alike, res.Resized, res.Preempted, res.Tiers[sdk.Premium].Wait.Mean)
		}
	}
	for _, bad := range []string{"1.5,0", "-1,0", "0.5,2", "NaN,0"} {
		if _, err := ReadCSV(strings.NewReader("id,submit,duration,gpus,memory,alike\n1,0,10,1," + bad + "\n")); err == nil || !strings.Contains(err.Error(), "want parts from 0 to 1") {
			t.Errorf("ReadCSV of memory and alike %s: %v, want an error", bad, err)
		}
	}
}
