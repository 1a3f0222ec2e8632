// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import "github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"

// Why launches run for their space, as people read it.
const (
	whyAddresses = "the processes use several GPUs, so their addresses differ"
	whyBytes     = "what they read differs"
	whyOther     = "other work of the process ran at the same time"
	whyFreed     = "their memory was freed before they had ended"
	whyMemory    = "they use memory of the host, of other GPUs or of virtual addresses"
	whyEffects   = "they print, or allocate memory"
	whyBlocks    = "their blocks wait for each other"
	whyLaunches  = "they launch kernels"
	whyPart      = "a part of them ran before a checkpoint"
	whyLearn     = "what they read was not known yet"
	whyDear      = "to compare what they read would have taken longer"
	whyDiffered  = "what they read differed when it was compared before"
	whyRefused   = "they were seen to print, to allocate, or to use memory of more than the process"
)

// whyNotCompared is why a launch is not compared, by the reason that package splice gives.
var whyNotCompared = map[splice.Reason]string{splice.Dear: whyDear, splice.Differed: whyDiffered, splice.Refused: whyRefused}

// recentReasons counts why launches ran for their space, of the last recentLaunches launches that did, and of up to as
// many before these. Reasons that are no longer given are forgotten so.
type recentReasons struct {
	last, before map[string]int // launches, by the reason
	n            int            // launches in last
}

func makeReasons() recentReasons { return recentReasons{last: map[string]int{}} }

// countReason notes a launch that ran for its space.
func (r *recentReasons) countReason(why string) {
	if r.n == recentLaunches {
		r.before, r.last, r.n = r.last, map[string]int{}, 0
	}
	r.last[why]++
	r.n++
}

// uncountReason undoes countReason, unless the launch is forgotten.
func (r *recentReasons) uncountReason(why string) {
	if r.last[why] > 0 {
		r.last[why]--
	} else if r.before[why] > 0 {
		r.before[why]--
	}
}

// mostFrequent returns the reason of most launches, "" if no launch ran for its space.
func (r *recentReasons) mostFrequent() (out string) {
	most := 0
	for _, reasons := range []map[string]int{r.last, r.before} {
		for why := range reasons {
			if n := r.last[why] + r.before[why]; n > most || n == most && why < out {
				most, out = n, why
			}
		}
	}
	return out
}
