// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiers

import (
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// TestShrinksWhatLosesLeast: of jobs that could give the same GPUs, the job is shrunk that loses least work because
// its ranks share GPUs, and no job to a size at which its ranks would be swapped.
func TestShrinksWhatLosesLeast(t *testing.T) {
	elastic := func(id sdk.JobID, node int32, pause int, change func(*sdk.Job)) sdk.Job {
		return changeJob(makeElastic(sdktest.RunOn(waitingJob(id, sdk.Basic, 8, pause), 0, 8, node), 1), change)
	}
	withRanks := func(n int) func(*sdk.Job) { return func(j *sdk.Job) { j.MaxGPUs = n } }
	saved := func(fullest ...float64) func(*sdk.Job) { return func(j *sdk.Job) { j.Fullest = fullest } }
	alike := saved(0.9, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.4)
	unlike := saved(3.2, 1.6, 1.2, 0.8, 0.8, 0.8, 0.8, 0.4)
	for _, c := range []struct {
		name  string
		wants int
		jobs  []sdk.Job
		want  []string
	}{
		{"ranks that come out even", 2, []sdk.Job{elastic(2, 0, 10, withRanks(8)), elastic(3, 1, 10, withRanks(24))},
			[]string{"resize job 3 to 6 GPUs on b (6 GPUs)", "place job 1 on b (2 GPUs)"}},
		{"though standing still takes longer", 2, []sdk.Job{elastic(2, 0, 10, withRanks(8)), elastic(3, 1, 60, withRanks(24))},
			[]string{"resize job 3 to 6 GPUs on b (6 GPUs)", "place job 1 on b (2 GPUs)"}},
		{"but not for hours", 2, []sdk.Job{elastic(2, 0, 10, withRanks(8)), elastic(3, 1, 7200, withRanks(24))},
			[]string{"resize job 2 to 6 GPUs on a (6 GPUs)", "place job 1 on a (2 GPUs)"}},
		{"ranks that are alike", 4, []sdk.Job{elastic(2, 0, 10, unlike), elastic(3, 1, 10, alike)},
			[]string{"resize job 3 to 4 GPUs on b (4 GPUs)", "place job 1 on b (4 GPUs)"}},
		{"ranks that are known to be alike", 4, []sdk.Job{elastic(2, 0, 10, saved()), elastic(3, 1, 10, alike)},
			[]string{"resize job 3 to 4 GPUs on b (4 GPUs)", "place job 1 on b (4 GPUs)"}},
		{"not to where they are swapped", 6, []sdk.Job{elastic(2, 0, 10, unlike), elastic(3, 1, 500, alike)},
			[]string{"resize job 3 to 2 GPUs on b (2 GPUs)", "place job 1 on b (6 GPUs)"}},
		{"preempted sooner than swapped", 6, []sdk.Job{elastic(2, 0, 10, unlike), changeJob(elastic(3, 1, 10, alike), func(j *sdk.Job) { j.Preemptable = false })},
			[]string{"preempt job 2", "place job 1 on a (6 GPUs)"}},
		{"smaller, if some of two kinds would share a GPU", 5, []sdk.Job{elastic(2, 0, 10, saved(1.8, 0.9, 1.3, 0.7, 0.7, 0.7, 0.7, 0.4))},
			[]string{"resize job 2 to 2 GPUs on a (2 GPUs)", "place job 1 on a (5 GPUs)"}},
		{"GPUs of other nodes count, which would be given up for nothing", 4, []sdk.Job{
			changeJob(makeElastic(sdktest.RunOn(waitingJob(2, sdk.Basic, 16, 1), 0, 8, 0, 1), 2), func(j *sdk.Job) { j.CPUs = 8 }), elastic(3, 2, 10, withRanks(8))},
			[]string{"resize job 3 to 4 GPUs on c (4 GPUs)", "place job 1 on c (4 GPUs)"}},
		{"lent GPUs are given in place, though a checkpoint takes long", 2, []sdk.Job{
			changeJob(elastic(2, 0, 7200, withRanks(8)), func(j *sdk.Job) { j.Request, j.Leased, j.PauseInPlace = 6, 2, time.Second }), elastic(3, 1, 10, withRanks(8))},
			[]string{"resize job 2 to 6 GPUs on a (6 GPUs)", "place job 1 on a (2 GPUs)"}},
		{"but none of its own", 3, []sdk.Job{
			changeJob(elastic(2, 0, 7200, withRanks(8)), func(j *sdk.Job) { j.Request, j.Leased, j.PauseInPlace = 6, 2, time.Second }), elastic(3, 1, 10, withRanks(8))},
			[]string{"resize job 3 to 5 GPUs on b (5 GPUs)", "place job 1 on b (3 GPUs)"}},
		{"lent GPUs are given, but none that it needs", 2, []sdk.Job{changeJob(elastic(2, 0, 10, unlike), func(j *sdk.Job) { j.Request, j.MinGPUs = 3, 3 })},
			[]string{"resize job 2 to 6 GPUs on a (6 GPUs)", "place job 1 on a (2 GPUs)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := 0
			for _, j := range c.jobs {
				nodes += len(j.Shares)
			}
			s := sdktest.SmallCluster(nodes, append([]sdk.Job{waitingJob(1, sdk.Premium, c.wants, 10)}, c.jobs...)...)
			intents := sdktest.CheckDecision(t, New(), s, c.want)
			if p := plan.Try(s, intents); len(p.Rejected) > 0 {
				t.Errorf("plan rejected %v, want no rejected intent", p.Rejected)
			}
		})
	}
}

// TestShrinksRanksAlikeOfBrokenPromises: what decides between two jobs that lose the same also decides where stopping
// either of them breaks a promise, which counts more than all else.
func TestShrinksRanksAlikeOfBrokenPromises(t *testing.T) {
	atPromise := func(id sdk.JobID, node int32, fullest ...float64) sdk.Job {
		j := makeElastic(sdktest.RunOn(waitingJob(id, sdk.Standard, 8, 10), 0, 8, node), 1)
		return changeJob(j, func(j *sdk.Job) { j.Fraction, j.Fullest = 0.702, fullest })
	}
	behind := changeJob(waitingJob(1, sdk.Premium, 4, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, time.Hour })
	s := sdktest.SmallCluster(2, behind, atPromise(2, 0, 3.2, 1.6, 1.2, 0.8, 0.8, 0.8, 0.8, 0.4), atPromise(3, 1, 0.9, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.4))
	for _, id := range []sdk.JobID{2, 3} {
		if j, _ := s.Job(id); keepsPromise(j, s) {
			t.Fatalf("job %d keeps its promise, and this test needs jobs that do not", id)
		}
	}
	sdktest.CheckDecision(t, New(), s, []string{"resize job 3 to 4 GPUs on b (4 GPUs)", "place job 1 on b (4 GPUs)"})
}

// TestNoSwappingChosen: on no random cluster is a job shrunk to a size at which its ranks would be swapped.
func TestNoSwappingChosen(t *testing.T) {
	shrunk := 0
	for seed := range uint64(3000) {
		s := randomCluster(seed)
		for _, i := range decideOn(s, New().Settings) {
			j, _ := s.Job(i.Job)
			if i.Verb != sdk.Resize || i.GPUs >= j.GPUs {
				continue
			}
			if shrunk++; j.Swaps(i.GPUs) {
				t.Fatalf("seed %d: %v, of a job that needs %v of a GPU", seed, i, j.Fullest)
			}
		}
	}
	if shrunk < 20 {
		t.Errorf("%d jobs were shrunk, too few for this test", shrunk)
	}
}
