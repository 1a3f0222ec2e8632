// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import "github.com/singularity-slurm/singularity-slurm/policies/sdk"

// What it costs that several ranks of a job share a GPU, by the model that docs/splicing.md measures: that of the paper's
// quickest model on a V100, for which a switch from one rank to the next costs the most. A job has a rank for each GPU
// of its largest size. Two meetings in a mini-batch, of gradients and of parameters, make 2 (k - 1) switches between k ranks.
const (
	batchTime  = 210.0  // milliseconds of a mini-batch of a rank
	switchTime = 1.5    // milliseconds of a switch, whatever is moved
	swapTime   = 1333.0 // milliseconds to move the whole memory of a GPU, there or back
)

// fullPace is the pace of a job on the GPUs that it asked for.
const fullPace = 10_000

// ranksOn is how many ranks are on the GPU that has the most, if the job has so many GPUs.
func (j *Job) ranksOn(gpus int) float64 { return float64((j.MaxGPUs + gpus - 1) / gpus) }

// fits reports whether the memory of the ranks of a GPU fits there, with what they have alike there once.
func (j *Job) fits(gpus int) bool {
	return j.Memory*(j.Alike+j.ranksOn(gpus)*(1-j.Alike)) <= 1
}

// slicingTime is the time of a mini-batch on so many GPUs, over what it would be if nothing were lost: to switches, and to
// waiting for the GPU that has the most ranks.
func (j *Job) slicingTime(gpus int) float64 {
	ranks := j.ranksOn(gpus)
	switches := 2 * (ranks - 1)
	cost := switches * switchTime
	if !j.fits(gpus) {
		cost += switches * 2 * swapTime * j.Memory * (1 - j.Alike) // what is a rank's own goes out and in
	}
	uneven := ranks * float64(gpus) / float64(j.MaxGPUs)
	return uneven * (1 + cost/(ranks*batchTime))
}

// paceOn is how much work a GPU of the job does, in parts of fullPace, if the job has so many GPUs.
func (j *Job) paceOn(gpus int) int64 {
	return max(1, int64(fullPace*j.slicingTime(j.GPUs)/j.slicingTime(gpus)))
}

// workIn is the work that so many GPUs of the job do in a time, in GPU-milliseconds.
func (j *Job) workIn(ms int64, gpus int) int64 { return ms * int64(gpus) * j.paceOn(gpus) / fullPace }

// timeFor is how long so many GPUs of the job take for some work, in milliseconds.
func (j *Job) timeFor(work int64, gpus int) int64 {
	return divideUp(work*fullPace, int64(gpus)*j.paceOn(gpus))
}

// leastGPUs is the smallest size to which the job is shrunk: not to a size at which its ranks would be swapped.
func (j *Job) leastGPUs() int {
	return sdk.LeastSize(j.MinGPUs, j.GPUs, j.Nodes, func(each int) bool { return each > 0 && j.fits(each*j.Nodes) })
}
