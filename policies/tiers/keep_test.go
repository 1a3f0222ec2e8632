// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
	"github.com/singularity-slurm/singularity-slurm/preemptd/simulate"
)

// waitedFor has a job that never ran have waited for so long.
func waitedFor(j sdk.Job, wait time.Duration) sdk.Job {
	j.Fraction, j.Counted, j.Eligible = 0, wait, now.Add(-wait)
	return j
}

// besideKept returns a node where a job waits for all GPUs, another for a single GPU, half of the GPUs have a job of
// the same tier, and the rest a basic job.
func besideKept(large, small sdk.Tier, wait time.Duration) *sdk.Snapshot {
	return sdktest.SmallCluster(1,
		waitedFor(waitingJob(1, large, 8, 10), time.Hour), waitedFor(waitingJob(2, small, 1, 10), wait),
		sdktest.RunOn(waitingJob(3, large, 4, 10), 0, 4, 0), sdktest.RunOn(waitingJob(4, sdk.Basic, 4, 1), 4, 4, 0))
}

// endsIn has the job end by its limit, 0 for none, and makes it a job that cannot be moved.
func endsIn(j sdk.Job, limit time.Duration) sdk.Job { j.Limit, j.Preemptable = limit, false; return j }

func TestKeptRoom(t *testing.T) {
	given := []string{"preempt job 4", "place job 2 on a (1 GPU)"}
	for _, c := range []struct {
		name string
		s    *sdk.Snapshot
		want []string
	}{
		{"a small premium job waits for as long as its promise lets it", besideKept(sdk.Premium, sdk.Premium, 2*time.Minute), nil},
		{"and is not kept out any longer", besideKept(sdk.Premium, sdk.Premium, 4*time.Minute), given},
		{"room kept for standard is nothing to premium", besideKept(sdk.Standard, sdk.Premium, time.Second), given},
		{"without limits, the node is kept of which the least is missing", sdktest.SmallCluster(2,
			waitedFor(waitingJob(1, sdk.Premium, 8, 10), time.Hour), waitingJob(2, sdk.Premium, 1, 10),
			endsIn(sdktest.RunOn(waitingJob(3, sdk.Premium, 5, 10), 0, 5, 0), 0), sdktest.RunOn(waitingJob(4, sdk.Basic, 3, 9), 5, 3, 0),
			endsIn(sdktest.RunOn(waitingJob(5, sdk.Premium, 2, 10), 0, 2, 1), 0), sdktest.RunOn(waitingJob(6, sdk.Basic, 6, 1), 2, 6, 1)),
			[]string{"preempt job 4", "place job 2 on a (1 GPU)"}},
		{"a job that needs part of a node does not wait for all of that node", sdktest.SmallCluster(2,
			waitedFor(waitingJob(1, sdk.Premium, 4, 10), time.Hour), endsIn(waitingJob(2, sdk.Premium, 1, 10), 3*time.Hour),
			endsIn(sdktest.RunOn(waitingJob(3, sdk.Premium, 3, 10), 0, 3, 0), 2*time.Hour), endsIn(sdktest.RunOn(waitingJob(4, sdk.Premium, 3, 10), 3, 3, 0), 9*time.Hour),
			sdktest.RunOn(waitingJob(5, sdk.Basic, 2, 1), 6, 2, 0),
			endsIn(sdktest.RunOn(waitingJob(6, sdk.Premium, 6, 10), 0, 6, 1), 6*time.Hour), sdktest.RunOn(waitingJob(7, sdk.Basic, 2, 9), 6, 2, 1)),
			[]string{"preempt job 7", "place job 2 on b (1 GPU)"}},
		{"whole nodes come seldom to standard: its room stays kept", besideKept(sdk.Standard, sdk.Standard, time.Hour), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			intents := sdktest.CheckDecision(t, New(), c.s, c.want)
			if p := plan.Try(c.s, intents); len(p.Rejected) > 0 {
				t.Errorf("plan rejected %v, want no rejected intent", p.Rejected)
			}
		})
	}
}

// TestRoomKeptForLowerTiers: premium jobs get the same places with and without waiting jobs of lower tiers.
func TestRoomKeptForLowerTiers(t *testing.T) {
	placed := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 17))
		s := sdktest.Random(r)
		for i := range s.Jobs {
			j := &s.Jobs[i]
			if j.State != sdk.Waiting {
				continue
			}
			j.Tier, j.Promised = sdk.Standard, 0.7
			if r.IntN(3) == 0 {
				j.Tier, j.Promised = sdk.Premium, 0.95
			}
		}
		alone := *s
		alone.Jobs = slices.DeleteFunc(slices.Clone(s.Jobs), func(j sdk.Job) bool { return j.State == sdk.Waiting && j.Tier < sdk.Premium })
		got, want := placesOfPremium(s), placesOfPremium(&alone)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: premium jobs get %v; without waiting jobs of lower tiers %v", seed, got, want)
		}
		placed += len(got)
	}
	if placed < 100 {
		t.Errorf("%d premium jobs were placed, too few for this test", placed)
	}
}

// placesOfPremium says where the policy places premium jobs.
func placesOfPremium(s *sdk.Snapshot) []string {
	var places []string
	for _, i := range decideOn(s, defaultSettings()) {
		if j, ok := s.Job(i.Job); ok && i.Verb == sdk.Place && j.Tier == sdk.Premium {
			places = append(places, fmt.Sprint(i.Job, i.Where))
		}
	}
	return places
}

// TestSmallJobsBesideLarge: a premium job of 8 GPUs waits for a day for the last of them, and premium jobs of a single
// GPU, which come every hour, do not.
func TestSmallJobsBesideLarge(t *testing.T) {
	makeJob := func(id sdk.JobID, tier sdk.Tier, submit, takes time.Duration, gpus int) simulate.Job {
		return simulate.Job{ID: id, QOS: tier.String(), Submit: submit, Duration: takes, Nodes: 1, GPUs: gpus, MinGPUs: gpus, MaxGPUs: gpus}
	}
	jobs := []simulate.Job{
		makeJob(1, sdk.Premium, 0, 24*time.Hour, 1),
		makeJob(2, sdk.Basic, time.Second, 100*time.Hour, 7),
		makeJob(3, sdk.Premium, time.Minute, time.Hour, 8),
	}
	const small = 20
	for i := range small {
		jobs = append(jobs, makeJob(sdk.JobID(10+i), sdk.Premium, time.Duration(i+1)*time.Hour, 10*time.Minute, 1))
	}
	res := mustPlay(t, simulate.Config{
		Nodes: 1, GPUs: 8, Losses: true, Every: 30 * time.Second, Dump: 10 * time.Second, Restore: 20 * time.Second,
		Rules:    sdk.Rules{Window: time.Hour, Promised: [sdk.Tiers]float64{0, 0.7, 0.95}, MinRun: time.Minute, CoolDown: time.Minute},
		Policies: []chain.NamedPolicy{{Name: "tiers", Policy: inProcess{}}},
	}, jobs)
	checked := 0
	for _, l := range res.Losses {
		if l.Job < 10 {
			continue
		}
		checked++
		// The time for which its promise lets it wait, two calls of the policy and a dump.
		if waited := l.Asked - l.Work; waited > (5 * time.Minute).Hours() {
			t.Errorf("premium job %d of a single GPU waited for %.1f hours", l.Job, waited)
		}
	}
	if checked != small {
		t.Errorf("%d jobs were checked, not %d", checked, small)
	}
}
