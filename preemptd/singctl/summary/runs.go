// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run is a run of a job as slurmdbd keeps it; a job that is requeued has several.
type Run struct {
	User      string
	State     string
	Submitted time.Time // or requeued
	Began     time.Time // zero: not yet
	Ended     time.Time // zero: not yet
	Elapsed   time.Duration
	Nodes     string // as Slurm abbreviates them; "": no nodes yet
	GPUs      int
	Comment   string // the administrator's, where proxyd writes how the run ended
	Leased    int    // the most GPUs that leases lent at a time, beside the own (AddLeases)
}

// Columns are the columns of sacct that ParseRuns reads. Only the last may have a | in it.
const Columns = "User,State,Submit,Start,End,ElapsedRaw,NodeList,AllocTRES,AdminComment"

// ParseRuns reads sacct's output with --parsable2 and Columns, its times as seconds since 1970
// (SLURM_TIME_FORMAT=%s). The runs are in the order in which they were submitted.
func ParseRuns(printed string) []Run {
	wanted := strings.Count(Columns, ",") + 1
	var runs []Run
	for line := range strings.Lines(printed) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", wanted)
		if len(f) < wanted { // the rest of a comment with several lines
			continue
		}
		elapsed, err := strconv.ParseInt(f[5], 10, 64)
		if err != nil {
			continue
		}
		r := Run{
			User: f[0], State: f[1], Submitted: parseTime(f[2]), Began: parseTime(f[3]), Ended: parseTime(f[4]),
			Elapsed: time.Duration(elapsed) * time.Second, Nodes: f[6], GPUs: countGPUs(f[7]), Comment: f[8],
		}
		if r.Nodes == "None assigned" {
			r.Nodes = ""
		}
		runs = append(runs, r)
	}
	slices.SortStableFunc(runs, func(x, y Run) int {
		return cmp.Or(x.Submitted.Compare(y.Submitted), x.Began.Compare(y.Began))
	})
	return runs
}

// parseTime returns the zero time for "Unknown" and "None".
func parseTime(text string) time.Time {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// countGPUs counts the GPUs in "billing=4,gres/gpu=2,gres/gpu:a100=2,node=1". Sites that track the
// types alone have no sum.
func countGPUs(tres string) int {
	typed := 0
	for item := range strings.SplitSeq(tres, ",") {
		name, value, _ := strings.Cut(item, "=")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case name == "gres/gpu":
			return n
		case strings.HasPrefix(name, "gres/gpu:"):
			typed += n
		}
	}
	return typed
}

// Totals are sums over the runs of a job.
type Totals struct {
	Runs    int // that began
	Moves   int // runs on other nodes than the run before
	Ran     time.Duration
	Waited  time.Duration // until it began, and between its runs
	GPUTime time.Duration // each GPU counted by itself
}

// AddRuns adds up the runs of a job until now.
func AddRuns(runs []Run, now time.Time) Totals {
	var t Totals
	nodes := ""
	var ended time.Time // the run before
	for _, r := range runs {
		until := r.Began
		if until.IsZero() {
			until = r.Ended // cancelled while it waited
		}
		if until.IsZero() {
			until = now
		}
		// A job that Slurm took to be over, and that was requeued later, waited meanwhile.
		from := r.Submitted
		if !ended.IsZero() && ended.Before(from) {
			from = ended
		}
		if ended = r.Ended; !from.IsZero() {
			t.Waited += max(until.Sub(from), 0)
		}
		if r.Began.IsZero() || r.Nodes == "" {
			continue
		}
		t.Runs++
		t.Ran += r.Elapsed
		t.GPUTime += r.Elapsed * time.Duration(r.GPUs)
		if nodes != "" && nodes != r.Nodes {
			t.Moves++
		}
		nodes = r.Nodes
	}
	return t
}
