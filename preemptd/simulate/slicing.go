// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import "github.com/singularity-slurm/singularity-slurm/policies/sdk"

// The cost of several ranks of a job sharing a GPU is the cost that policies are told: by the model of package sdk. A
// job has a rank for each GPU of its largest size.

// fullPace is the pace of a job on the GPUs that it asked for.
const fullPace = 10_000

// sharingOf is the Sharing that a checkpoint would tell of the job's ranks, by the trace. Without memory in the trace
// it has no Fullest.
func sharingOf(j *Job) sdk.Sharing {
	s := sdk.Sharing{Ranks: j.MaxGPUs, Capsules: j.Nodes, Meetings: j.Meetings}
	if j.Memory == 0 {
		return s
	}
	ranks := divideUp(int64(j.MaxGPUs), int64(j.Nodes))
	for each := int64(1); each <= ranks; each++ {
		on := float64(divideUp(ranks, each))
		s.Fullest = append(s.Fullest, j.Memory*(j.Alike+on*(1-j.Alike)))
	}
	return s
}

// paceOn is how much work a GPU of the job does, in parts of fullPace, if the job has so many GPUs.
func (j *job) paceOn(gpus int) int64 {
	return max(1, int64(fullPace*j.sharing.Time(j.GPUs)/j.sharing.Time(gpus)))
}

// workIn is the work that so many GPUs of the job do in a time, in GPU-milliseconds.
func (j *job) workIn(ms int64, gpus int) int64 { return ms * int64(gpus) * j.paceOn(gpus) / fullPace }

// timeFor is how long so many GPUs of the job take for some work, in milliseconds.
func (j *job) timeFor(work int64, gpus int) int64 {
	return divideUp(work*fullPace, int64(gpus)*j.paceOn(gpus))
}

// leastGPUs is the smallest size to which the job is shrunk: not to a size at which its ranks would be swapped.
func (j *job) leastGPUs() int {
	return sdk.LeastSize(j.MinGPUs, j.GPUs, j.Nodes, func(gpus int) bool { return gpus >= j.Nodes && !j.sharing.Swaps(gpus) })
}
