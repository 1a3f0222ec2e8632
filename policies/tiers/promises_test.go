// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiers

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/simulate"
)

// inProcess is this policy, asked without a process of its own.
type inProcess struct{}

func (inProcess) Ask(_ context.Context, pb *policypb.Snapshot) ([]sdk.Intent, error) {
	s, err := sdk.Decode(pb)
	if err != nil {
		return nil, err
	}
	return decideOn(s, defaultSettings()), nil
}

// makeTrace makes a trace for a cluster: jobs of all tiers and sizes, of which a part needs whole nodes, with an
// amount of work that is a part of the cluster's capacity. All of them can be preempted: a job that cannot be
// preempted does not help any other job.
func makeTrace(r *rand.Rand, nodes, gpus, n int, load float64) []simulate.Job {
	jobs := make([]simulate.Job, n)
	work := 0.0
	for i := range jobs {
		j := simulate.Job{ID: sdk.JobID(i + 1), Duration: time.Duration(60+r.ExpFloat64()*3600) * time.Second, QOS: sdk.Tier(r.IntN(sdk.Tiers)).String()}
		j.Nodes, j.GPUs = 1, 1<<r.IntN(3)
		switch r.IntN(10) {
		case 0:
			j.GPUs = gpus
		case 1:
			if nodes > 1 {
				j.Nodes, j.GPUs = 2, 2*gpus
			}
		}
		j.GPUs = min(j.GPUs, j.Nodes*gpus)
		j.MinGPUs, j.MaxGPUs = j.GPUs, j.GPUs
		if r.IntN(3) == 0 {
			j.MinGPUs = j.Nodes
		}
		j.Limit = j.Duration + time.Duration(r.Float64()*float64(j.Duration)).Round(time.Second) // as people guess
		work += j.Duration.Seconds() * float64(j.GPUs)
		jobs[i] = j
	}
	for i := range jobs {
		jobs[i].Submit = time.Duration(r.Float64()*work/(load*float64(nodes*gpus))) * time.Second
	}
	slices.SortStableFunc(jobs, func(a, b simulate.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs
}

// slack is how far a tier may stay below its promise because a policy is asked every half minute, lets a job run for
// a minute before disturbing the job, and stops a job for half a minute to move the job.
const slack = 0.05

// TestTiersKeepTheirPromises: no tier does better than a higher tier that is below its promise, unless
// the lower tier could not have helped: no schedule gives the higher tier more, or the
// higher tier would not have had more if all lower jobs had not been there.
func TestTiersKeepTheirPromises(t *testing.T) {
	kept, bounded, proven, behind := 0, 0, 0, 0
	seeds := uint64(40)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 12))
		nodes, gpus := 1+r.IntN(4), []int{2, 4, 8}[r.IntN(3)]
		jobs := makeTrace(r, nodes, gpus, 60, 0.5+r.Float64())
		c := simulate.Config{
			Nodes: nodes, GPUs: gpus, Every: 30 * time.Second, Dump: 10 * time.Second, Restore: 20 * time.Second,
			Rules:    sdk.Rules{Window: time.Hour, Promised: [sdk.Tiers]float64{0, 0.7, 0.95}, MinRun: time.Minute, CoolDown: time.Minute},
			Policies: []chain.NamedPolicy{{Name: "tiers", Policy: inProcess{}}},
		}
		res := mustPlay(t, c, jobs)
		for tier := sdk.Premium; tier > sdk.Basic; tier-- {
			of := res.Tiers[tier]
			switch {
			case of.Fraction >= of.Promised-slack:
				kept++
				continue
			case of.Fraction >= of.Bound-slack:
				bounded++
				continue
			}
			above := slices.DeleteFunc(slices.Clone(jobs), func(j simulate.Job) bool { return tierNamed(j.QOS) < tier })
			alone := mustPlay(t, c, above).Tiers[tier]
			if alone.Fraction <= of.Fraction+slack {
				proven++
				continue
			}
			behind++
			for lower := range tier {
				if got := res.Tiers[lower]; got.Jobs > 0 && got.Fraction > of.Fraction {
					t.Errorf("seed %d: %d nodes of %d GPUs: %v got %.1f %% of the promised %.0f %% (bound %.1f %%; without lower tiers %.1f %%), and %v got %.1f %%",
						seed, nodes, gpus, tier, 100*of.Fraction, 100*of.Promised, 100*of.Bound, 100*alone.Fraction, lower, 100*got.Fraction)
				}
			}
		}
	}
	t.Logf("%d promises kept, %d at the bound, %d to which lower tiers had nothing to add, %d ahead of all lower tiers", kept, bounded, proven, behind)
	if uint64(kept) < seeds/2 {
		t.Errorf("%d promises were kept, too few for this test", kept)
	}
}

func tierNamed(qos string) sdk.Tier {
	tier, err := sdk.ParseTier(qos)
	if err != nil {
		panic(err)
	}
	return tier
}

func mustPlay(t *testing.T, c simulate.Config, jobs []simulate.Job) *simulate.Result {
	t.Helper()
	res, err := simulate.Run(t.Context(), c, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
