// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// shownJobs is how many jobs of a tier are shown.
const shownJobs = 5

// printLosses shows how the GPU time that the jobs of each tier asked for was used and lost, and, of the tiers with a
// promised GPU fraction, the jobs that came to their end latest (JobLoss.Late).
func printLosses(w io.Writer, jobs []JobLoss) error {
	if len(jobs) == 0 {
		return nil
	}
	var tiers [sdk.Tiers]JobLoss
	for t := range tiers {
		tiers[t] = sumLosses(jobs, sdk.Tier(t))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, of func(*JobLoss) float64) {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t\n", name, of(&tiers[sdk.Premium]), of(&tiers[sdk.Standard]), of(&tiers[sdk.Basic]))
	}
	fmt.Fprintf(t, "\nGPU-hours\t%v\t%v\t%v\t\n", sdk.Premium, sdk.Standard, sdk.Basic)
	row("asked for, from submission to end", func(l *JobLoss) float64 { return l.Asked })
	row("work", func(l *JobLoss) float64 { return l.Work })
	for c := range Cause(Causes) {
		row(c.String(), func(l *JobLoss) float64 { return l.Lost[c] })
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for tier := sdk.Premium; tier > sdk.Basic; tier-- {
		if err := printLatest(w, jobs, tier); err != nil {
			return err
		}
	}
	return nil
}

// printLatest shows the jobs of a tier that came to their end latest, by JobLoss.Late.
func printLatest(w io.Writer, jobs []JobLoss, tier sdk.Tier) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\n%v job\tGPUs\tasked for\twork\tleast beside higher\t  largest causes\n", tier)
	shown := 0
	for i := range jobs {
		l := &jobs[i]
		if l.Tier != tier {
			continue
		}
		fmt.Fprintf(t, "%d\t%d\t%.1f\t%.1f\t%.1f\t  %s\n", l.Job, l.GPUs, l.Asked, l.Work, l.Least, largestCauses(l))
		if shown++; shown == shownJobs {
			break
		}
	}
	if shown == 0 {
		return nil
	}
	return t.Flush()
}

// largestCauses names the two causes by which a job lost most.
func largestCauses(l *JobLoss) string {
	lost := l.Lost
	var named []string
	for range 2 {
		most := Cause(0)
		for c := range Cause(Causes) {
			if lost[c] > lost[most] {
				most = c
			}
		}
		if lost[most] < 0.05 {
			break
		}
		named = append(named, fmt.Sprintf("%v %.1f", most, lost[most]))
		lost[most] = 0
	}
	return strings.Join(named, ", ")
}

// lostByCause returns the losses of a tier's jobs, in GPU-seconds; nil unless losses were counted.
func lostByCause(jobs []JobLoss, t sdk.Tier) map[string]float64 {
	if len(jobs) == 0 {
		return nil
	}
	lost := map[string]float64{}
	for c, hours := range sumLosses(jobs, t).Lost {
		lost[causeKeys[c]] = hours * 3600
	}
	return lost
}
