// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
)

// TestLosses: causes by hand, in GPU-seconds.
func TestLosses(t *testing.T) {
	tiers := tiersPolicy(t, buildPolicy(t, "tiers"))
	watches := chain.NamedPolicy{Name: "watches", Policy: says(func(*sdk.Snapshot) []sdk.Intent { return nil })}
	parks := chain.NamedPolicy{Name: "parks", Policy: says(func(s *sdk.Snapshot) []sdk.Intent {
		switch at := s.Time.Sub(epoch); {
		case at == idle:
			return []sdk.Intent{{Verb: sdk.Preempt, Job: 1, Park: true, Reason: "test"}}
		case len(s.Jobs) > 0 && s.Jobs[0].State == sdk.Held:
			return []sdk.Intent{{Verb: sdk.Resume, Job: 1, Reason: "test"}}
		}
		return nil
	})}
	for _, c := range []struct {
		name, jobs string
		nodes      int
		policies   []chain.NamedPolicy
		tier       sdk.Tier
		want       map[Cause]float64
	}{
		{"a higher tier", "1,0,100,8,,,premium,\n2,0,50,4,,,standard,\n", 1, nil, sdk.Standard, map[Cause]float64{Higher: 4 * 100}},
		{"on two nodes", "1,0,100,5,,,premium,\n2,0,200,5,,,premium,\n3,0,50,6,,,standard,\n", 2, nil, sdk.Standard, map[Cause]float64{Scattered: 6 * 100}},
		{"the own tier", "1,0,100,8,,,standard,\n2,0,50,4,,,standard,\n", 1, nil, sdk.Standard, map[Cause]float64{Own: 4 * 100}},
		{"min_run, then nothing", "1,0,100,8,,,basic,\n2,1,50,4,,,standard,\n", 1, []chain.NamedPolicy{watches}, sdk.Standard, map[Cause]float64{Protected: 4 * 59, Undecided: 4 * 40}},
		{"rigid, to the end", "1,0,100,8,,,basic,\n2,1,50,4,,,standard,\n", 1, nil, sdk.Standard, map[Cause]float64{Protected: 4 * 99}},
		{"backfill looks later", "1,0,100,6,,,,100\n2,1,50,8,,,,50\n3,2,60,2,,,,60\n", 1, nil, sdk.Basic, map[Cause]float64{Own: 8 * 99, Idle: 2 * 29}},
		{"preempted: the higher job", "1,0,1000,8,,,basic,\n2,595,300,8,,,premium,\n", 1, []chain.NamedPolicy{tiers}, sdk.Premium, map[Cause]float64{Undecided: 8 * 5, Clearing: 8 * 10}},
		{"preempted: the lower job", "1,0,1000,8,,,basic,\n2,595,300,8,,,premium,\n", 1, []chain.NamedPolicy{tiers}, sdk.Basic, map[Cause]float64{Moving: 8 * 30, Higher: 8 * 300}},
		{"parked", "1,0,600,8,,,basic,\n", 1, []chain.NamedPolicy{parks}, sdk.Basic, map[Cause]float64{Moving: 8 * 30, Parked: 8 * 20, Idle: 8 * 30}},
	} {
		config := newConfig(c.nodes, 8, c.policies...)
		config.Losses = true
		jobs := parseTrace(t, c.jobs)
		if strings.HasPrefix(c.name, "rigid") {
			jobs[0].Rigid = true
		}
		res, err := Run(t.Context(), config, jobs)
		if err != nil {
			t.Fatalf("Run of %s: %v", c.name, err)
		}
		sum := sumLosses(res.Losses, c.tier)
		for cause := range Cause(Causes) {
			if got := sum.Lost[cause] * 3600; math.Abs(got-c.want[cause]) > 0.01 {
				t.Errorf("%s: %v: %g GPU-seconds, want %g", c.name, cause, got, c.want[cause])
			}
		}
	}
}

// TestLossesAddUp: for every trace and schedule, the GPU time that a job asked for is its work and its losses.
func TestLossesAddUp(t *testing.T) {
	program := buildPolicy(t, "tiers")
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		jobs := randomTrace(rand.New(rand.NewPCG(seed, 5)), 40)
		for mode := range 2 {
			c := newConfig(2, 8, tiersPolicy(t, program))
			c.Losses = true
			if mode == 1 {
				c.Policies = nil
			}
			res, err := Run(t.Context(), c, jobs)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Losses) != len(jobs) {
				t.Fatalf("%d jobs have losses, of %d", len(res.Losses), len(jobs))
			}
			for _, l := range res.Losses {
				sum := l.Work
				for _, lost := range l.Lost {
					sum += lost
				}
				// A size at which ranks share a GPU is computed in whole milliseconds and ten thousandths.
				if math.Abs(sum-l.Asked) > 0.001*l.Asked+0.001 || l.Late() < -1e-9 {
					t.Errorf("seed %d, mode %d: %+v: work and losses are %g", seed, mode, l, sum)
				}
			}
			var out bytes.Buffer
			if err := Print(&out, []NamedResult{{"tiers", res}}); err != nil || !strings.Contains(out.String(), Higher.String()) {
				t.Errorf("Print: %v, or no losses to higher tiers in\n%s", err, out.String())
			}
		}
	}
}
