// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// boundTiers returns for each tier a GPU fraction that no schedule of the trace can pass: not with perfect foresight,
// without the time of dumps and restores, and with the GPUs of all nodes on a single node. For a lower tier, these
// are the schedules in which each higher tier gets its promise or, where no schedule can give that, its own bound.
//
// The fraction of a tier is its work over its span: the time from submission to end of its jobs,
// each times the GPUs that the job asked for. The work is given, so the least span bounds the
// fraction: the least span of the tier's jobs when they have the cluster for themselves, and the
// least span of these and all higher jobs together, less the longest span that leaves the higher
// tiers their promises.
func boundTiers(jobs []job, gpus int, promised [sdk.Tiers]float64) [sdk.Tiers]float64 {
	var bounds [sdk.Tiers]float64
	var together []*Job
	higher := 0.0 // the longest span of higher tiers that keep their promises
	for t := sdk.Tier(sdk.Tiers); t > 0; {
		t--
		var own []*Job
		work := 0.0
		for i := range jobs {
			if jobs[i].born == t {
				own = append(own, jobs[i].Job)
				work += float64(workOf(jobs[i].Job))
			}
		}
		bounds[t] = 1
		if len(own) == 0 {
			continue
		}
		together = append(together, own...)
		span := max(leastSpan(own, gpus), leastSpan(together, gpus)-higher)
		bounds[t] = work / span
		if keeps := min(promised[t], bounds[t]); keeps > 0 {
			higher += work / keeps
		}
	}
	return bounds
}

// leastSpan is a lower bound of the span of some jobs, in GPU-milliseconds: the larger of two bounds. By the first, a
// job takes its work on the most GPUs that it can use. The second is that of mean busy times (Goemans and others,
// Single Machine Scheduling with Release Dates, 2002): a job ends at least half of its shortest time after the middle
// of its work; and the sum of these middles, each times the GPUs asked for, is least when the whole cluster works on
// one job at a time, on the shortest of those that are there.
func leastSpan(jobs []*Job, gpus int) float64 {
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b *Job) int { return int(a.Submit - b.Submit) })
	alone, middles := 0.0, 0.0
	var here []servedJob // a heap
	now := 0.0
	serveUntil := func(until float64) {
		for len(here) > 0 && now < until {
			s := &here[0]
			took := min(s.left/float64(gpus), until-now)
			// The middle of this part of the work, weighed by the part: GPUs of the job ÷ its work.
			middles += took * float64(gpus) * (now + took/2) / float64(s.length)
			s.left -= took * float64(gpus)
			now += took
			if now < until {
				_, here = heapPop(here)
			}
		}
		now = max(now, until)
	}
	for _, j := range jobs {
		submit := float64(j.Submit.Milliseconds())
		serveUntil(submit)
		shortest := float64(workOf(j)) / float64(max(j.GPUs, min(j.MaxGPUs, gpus)))
		alone += float64(j.GPUs) * shortest
		middles += float64(j.GPUs) * (shortest/2 - submit)
		here = heapPush(here, servedJob{length: j.Duration.Milliseconds(), id: j.ID, left: float64(workOf(j))})
	}
	for len(here) > 0 {
		serveUntil(now + here[0].left/float64(gpus) + 1)
	}
	return max(alone, middles)
}

// servedJob is a job that the whole cluster works on, by the bound.
type servedJob struct {
	length int64 // milliseconds on the GPUs that the job asked for
	id     sdk.JobID
	left   float64 // GPU-milliseconds
}

func (s *servedJob) isBefore(o *servedJob) bool {
	return s.length < o.length || s.length == o.length && s.id < o.id
}
