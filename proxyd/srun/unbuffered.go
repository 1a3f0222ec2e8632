// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import "slices"

// unbufferedVariable is the variable that means --unbuffered.
const unbufferedVariable = "SLURM_UNBUFFEREDIO"

// withoutTerminals leaves --unbuffered out. With that option slurmstepd gives the output of each task a terminal
// (slurmd/slurmstepd/io.c, _init_task_stdio_fds), so that the task's C library writes each line at once. The other side
// of that terminal is slurmstepd, outside of the capsule: the task could not be captured. Without the option a task
// writes into a pipe, as in other steps. submitit starts every job with that option.
func withoutTerminals(opts []givenOption) []givenOption {
	return slices.DeleteFunc(opts, func(g givenOption) bool { return canonicalName(g.option) == "unbuffered" })
}
