// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// whySwapped says why the ranks of a job would be swapped on so many GPUs, by the job's newest checkpoint as of the
// last look; "" if they would not, or if that is not known.
func (d *requestServer) whySwapped(job, gpus int64) string {
	last := d.latestLook()
	if last == nil {
		return ""
	}
	j, ok := last.snapshot.Job(sdk.JobID(job))
	if !ok {
		return ""
	}
	return swappingText(j, int(gpus))
}

// swappingText is for a person that asks for a size at which the job's ranks would be swapped; "" if they would not be.
func swappingText(j *sdk.Job, gpus int) string {
	s := j.Sharing()
	if !s.Swaps(gpus) {
		return ""
	}
	text := fmt.Sprintf("%s: the ranks that share a GPU would be swapped there, and be many times slower: by its newest checkpoint they need %.0f %% of the GPU's memory",
		sdk.CountOf(gpus, "GPU"), 100*s.FullestOn(gpus))
	if n := s.CapsulesOnGPU(gpus); n > 1 {
		text = fmt.Sprintf("%s: ranks of %d nodes would share a GPU, and if they have nothing alike be swapped there, and be many times slower: "+
			"by its newest checkpoint a node's need %.0f %% of the GPU's memory, and all %.0f %% at most", sdk.CountOf(gpus, "GPU"), n, 100*s.FullestOn(gpus)/float64(n), 100*s.FullestOn(gpus))
	}
	if fits := sdk.LeastSize(gpus, j.GPUs, max(1, j.Capsules), func(gpus int) bool { return !s.Swaps(gpus) }); fits < j.GPUs {
		text += fmt.Sprintf("; %d are enough", fits)
	}
	return text + "; singctl resize --swap does it all the same"
}
