// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// TestLeastSpan: spans by hand, on a single node of 4 GPUs.
func TestLeastSpan(t *testing.T) {
	for _, c := range []struct {
		name, jobs string
		want       float64 // GPU-seconds
	}{
		{"a job alone", "1,0,100,4,,,,\n", 400},
		{"one after the other", "1,0,100,4,,,,\n2,0,100,4,,,,\n", 400 + 800},
		{"the shortest first", "1,0,300,4,,,,\n2,0,100,4,,,,\n", 400 + 4*400},
		{"the shorter interrupts", "1,0,300,4,,,,\n2,100,100,4,,,,\n", 400 + 4*(50/3.0+200+150)}, // 2000, in truth
		{"there is room for both", "1,0,100,2,,,,\n2,0,100,2,,,,\n", 200 + 200},
		{"long apart", "1,0,100,4,,,,\n2,1000,100,4,,,,\n", 400 + 400},
	} {
		jobs := parseTrace(t, c.jobs)
		var pointers []*Job
		for i := range jobs {
			pointers = append(pointers, &jobs[i])
		}
		if got := leastSpan(pointers, 4) / 1000; math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: %g GPU-seconds, want %g", c.name, got, c.want)
		}
	}
}

// TestLeastTime: times by hand, beside higher jobs that hold GPUs of 8 from second 10 to 30 and from 40 to 60.
func TestLeastTime(t *testing.T) {
	changes := []allocationChange{
		{10_000, sdk.Premium, 4}, {10_000, sdk.Premium, 2}, {20_000, sdk.Basic, 2}, {30_000, sdk.Premium, -6}, {40_000, sdk.Premium, 8}, {60_000, sdk.Premium, -8},
	}
	free := freeBeside(changes, sdk.Standard, 8)
	for _, c := range []struct {
		name, job string
		most      int     // GPUs, where that is more than the job asks for
		want      float64 // seconds
	}{
		{"before", "1,0,10,8,,,,\n", 0, 10},
		{"beside", "1,5,20,2,,,,\n", 0, 20},
		{"pauses", "1,5,10,4,,,,\n", 0, 30},
		{"pauses twice", "1,5,20,4,,,,\n", 0, 60},
		{"shrinks", "1,10,20,4,,1,,\n", 0, 30},
		{"grows", "1,10,30,2,,,,\n", 6, 23 + 1.0/3},
		{"afterwards", "1,100,10,8,,,,\n", 0, 10},
	} {
		jobs := parseTrace(t, c.job)
		jobs[0].MaxGPUs = max(jobs[0].MaxGPUs, c.most)
		if got := leastTime(&jobs[0], free) / 1000; math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: %g seconds, want %g", c.name, got, c.want)
		}
	}
}

// TestBoundsHold: for every trace and schedule, no tier passes its bound as long as higher tiers have their promise
// or their own bound.
func TestBoundsHold(t *testing.T) {
	program := buildPolicy(t, "tiers")
	compared := 0
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		jobs := randomTrace(rand.New(rand.NewPCG(seed, 3)), 40)
		for mode := range 3 {
			c := newConfig(2, 8, tiersPolicy(t, program))
			if mode == 0 {
				c.Policies = nil
			}
			c.Kill = mode == 1
			res, err := Run(t.Context(), c, jobs)
			if err != nil {
				t.Fatal(err)
			}
			for tier := sdk.Tier(sdk.Tiers); tier > 0; {
				tier--
				of := res.Tiers[tier]
				if of.Jobs > 0 && of.Fraction > of.Beside+1e-9 {
					t.Errorf("seed %d, mode %d: %v has %.3f, above the bounds %.3f and %.3f", seed, mode, tier, of.Fraction, of.Bound, of.Beside)
				}
				compared++
				if of.Fraction < min(of.Promised, of.Bound) {
					break // the bounds of lower tiers do not hold
				}
			}
		}
	}
	if uint64(compared) < 5*seeds/2 {
		t.Errorf("%d fractions compared: this shows little", compared)
	}
}

// TestInfeasible: a promise that no schedule can keep is named with its bound.
func TestInfeasible(t *testing.T) {
	jobs := parseTrace(t, "1,0,1000,8,,,premium,\n2,0,1000,8,,,premium,\n3,0,1000,8,,,premium,\n")
	res, err := Run(t.Context(), newConfig(1, 8), jobs)
	if err != nil {
		t.Fatal(err)
	}
	premium := res.Tiers[sdk.Premium]
	if want := 3.0 / (1 + 2 + 3); !premium.Infeasible() || !premium.BelowPromise() || math.Abs(premium.Bound-want) > 1e-6 || premium.Fraction > premium.Bound+1e-9 {
		t.Errorf("premium: %+v, want a bound of %g that is below its promise", premium, want)
	}
	if basic := res.Tiers[sdk.Basic]; basic.Infeasible() || basic.BelowPromise() {
		t.Errorf("basic has no jobs: %+v", basic)
	}
}
