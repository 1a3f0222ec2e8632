// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// NamedResult is a result with its name, to be shown beside other results.
type NamedResult struct {
	Name string
	*Result
}

// Print prints results side by side.
func Print(w io.Writer, results []NamedResult) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tutilisation\tmakespan\tpreempted\tmoved\tresized\tGPU-hours done twice\tof dump and restore\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%.1f %%\t%v\t%d\t%d\t%d\t%.1f\t%.1f\t\n", r.Name, 100*r.Utilisation, roundForPeople(r.Makespan),
			r.Preempted, r.Migrated, r.Resized, r.Redone.Hours(), r.Still.Hours())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(t, "\n\t\tjobs\twait: mean\tmedian\t95 %\tcompletion: mean\tmedian\t95 %\tGPU fraction\tpromised\tbound\tstops\t")
	for tier := sdk.Premium; ; tier-- {
		for _, r := range results {
			of := r.Tiers[tier]
			fmt.Fprintf(t, "%v\t%s\t%d\t%v\t%v\t%v\t%v\t%v\t%v\t%.1f %%\t%.0f %%\t%.1f %%\t%d\t\n", tier, r.Name, of.Jobs,
				roundForPeople(of.Wait.Mean), roundForPeople(of.Wait.Median), roundForPeople(of.Wait.P95),
				roundForPeople(of.Complete.Mean), roundForPeople(of.Complete.Median), roundForPeople(of.Complete.P95), 100*of.Fraction, 100*of.Promised, 100*of.Bound, of.Stopped)
		}
		if tier == sdk.Basic {
			break
		}
	}
	if err := t.Flush(); err != nil || len(results) == 0 {
		return err
	}
	if err := printPromises(w, results[len(results)-1]); err != nil {
		return err
	}
	return printLosses(w, results[len(results)-1].Losses)
}

// printPromises says which promises were broken, and which of these no schedule could have kept.
func printPromises(w io.Writer, r NamedResult) error {
	for tier := sdk.Premium; tier > sdk.Basic; tier-- {
		of := r.Tiers[tier]
		var err error
		switch {
		case of.Infeasible():
			_, err = fmt.Fprintf(w, "\n%v: the promised %.0f %% cannot be kept on these nodes: no schedule passes %.1f %%; %s gives %.1f %%\n",
				tier, 100*of.Promised, 100*of.Bound, r.Name, 100*of.Fraction)
		case of.BelowPromise():
			_, err = fmt.Fprintf(w, "\n%v: %s gives %.1f %% of the promised %.0f %%; no schedule passes %.1f %%, and beside the higher jobs as they ran none passes %.1f %%\n",
				tier, r.Name, 100*of.Fraction, 100*of.Promised, 100*of.Bound, 100*of.Beside)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// roundForPeople rounds a duration for people.
func roundForPeople(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Hour:
		return d.Round(time.Minute)
	case d >= time.Minute:
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// PrintJSON prints results for programs: times in seconds, GPU time in GPU-seconds.
func PrintJSON(w io.Writer, results []NamedResult) error {
	type spreadOf struct {
		Mean   float64 `json:"mean"`
		Median float64 `json:"median"`
		P95    float64 `json:"p95"`
	}
	type tier struct {
		Jobs       int      `json:"jobs"`
		Wait       spreadOf `json:"wait"`
		Completion spreadOf `json:"completion"`
		Fraction   float64  `json:"gpu_fraction"`
		Promised   float64  `json:"promised"`
		Bound      float64  `json:"bound"`
		Beside     float64  `json:"bound_beside_higher"`
		Stops      int      `json:"stops"`

		Lost map[string]float64 `json:"lost,omitempty"`
	}
	type result struct {
		Name        string          `json:"name"`
		Utilisation float64         `json:"utilisation"`
		Makespan    float64         `json:"makespan"`
		Preempted   int             `json:"preempted"`
		Migrated    int             `json:"migrated"`
		Resized     int             `json:"resized"`
		Rejected    int             `json:"rejected"`
		Redone      float64         `json:"lost_redone"`
		Still       float64         `json:"lost_dump_restore"`
		Tiers       map[string]tier `json:"tiers"`
	}
	of := func(s Spread) spreadOf { return spreadOf{s.Mean.Seconds(), s.Median.Seconds(), s.P95.Seconds()} }
	all := make([]result, 0, len(results))
	for _, r := range results {
		one := result{
			Name: r.Name, Utilisation: r.Utilisation, Makespan: r.Makespan.Seconds(),
			Preempted: r.Preempted, Migrated: r.Migrated, Resized: r.Resized, Rejected: r.Rejected,
			Redone: r.Redone.Seconds(), Still: r.Still.Seconds(), Tiers: map[string]tier{},
		}
		for t, x := range r.Tiers {
			one.Tiers[sdk.Tier(t).String()] = tier{x.Jobs, of(x.Wait), of(x.Complete), x.Fraction, x.Promised, x.Bound, x.Beside, x.Stopped, lostByCause(r.Losses, sdk.Tier(t))}
		}
		all = append(all, one)
	}
	lines := json.NewEncoder(w)
	lines.SetIndent("", "  ")
	return lines.Encode(map[string]any{"results": all})
}
