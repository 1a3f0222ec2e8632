// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Result is the result of a played trace.
type Result struct {
	Makespan    time.Duration // until the last job was done
	Utilisation float64       // of all GPUs over that time, by work that counts
	Preempted   int           // how often a job was
	Migrated    int
	Resized     int
	Rejected    int           // intents
	Redone      time.Duration // GPU time: work that was lost, and done twice
	Still       time.Duration // GPU time of dumps and restores
	Tiers       [sdk.Tiers]TierResult
	Course      []Sample
	Losses      []JobLoss // of all jobs, the latest first; nil unless losses are counted

	// GPU-milliseconds.
	still    int64
	again    int64 // computed that was lost, and is done again
	work     int64 // of the trace
	computed int64
	tiers    [sdk.Tiers]finishedJobs
}

// finishedJobs are the times and the work of a tier's jobs that are done.
type finishedJobs struct {
	waits, takes []int64 // milliseconds
	asked, did   int64   // GPU-milliseconds from submission to end, on all GPUs asked for; and of their work
}

// TierResult is the result of the jobs of a tier.
type TierResult struct {
	Jobs     int
	Wait     Spread  // until the first start
	Complete Spread  // from submission to end
	Fraction float64 // GPU fraction over their whole lives
	Promised float64 // GPU fraction
	Bound    float64 // GPU fraction that no schedule can pass while higher tiers keep their promises
	Beside   float64 // GPU fraction that no schedule can pass beside the jobs of higher tiers as they ran here
	Stopped  int     // how often a job was preempted, moved or resized
}

// BelowPromise reports whether the tier got less than it is promised.
func (t *TierResult) BelowPromise() bool { return t.Jobs > 0 && t.Fraction < t.Promised }

// Infeasible reports whether no schedule could have kept the promise.
func (t *TierResult) Infeasible() bool { return t.Jobs > 0 && t.Bound < t.Promised }

// Spread is how long jobs took.
type Spread struct{ Mean, Median, P95 time.Duration }

// Lost is GPU time that did no work that counts.
func (r *Result) Lost() time.Duration { return r.Redone + r.Still }

// Stops is how often jobs were stopped, for all reasons.
func (r *Result) Stops() int { return r.Preempted + r.Migrated + r.Resized }

// countStop counts a job that is disturbed.
func (r *Result) countStop(j *job, verb sdk.Verb) {
	r.Tiers[j.born].Stopped++
	switch verb {
	case sdk.Migrate:
		r.Migrated++
	case sdk.Resize:
		r.Resized++
	default:
		r.Preempted++
	}
}

// countEnd counts a job that is done.
func (r *Result) countEnd(j *job) {
	submit := j.Submit.Milliseconds()
	r.work += workOf(j.Job)
	of := &r.tiers[j.born]
	of.waits = append(of.waits, j.first-submit)
	of.takes = append(of.takes, j.done-submit)
	of.asked += (j.done - submit) * int64(j.GPUs)
	of.did += workOf(j.Job)
}

// makeResult is the result when all jobs are done.
func (r *run) makeResult() *Result {
	res := &r.result
	gpus := r.config.Nodes * r.config.GPUs
	res.Makespan = durationOf(r.now)
	res.Redone, res.Still = durationOf(res.again), durationOf(res.still)
	if r.now > 0 {
		res.Utilisation = float64(res.work) / float64(r.now) / float64(gpus)
	}
	bounds := boundTiers(r.jobs, gpus, r.config.Rules.Promised)
	beside := boundBeside(r.jobs, gpus, r.holdings)
	for t := range res.Tiers {
		tier, of := &res.Tiers[t], &res.tiers[t]
		tier.Jobs, tier.Promised, tier.Bound = len(of.waits), r.config.Rules.Promised[t], bounds[t]
		tier.Beside = min(bounds[t], beside[t])
		tier.Wait, tier.Complete = spreadOf(of.waits), spreadOf(of.takes)
		if of.asked > 0 {
			tier.Fraction = float64(of.did) / float64(of.asked)
		}
	}
	res.Losses = r.makeLosses()
	res.Course = r.course.samplesOf(gpus)
	return res
}

func durationOf(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// spreadOf sorts its argument. 95 % of the times are at most P95.
func spreadOf(ms []int64) Spread {
	if len(ms) == 0 {
		return Spread{}
	}
	slices.Sort(ms)
	sum := int64(0)
	for _, m := range ms {
		sum += m
	}
	n := len(ms)
	return Spread{Mean: durationOf(sum / int64(n)), Median: durationOf(ms[(n-1)/2]), P95: durationOf(ms[(95*n+99)/100-1])}
}
