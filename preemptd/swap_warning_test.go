// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// TestSwappingText: a person that asks for a size at which ranks would be swapped is told how much memory they need,
// and which size is enough.
func TestSwappingText(t *testing.T) {
	j := &sdk.Job{ID: 7, Capsules: 2, GPUs: 8, MaxGPUs: 8, Fullest: []float64{2.4, 1.2, 0.9, 0.6}}
	for _, c := range []struct {
		gpus int
		want string
	}{
		{8, ""}, {6, ""},
		{4, "4 GPUs: the ranks that share a GPU would be swapped there, and be many times slower: by its newest checkpoint they need 120 % of the GPU's memory; " +
			"6 are enough; singctl resize --swap does it all the same"},
		{1, "1 GPU: the ranks that share a GPU would be swapped there, and be many times slower: by its newest checkpoint they need 240 % of the GPU's memory; " +
			"6 are enough; singctl resize --swap does it all the same"},
	} {
		if got := swappingText(j, c.gpus); got != c.want {
			t.Errorf("swappingText for %d GPUs = %q, want %q", c.gpus, got, c.want)
		}
	}
	if d := (&requestServer{}); d.whySwapped(7, 1) != "" {
		t.Error("whySwapped judges a job before the first look")
	}
	d := &requestServer{last: &lookResult{snapshot: &sdk.Snapshot{Jobs: []sdk.Job{*j}}}}
	if d.whySwapped(7, 4) == "" || d.whySwapped(7, 6) != "" || d.whySwapped(8, 1) != "" {
		t.Errorf("4 GPUs: %q, 6 GPUs: %q, another job: %q", d.whySwapped(7, 4), d.whySwapped(7, 6), d.whySwapped(8, 1))
	}
}
