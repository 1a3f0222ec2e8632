// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

func TestContract(t *testing.T) { sdktest.Run(t, sdktest.BuildPolicy(t, "elastic")) }

// newCluster returns a cluster of a single node.
func newCluster(jobs ...sdk.Job) *sdk.Snapshot { return sdktest.SmallCluster(1, jobs...) }

// newJob returns a basic job that asked for some GPUs, waits, and can have up to 8.
func newJob(id sdk.JobID, gpus int) sdk.Job {
	j := sdktest.WaitingJob(id, sdk.Basic, gpus)
	j.Tasks, j.MaxGPUs = 8, 8
	return j
}

// runOn returns the job, running on some GPUs. The job may have asked for fewer.
func runOn(j sdk.Job, first, gpus int) sdk.Job { return sdktest.RunOn(j, first, gpus, 0) }

func TestDecisions(t *testing.T) {
	changed := func(j sdk.Job, change func(*sdk.Job)) sdk.Job { change(&j); return j }
	for _, c := range []struct {
		name string
		s    *sdk.Snapshot
		want []string
	}{
		{"not while room is being made for somebody", newCluster(runOn(newJob(1, 2), 0, 2), changed(newJob(2, 2), func(j *sdk.Job) { j.Action = "place" })), nil},
		{"idle GPUs are lent", newCluster(runOn(newJob(1, 2), 0, 2)), []string{"resize job 1 to 8 GPUs on a (8 GPUs)"}},
		{"as many as there are", newCluster(runOn(newJob(1, 2), 0, 2), runOn(changed(newJob(2, 3), func(j *sdk.Job) { j.MaxGPUs = 3 }), 2, 3)),
			[]string{"resize job 1 to 5 GPUs on a (5 GPUs)"}},
		{"to premium first", newCluster(runOn(newJob(1, 2), 0, 2), runOn(changed(newJob(2, 2), func(j *sdk.Job) { j.Tier = sdk.Premium }), 2, 2)),
			[]string{"resize job 2 to 6 GPUs on a (6 GPUs)"}},
		{"not while somebody waits", newCluster(runOn(newJob(1, 2), 0, 2), newJob(2, 8)), nil},
		{"not what Slurm will give to somebody", newCluster(runOn(newJob(1, 2), 0, 2), newJob(2, 6)), nil},
		{"not if it does not pay", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.Checkpoint.Dump = time.Hour }), 0, 2)), nil},
		{"though a checkpoint takes an hour, if other jobs can lend them", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.Checkpoint.Dump, j.PauseInPlace = time.Hour, time.Second }), 0, 2)),
			[]string{"resize job 1 to 8 GPUs on a (8 GPUs)"}},
		{"first from a job that they were lent to", newCluster(
			runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.Checkpoint.Dump = time.Minute }), 0, 4),
			runOn(changed(newJob(2, 2), func(j *sdk.Job) { j.Checkpoint.Dump, j.PauseInPlace, j.Leased = time.Hour, time.Second, 2 }), 4, 4), newJob(3, 2)),
			[]string{"resize job 2 to 2 GPUs on a (2 GPUs)"}},
		{"last from a job whose own they are by now", newCluster(
			runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.Checkpoint.Dump = time.Minute }), 0, 4),
			runOn(changed(newJob(2, 2), func(j *sdk.Job) { j.Checkpoint.Dump, j.PauseInPlace = time.Hour, time.Second }), 4, 4), newJob(3, 2)),
			[]string{"resize job 1 to 2 GPUs on a (2 GPUs)"}},
		{"lent GPUs are taken back from a job that has no time for a checkpoint", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) {
			j.Tier, j.Promised, j.Fraction, j.Counted = sdk.Standard, 0.7, 0.8, time.Hour
			j.Checkpoint.Dump, j.PauseInPlace, j.Leased = 100*time.Hour, time.Second, 6
		}), 0, 8), newJob(2, 4)), []string{"resize job 1 to 2 GPUs on a (2 GPUs)"}},
		{"not to who was just resized", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.Acted = sdktest.Now }), 0, 2)), nil},
		{"GPUs that were lent are taken back", newCluster(runOn(newJob(1, 2), 0, 8), newJob(2, 4)), []string{"resize job 1 to 2 GPUs on a (2 GPUs)"}},
		{"from the lowest tier, and no more than needed", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.Tier = sdk.Standard }), 0, 4), runOn(newJob(2, 2), 4, 4), newJob(3, 2)),
			[]string{"resize job 2 to 2 GPUs on a (2 GPUs)"}},
		{"not if it is not enough", newCluster(runOn(newJob(1, 6), 0, 8), newJob(2, 4)), nil},
		{"from the job whose ranks lose least", newCluster(runOn(changed(newJob(1, 3), func(j *sdk.Job) { j.MaxGPUs = 4 }), 0, 4), runOn(changed(newJob(2, 3), func(j *sdk.Job) { j.MaxGPUs = 12 }), 4, 4), newJob(3, 1)),
			[]string{"resize job 2 to 3 GPUs on a (3 GPUs)"}},
		{"from the job whose ranks are alike", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.MaxGPUs, j.Fullest = 4, []float64{2, 1, 1, 0.5} }), 0, 4),
			runOn(changed(newJob(2, 2), func(j *sdk.Job) { j.MaxGPUs, j.Fullest = 4, []float64{0.5, 0.5, 0.5, 0.5} }), 4, 4), newJob(3, 2)), []string{"resize job 2 to 2 GPUs on a (2 GPUs)"}},
		{"from a job that will be swapped last", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.MaxGPUs, j.Fullest = 4, []float64{4, 2, 2, 0.9} }), 0, 4),
			runOn(changed(newJob(2, 2), func(j *sdk.Job) { j.Tier = sdk.Standard }), 4, 4), newJob(3, 2)), []string{"resize job 2 to 2 GPUs on a (2 GPUs)"}},
		{"and from that job too, for it asked for no more", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.MaxGPUs, j.Fullest = 4, []float64{4, 2, 2, 0.9} }), 0, 4),
			runOn(changed(newJob(2, 2), func(j *sdk.Job) { j.Tier = sdk.Standard }), 4, 4), newJob(3, 4)), []string{"resize job 2 to 2 GPUs on a (2 GPUs)", "resize job 1 to 2 GPUs on a (2 GPUs)"}},
		{"no GPU that a person had lent to a job", newCluster(runOn(changed(newJob(1, 2), func(j *sdk.Job) { j.MinGPUs, j.MaxGPUs = 8, 8 }), 0, 8), newJob(2, 4)), nil},
		{"no job gets less than it asked for", newCluster(runOn(changed(newJob(1, 8), func(j *sdk.Job) { j.MinGPUs, j.MaxGPUs = 1, 16 }), 0, 8), newJob(2, 4)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			intents := sdktest.CheckDecision(t, New(), c.s, c.want)
			if p := plan.Try(c.s, intents); len(p.Rejected) > 0 {
				t.Errorf("plan rejected %v, want no rejected intent", p.Rejected)
			}
		})
	}
}

// On every random cluster plan accepts all intents of the policy.
func TestPlanAcceptsEverything(t *testing.T) {
	resized := 0
	for seed := range uint64(6000) {
		s := sdktest.Random(rand.New(rand.NewPCG(seed, 19)))
		p := plan.Try(s, decideOn(s, New().Settings))
		for _, rejected := range p.Rejected {
			if rejected.Invariant != plan.Limit {
				t.Fatalf("seed %d: plan rejected an intent: %v", seed, rejected.Error())
			}
		}
		resized += len(p.Steps)
	}
	if resized < 20 {
		t.Errorf("%d jobs were resized, too few for this test", resized)
	}
}
