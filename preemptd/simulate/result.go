// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Result is what became of a trace.
type Result struct {
	Makespan    time.Duration // until the last job was done
	Utilisation float64       // of all GPUs over that time, by work that counts
	Preemptions int           // and moves, and resizes
	Rejected    int           // intents
	Lost        time.Duration // GPU time: work done twice, dumps and restores
	Tiers       [sdk.Tiers]TierResult

	lost     int64 // GPU-milliseconds, like those below
	work     int64 // of the trace
	computed int64
	again    int64 // computed that was lost, and is done again
	waits    [sdk.Tiers][]int64
	takes    [sdk.Tiers][]int64
	asked    [sdk.Tiers]int64 // GPU-milliseconds from submission to end, on all GPUs asked for
	did      [sdk.Tiers]int64
}

// TierResult is what became of the jobs of a tier.
type TierResult struct {
	Jobs              int
	Wait, Wait95      time.Duration // until the first start: on average, and of 95 of 100
	Complete, Compl95 time.Duration // from submission to end
	Fraction          float64       // GPU fraction over their whole lives
}

// ended counts a job that is done.
func (r *Result) ended(j *job) {
	submit := j.Submit.Milliseconds()
	r.work += work(j.Job)
	r.waits[j.tier] = append(r.waits[j.tier], j.first-submit)
	r.takes[j.tier] = append(r.takes[j.tier], j.done-submit)
	r.asked[j.tier] += (j.done - submit) * int64(j.GPUs)
	r.did[j.tier] += work(j.Job)
}

// finish is the result when all jobs are done.
func (r *run) finish() *Result {
	res := &r.result
	res.Makespan = time.Duration(r.now) * time.Millisecond
	res.Lost = time.Duration(res.lost) * time.Millisecond
	if r.now > 0 {
		res.Utilisation = float64(res.work) / float64(r.now) / float64(r.config.Nodes*r.config.GPUs)
	}
	for t := range res.Tiers {
		tier := &res.Tiers[t]
		tier.Jobs = len(res.waits[t])
		tier.Wait, tier.Wait95 = mean(res.waits[t])
		tier.Complete, tier.Compl95 = mean(res.takes[t])
		if res.asked[t] > 0 {
			tier.Fraction = float64(res.did[t]) / float64(res.asked[t])
		}
	}
	return res
}

// mean is the average, and what 95 of 100 are not above.
func mean(ms []int64) (average, most time.Duration) {
	if len(ms) == 0 {
		return 0, 0
	}
	slices.Sort(ms)
	sum := int64(0)
	for _, m := range ms {
		sum += m
	}
	n := len(ms)
	return time.Duration(sum/int64(n)) * time.Millisecond, time.Duration(ms[(95*n+99)/100-1]) * time.Millisecond
}

// Named is a result with its name, for a table.
type Named struct {
	Name string
	*Result
}

// Print prints results side by side.
func Print(w io.Writer, results []Named) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tutilisation\tmakespan\tpreemptions\tlost GPU-hours\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%.1f %%\t%v\t%d\t%.1f\t\n", r.Name, 100*r.Utilisation, r.Makespan.Round(time.Minute), r.Preemptions, r.Lost.Hours())
	}
	fmt.Fprintln(t, "\t\t\t\t\t")
	fmt.Fprintln(t, "\tjobs\twait\twait, 95 %\tcompletion\tGPU fraction\t")
	for tier := sdk.Premium; ; tier-- {
		for _, r := range results {
			of := r.Tiers[tier]
			fmt.Fprintf(t, "%v, %s\t%d\t%v\t%v\t%v\t%.1f %%\t\n", tier, r.Name, of.Jobs,
				of.Wait.Round(time.Second), of.Wait95.Round(time.Second), of.Complete.Round(time.Second), 100*of.Fraction)
		}
		if tier == sdk.Basic {
			return t.Flush()
		}
	}
}
