// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import "cmp"

// The costs when several ranks of a job share a GPU, by the model that docs/splicing.md measures: that of the paper's
// quickest model on a V100, for which a switch from one rank to the next costs the most. k ranks that meet m times in a
// mini-batch, in collectives, switch m (k - 1) times.
const (
	meetings   = 2.0    // in a mini-batch, of a job of which the number is not known: for gradients and for parameters
	batchTime  = 210.0  // milliseconds of a mini-batch of a rank
	switchTime = 1.5    // milliseconds of a switch, however much is moved
	swapTime   = 1333.0 // milliseconds to move the whole memory of a GPU, there or back
)

// Sharing is the part of a job's description that decides how much the job loses when its ranks share GPUs.
type Sharing struct {
	Ranks    int // of all capsules: the GPUs of the job's largest size
	Capsules int
	Fullest  []float64 // as in Job
	Meetings float64   // of its ranks, in each mini-batch; 0: not known
}

// Sharing returns the Sharing of the job's ranks.
func (j *Job) Sharing() Sharing {
	return Sharing{Ranks: j.MaxGPUs, Capsules: j.Capsules, Fullest: j.Fullest}
}

// Time is the time of a mini-batch on so many GPUs, over its time without losses: to switches, to swapping, and to
// waiting for the GPU that has the most ranks.
func (s Sharing) Time(gpus int) float64 {
	if gpus <= 0 || s.Ranks <= 0 {
		return 1
	}
	ranks := float64(divideUp(s.Ranks, gpus)) // on the GPU that has the most
	switches := cmp.Or(s.Meetings, meetings) * (ranks - 1)
	cost := switches * switchTime
	if s.Swaps(gpus) {
		cost += switches * 2 * swapTime * s.ownMemory(gpus) // a rank's own memory goes out and in
	}
	uneven := ranks * float64(gpus) / float64(s.Ranks)
	return uneven * (1 + cost/(ranks*batchTime))
}

// Work is how much the job does on so many GPUs, counted in GPUs of which each does the work of a single rank.
func (s Sharing) Work(gpus int) float64 { return float64(gpus) / s.Time(gpus) }

// Swaps reports whether the ranks that share a GPU would be swapped on so many GPUs, because their memory does not fit
// there. It reports false as long as no checkpoint tells.
func (s Sharing) Swaps(gpus int) bool { return s.FullestOn(gpus) > 1 }

// FullestOn is which part of a GPU's memory the ranks on the fullest of so many GPUs need; 0 as long as no checkpoint
// tells. For capsules that share a GPU it is the most that they can need, the sum: no checkpoint tells what ranks of
// different capsules hold alike.
func (s Sharing) FullestOn(gpus int) float64 {
	if each := s.gpusOfCapsule(gpus); each <= len(s.Fullest) {
		return s.Fullest[each-1] * float64(s.CapsulesOnGPU(gpus))
	}
	return 0
}

// CapsulesOnGPU is how many capsules the fullest of so many GPUs carries.
func (s Sharing) CapsulesOnGPU(gpus int) int { return divideUp(max(1, s.Capsules), max(1, gpus)) }

// Alike is which part of their memory the ranks that share the fullest GPU hold alike on so many GPUs, from 0 to 1; 0
// if no checkpoint tells, if ranks of a capsule share no GPU, or if several capsules share one.
func (s Sharing) Alike(gpus int) float64 {
	each := s.gpusOfCapsule(gpus)
	if each >= len(s.Fullest) || s.CapsulesOnGPU(gpus) > 1 {
		return 0
	}
	one := s.Fullest[len(s.Fullest)-1]
	if one <= 0 {
		return 0
	}
	return min(1, max(0, 1-s.ownMemory(gpus)/one))
}

// ownMemory is which part of a GPU's memory each rank of the fullest GPU has for itself: the part that each further
// rank adds. Where several capsules share a GPU, it is all that a rank has.
func (s Sharing) ownMemory(gpus int) float64 {
	each, seen := s.gpusOfCapsule(gpus), len(s.Fullest)
	if each > seen {
		return 0
	}
	if each == seen || s.CapsulesOnGPU(gpus) > 1 {
		return s.Fullest[seen-1]
	}
	return (s.Fullest[each-1] - s.Fullest[seen-1]) / float64(divideUp(seen, each)-1)
}

// gpusOfCapsule is how many GPUs the capsule with the fewest has, which it may share with other capsules.
func (s Sharing) gpusOfCapsule(gpus int) int { return max(1, gpus/max(1, s.Capsules)) }

func divideUp(n, by int) int { return (n + by - 1) / by }

// Swaps reports whether the job's ranks would be swapped on so many GPUs, by the newest checkpoint.
func (j *Job) Swaps(gpus int) bool { return j.Sharing().Swaps(gpus) }

// WorkLost is how much less the job does on so many GPUs, fewer than the job has: as much as the GPUs that are given
// up have done, and the loss because ranks share the rest. It is counted as Work counts, and never less than 0.
func (j *Job) WorkLost(gpus int) float64 {
	s := j.Sharing()
	return max(0, s.Work(j.GPUs)-s.Work(gpus))
}

// SizeWithoutSwapping is how many GPUs a job on so many nodes, with as many GPUs on each, can keep on each when it is
// to keep wanted: the largest number from least to wanted at which its ranks are not swapped, else the smallest such
// number above wanted. If no number below each will do, it is each, the number that the job has there now.
func (j *Job) SizeWithoutSwapping(nodes, wanted, least, each int) int {
	for keep := wanted; keep >= least; keep-- {
		if !j.Swaps(keep * nodes) {
			return keep
		}
	}
	for keep := max(wanted+1, least); keep < each; keep++ {
		if !j.Swaps(keep * nodes) {
			return keep
		}
	}
	return each
}
