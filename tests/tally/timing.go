// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// slowest bounds the rows of the tables of packages and of tests.
const slowest = 12

// timedPart is a part, package or test, with the time that it took.
type timedPart struct {
	name string
	took time.Duration
}

// timing collects times. The time of a test is part of its package's time, which is part of its part's time.
type timing struct{ parts, packages, tests []timedPart }

// addEvent adds the time of a package that has ended, or of a test that has ended and is no subtest.
func (t *timing) addEvent(e event) {
	took := time.Duration(e.Elapsed * float64(time.Second))
	name := strings.TrimPrefix(e.Package, module)
	switch {
	case e.Test == "":
		t.packages = append(t.packages, timedPart{name, took})
	case !strings.Contains(e.Test, "/"):
		t.tests = append(t.tests, timedPart{path.Base(name) + "." + e.Test, took})
	}
}

// module begins the names of all packages.
const module = "github.com/singularity-slurm/singularity-slurm/"

// printTimes prints the parts in their order, and the slowest packages and tests. Tests of a package that run side by side
// count in full each.
func (t *timing) printTimes(w io.Writer, all time.Duration) {
	fmt.Fprintf(w, "\nwhere %s went\n", all.Round(time.Second))
	printTable(w, "part", t.parts)
	printTable(w, "slowest packages", takeSlowest(t.packages))
	printTable(w, "slowest tests", takeSlowest(t.tests))
}

func takeSlowest(all []timedPart) []timedPart {
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b timedPart) int { return cmp.Compare(b.took, a.took) })
	return sorted[:min(len(sorted), slowest)]
}

func printTable(w io.Writer, title string, rows []timedPart) {
	if len(rows) == 0 {
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "  %s\n", title)
	for _, r := range rows {
		fmt.Fprintf(tw, "%.1f s\t  \t%s\n", r.took.Seconds(), r.name)
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
}
