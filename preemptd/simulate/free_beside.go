// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"sort"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// allocationChange is a change of the GPUs that jobs of a tier hold.
type allocationChange struct {
	at   int64 // milliseconds
	tier sdk.Tier
	gpus int // less than zero: given back
}

// freeTime is a time from which on a number of GPUs is free, until the next.
type freeTime struct {
	at   int64
	gpus int
}

// freeBeside returns how many of the GPUs are not held by jobs of higher tiers than t. changes are in order of time.
func freeBeside(changes []allocationChange, t sdk.Tier, gpus int) []freeTime {
	all := []freeTime{{0, gpus}}
	for _, c := range changes {
		if c.tier <= t {
			continue
		}
		last := all[len(all)-1]
		if last.at == c.at {
			all[len(all)-1].gpus -= c.gpus
			continue
		}
		all = append(all, freeTime{c.at, last.gpus - c.gpus})
	}
	return all
}

// boundBeside returns for each tier a GPU fraction that no schedule of the tier's jobs can pass beside the jobs of
// higher tiers as they have held GPUs in a run: not with foresight, without the time of dumps and restores, with the
// GPUs of all nodes on a single node, and with each job of the tier alone.
func boundBeside(jobs []job, gpus int, changes []allocationChange) [sdk.Tiers]float64 {
	var bounds [sdk.Tiers]float64
	for t := range sdk.Tier(sdk.Tiers) {
		free := freeBeside(changes, t, gpus)
		work, span := 0.0, 0.0
		for i := range jobs {
			if j := jobs[i].Job; jobs[i].born == t {
				work += float64(workOf(j))
				span += float64(j.GPUs) * leastTime(j, free)
			}
		}
		bounds[t] = 1
		if work > 0 {
			bounds[t] = work / span
		}
	}
	return bounds
}

// leastTime is the milliseconds from a job's submission until it is done, if it has all free GPUs that it can use.
func leastTime(j *Job, free []freeTime) float64 {
	submit := j.Submit.Milliseconds()
	left := float64(workOf(j))
	i := sort.Search(len(free), func(i int) bool { return free[i].at > submit }) - 1
	for ; ; i++ {
		speed := min(free[i].gpus, max(j.GPUs, j.MaxGPUs))
		if speed < min(j.GPUs, j.MinGPUs) {
			speed = 0
		}
		from := max(free[i].at, submit)
		if i == len(free)-1 { // the higher jobs are done
			return float64(from-submit) + left/float64(speed)
		}
		did := float64(speed) * float64(free[i+1].at-from)
		if did >= left {
			return float64(from-submit) + left/float64(speed)
		}
		left -= did
	}
}
