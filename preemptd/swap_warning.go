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
	capsules := max(1, j.Capsules)
	fits := sdk.LeastSize(gpus, j.GPUs, capsules, func(each int) bool { return each > 0 && !s.Swaps(each*capsules) })
	if fits < j.GPUs {
		text += fmt.Sprintf("; %d are enough", fits)
	}
	return text + "; singctl resize --swap does it all the same"
}
