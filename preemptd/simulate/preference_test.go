// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// TestShrinksWhatLosesLeast: of two jobs that could give the same GPUs to a premium job, the shrunk job is that with
// ranks that still come out even, so that less work is lost, and the job that would wait for its fullest GPU goes on
// undisturbed.
func TestShrinksWhatLosesLeast(t *testing.T) {
	program := buildPolicy(t, "tiers")
	jobs, err := ReadCSV(strings.NewReader(`id,submit,duration,gpus,min_gpus,max_gpus,qos
1,0,4000,8,2,8,basic
2,0,4000,8,2,24,basic
3,595,1200,2,,,premium
`))
	if err != nil {
		t.Fatal(err)
	}
	c := newConfig(2, 8, tiersPolicy(t, program))
	c.Losses = true
	res, err := Run(t.Context(), c, jobs)
	if err != nil {
		t.Fatal(err)
	}
	shrunk := map[sdk.JobID]float64{}
	for _, l := range res.Losses {
		shrunk[l.Job] = l.Lost[Shrunk]
	}
	// Job 2 has 6 of 8 GPUs for 20 minutes: that is 40 minutes of a GPU. Job 1 would have done the work of 4 on its 6.
	if shrunk[1] != 0 || shrunk[2] < 0.6 || shrunk[2] > 0.75 || res.Resized != 2 {
		t.Errorf("resized %d times; GPU-hours lost on fewer GPUs: %v", res.Resized, shrunk)
	}
}
