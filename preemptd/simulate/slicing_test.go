// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/tests/page"
)

// newSimulated is a job of a trace as a simulation has it.
func newSimulated(j *Job) *job { return &job{Job: j, sharing: sharingOf(j)} }

// countedRow is a row of the table that make slicing writes.
type countedRow struct {
	workload, way      string
	ranks              int
	switches, overhead float64 // in each mini-batch; in percent over the ideal
}

// countedRows reads the table of docs/splicing.md.
func countedRows(t *testing.T) (rows []countedRow) {
	t.Helper()
	text, err := page.Read(filepath.Join("..", "..", "docs", "splicing.md"), "make slicing")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, " | ")
		if len(cells) < 8 {
			continue
		}
		var errs [3]error
		row := countedRow{workload: strings.TrimPrefix(cells[0], "| "), way: cells[2]}
		row.ranks, errs[0] = strconv.Atoi(cells[1])
		row.switches, errs[1] = strconv.ParseFloat(cells[3], 64)
		overhead, _, _ := strings.Cut(cells[6], " %")
		row.overhead, errs[2] = strconv.ParseFloat(overhead, 64)
		if errs == [3]error{} {
			rows = append(rows, row)
		}
	}
	return rows
}

// TestSlicingTime: the model comes near the counts of make slicing (docs/splicing.md), by the number of meetings that
// were counted. With two meetings, as policies take it, it comes near those of mlp, which meets twice.
func TestSlicingTime(t *testing.T) {
	// Of the ways in which memory moves, the rows count in which switches move memory: see docs/splicing.md.
	const large = "mlp --extra 1000000"
	needs := map[string]struct{ memory, alike float64 }{"swap": {1, 0}, "alias": {1, 8.0 / 9}} // of its nine blocks, eight are alike
	checked := map[string]int{}
	for _, row := range countedRows(t) {
		need, moves := needs[row.way]
		if row.way == "splice" || moves && row.workload != large {
			continue
		}
		checked[row.way]++
		j := &Job{GPUs: row.ranks, MinGPUs: 1, MaxGPUs: row.ranks, Nodes: 1, Memory: need.memory, Alike: need.alike}
		check := func(meetings, within float64) {
			j.Meetings = meetings
			if got := 100 * (sharingOf(j).Time(1) - 1); !(got <= row.overhead*within && got >= row.overhead/within) {
				t.Errorf("%s, %d ranks, %s, %.1f meetings: +%.1f %%, counted +%.1f %%", row.workload, row.ranks, row.way, meetings, got, row.overhead)
			}
		}
		check(row.switches/float64(row.ranks-1), 1.3)
		if row.workload == "mlp" {
			check(0, 2)
		}
	}
	if checked["resident"] < 20 || checked["swap"] != 3 || checked["alias"] != 3 {
		t.Errorf("rows of the table that were checked: %v", checked)
	}
	uneven := &Job{GPUs: 4, MinGPUs: 1, MaxGPUs: 4, Nodes: 1}
	if got := sharingOf(uneven).Time(3); math.Abs(got-1.5) > 0.02 {
		t.Errorf("4 ranks on 3 GPUs take %.3f times 4/3: want the time of 4 ranks on 2 GPUs", got)
	}
	if got := newSimulated(uneven).paceOn(4); got != fullPace {
		t.Errorf("the pace on its own GPUs is %d", got)
	}
}

// TestWorkAndTime: work that was given its time is done, and not done a millisecond earlier.
func TestWorkAndTime(t *testing.T) {
	for gpus := 1; gpus <= 64; gpus++ {
		for _, work := range []int64{1, 999, 12_345_678, 64 * 48 * 3600_000} {
			j := newSimulated(&Job{GPUs: 16, MinGPUs: 1, MaxGPUs: 64, Nodes: 1, Memory: 0.5, Alike: 0.5})
			took := j.timeFor(work, gpus)
			if j.workIn(took, gpus) < work || took > 0 && j.workIn(took-1, gpus) >= work {
				t.Fatalf("%d on %d GPUs: %d ms do %d", work, gpus, took, j.workIn(took, gpus))
			}
		}
	}
}

// TestNoSwapping: a job is not shrunk to a size at which its ranks would have to be swapped, but is if the
// ranks have most of their memory alike.
func TestNoSwapping(t *testing.T) {
	program := buildPolicy(t, "tiers")
	for alike, shrinks := range map[string]bool{"0": false, "0.95": true} {
		jobs, err := ReadCSV(strings.NewReader("id,submit,duration,gpus,min_gpus,memory,alike,qos\n1,0,4000,8,2,0.9," + alike + ",basic\n2,595,600,4,,,,premium\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := newSimulated(&jobs[0]).leastGPUs() < 8; got != shrinks {
			t.Errorf("alike %s: %d GPUs at least", alike, newSimulated(&jobs[0]).leastGPUs())
		}
		res, err := Run(t.Context(), newConfig(1, 8, tiersPolicy(t, program)), jobs)
		if err != nil {
			t.Fatal(err)
		}
		if (res.Resized > 0) != shrinks || res.Tiers[sdk.Premium].Wait.Mean > time.Minute {
			t.Errorf("alike %s: resized %d times, preempted %d times; premium waits %v", alike, res.Resized, res.Preempted, res.Tiers[sdk.Premium].Wait.Mean)
		}
	}
	if _, err := ReadCSV(strings.NewReader("id,submit,duration,gpus,meetings\n1,0,10,1,-1\n")); err == nil || !strings.Contains(err.Error(), "meetings -1: want 0 to 1000") {
		t.Errorf("ReadCSV of -1 meetings: %v, want an error", err)
	}
	for _, bad := range []string{"1.5,0", "-1,0", "0.5,2", "NaN,0"} {
		if _, err := ReadCSV(strings.NewReader("id,submit,duration,gpus,memory,alike\n1,0,10,1," + bad + "\n")); err == nil || !strings.Contains(err.Error(), "want parts from 0 to 1") {
			t.Errorf("ReadCSV of memory and alike %s: %v, want an error", bad, err)
		}
	}
}
