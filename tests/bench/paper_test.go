//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/page"
)

// paperPart measures the numbers of a table or a figure of the paper. docs/paper.md has a place for its text.
type paperPart struct {
	name    string
	measure func(*testing.T) string
}

var paperParts = []paperPart{
	{"table-3", measureProxyCost},
	{"table-4", measureSizes},
	{"table-5", measureLatencies},
	{"figure-4", measureSlicing},
}

// TestPaper measures the tables of the paper, or with -run 'TestPaper/^table-3' some of them. With -table, each table
// is written to its place in the file that -table names. No figure fails the test.
func TestPaper(t *testing.T) {
	measured := 0
	var names []string
	for _, part := range paperParts {
		names = append(names, part.name)
		t.Run(part.name, func(t *testing.T) {
			measured++
			began, before := time.Now(), readLoad()
			text := fmt.Sprintf("%s\n\nTook %s; load %s before, %s after.\n", strings.TrimSuffix(part.measure(t), "\n"),
				time.Since(began).Round(time.Second), before, readLoad())
			t.Log("\n" + text)
			if *tableFile == "" || t.Failed() {
				return
			}
			if err := page.Write(filepath.Join(root, *tableFile), "make paper-tables TABLES="+part.name, text); err != nil {
				t.Error(err)
			}
		})
	}
	if measured == 0 {
		t.Errorf("there is no such table; want some of %s", strings.Join(names, ", "))
	}
}

// formatSpread returns the median of values, and the two values between which half of them are.
func formatSpread(values []float64, format string) string {
	if len(values) == 1 {
		return fmt.Sprintf(format+" (once)", values[0])
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", medianOf(values), quantileOf(values, 0.25), quantileOf(values, 0.75))
}

// measureProxyCost returns Table 3. The benchmark makes the calls of a training in the device server's own process, in turns
// with the training itself.
func measureProxyCost(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| workload | mini-batches a run | base | through the proxy | of pairs (half of them between) | processor time |\n| --- | --- | --- | --- | --- | --- |\n")
	all := runBenchmark(t, "./proxyd/device/server", "Training", "1x")
	for _, name := range []string{"mlp", "gpt"} {
		m, ok := all["BenchmarkTraining/"+name]
		if !ok {
			t.Fatalf("BenchmarkTraining says nothing of %s", name)
		}
		change := func(ratio float64) string { return formatPercent(100 * (ratio - 1)) }
		fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %s (%s to %s) | %s |\n", name, m["steps"],
			formatMilliseconds(m["direct-ms"]/1e3/m["steps"]), formatMilliseconds(m["shipped-ms"]/1e3/m["steps"]),
			change(m["shipped/direct"]), change(m["from"]), change(m["to"]), change(m["of-processors"]))
	}
	return b.String()
}
