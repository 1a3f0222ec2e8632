// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package style tests that the tree stays readable: limits.txt has, for each package that does not reach the goals
// yet, how many one-word function names, pronouns in comments and methods of its largest type it may have. The numbers
// are to go down. `go run ./contrib/readability` prints the counts of the whole tree, and how well-known projects do.
package style

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/singularity-slurm/singularity-slurm/contrib/readability/measure"
)

const (
	root       = "../.."
	limitsFile = "limits.txt"
)

var (
	update = flag.Bool("update", false, "lower the limits to what the packages have now; add packages that are new")
	raise  = flag.Bool("raise", false, "with -update: raise limits as well, after code has moved from package to package")
)

// quantity is something of which a package may have so much, and not more.
type quantity struct {
	name  string
	count func(*measure.Counts) int
	// goal is what a package may have without an entry in limits.txt.
	goal func(*measure.Counts) int
}

// quantities are the columns of limits.txt.
var quantities = []quantity{
	{"one-word-names", func(c *measure.Counts) int { return c.UnexportedOneWord },
		func(c *measure.Counts) int { return c.Unexported * 30 / 100 }},
	pronouns(0, 0.5), // who, whom, whose
	pronouns(1, 10),  // it
	pronouns(2, 3),   // one, ones, those, others
	pronouns(3, 0.1), // nobody, somebody
	{"methods", largestType, func(*measure.Counts) int { return 60 }},
	{"files", func(c *measure.Counts) int { return c.Files }, func(*measure.Counts) int { return 40 }},
	{"long-files", func(c *measure.Counts) int { return c.LongFiles }, func(*measure.Counts) int { return 0 }},
	{"longest-function", func(c *measure.Counts) int { return c.Percentile(100) }, func(*measure.Counts) int { return 60 }},
}

// pronouns limits the words of a group. The goal is so many of them in 1,000 words of comments.
func pronouns(group int, goal float64) quantity {
	name := measure.PronounGroups[group].Name
	first, _, _ := strings.Cut(name, "/")
	return quantity{first, func(c *measure.Counts) int { return c.Pronouns[name] },
		func(c *measure.Counts) int { return int(goal * float64(c.CommentWords) / 1000) }}
}

func largestType(c *measure.Counts) int {
	for _, largest := range c.LargestTypes(1) {
		return largest.N
	}
	return 0
}

// TestLimits compares each package with its line in limits.txt.
func TestLimits(t *testing.T) {
	packages, err := measure.Tree(root)
	if err != nil {
		t.Fatal(err)
	}
	limits := readLimits(t)
	if *update {
		writeLimits(t, newLimits(packages, limits))
		return
	}
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		for column, q := range quantities {
			count, limit := q.count(packages[folder]), q.goal(packages[folder])
			if listed := listedLimits(limits, folder); listed != nil {
				limit = max(limit, listed[column])
			}
			if count > limit {
				t.Errorf("package %s: %s: %d, and it may have %d. Use plainer words (`go run ./contrib/readability --by-package`); "+
					"after moving code: go test ./tests/style -update -raise", folder, q.name, count, limit)
			}
		}
	}
	for folder := range limits {
		if packages[folder] == nil {
			t.Logf("%s lists package %s, which does not exist: go test ./tests/style -update", limitsFile, folder)
		}
	}
}

// listedLimits returns the limits of a package. A package that is not listed has the limits of the nearest package
// above it: it may just have been made of a part of that package.
func listedLimits(limits map[string][]int, folder string) []int {
	for folder != "." {
		if listed := limits[folder]; listed != nil {
			return listed
		}
		folder = filepath.Dir(folder)
	}
	return nil
}

// newLimits returns the limits that limits.txt is to have: of each package that exceeds a goal. A limit is lowered to
// what the package has, and raised only with -raise or if the package has not been listed.
func newLimits(packages map[string]*measure.Counts, old map[string][]int) map[string][]int {
	limits := make(map[string][]int)
	for folder, counts := range packages {
		var limit []int
		exceeds := false
		for column, q := range quantities {
			n := q.count(counts)
			if listed := old[folder]; listed != nil && !*raise {
				n = min(n, listed[column])
			}
			exceeds = exceeds || n > q.goal(counts)
			limit = append(limit, n)
		}
		if exceeds {
			limits[folder] = limit
		}
	}
	return limits
}

// readLimits reads limits.txt: the limits of each listed package, in the order of quantities.
func readLimits(t *testing.T) map[string][]int {
	t.Helper()
	text, err := os.ReadFile(limitsFile)
	if err != nil {
		t.Fatal(err)
	}
	limits := make(map[string][]int)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 1+len(quantities) {
			t.Fatalf("%s: %q has %d fields, want %d", limitsFile, lines.Text(), len(fields), 1+len(quantities))
		}
		for _, field := range fields[1:] {
			var limit int
			if _, err := fmt.Sscan(field, &limit); err != nil {
				t.Fatalf("%s: %q: %v", limitsFile, lines.Text(), err)
			}
			limits[fields[0]] = append(limits[fields[0]], limit)
		}
	}
	return limits
}

func writeLimits(t *testing.T, limits map[string][]int) {
	t.Helper()
	var text bytes.Buffer
	fmt.Fprintln(&text, "# What a package may have at most, where it does not reach the goals of style_test.go yet.")
	fmt.Fprintln(&text, "# The numbers may only go down: go test ./tests/style -update")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "# package")
	for _, q := range quantities {
		fmt.Fprint(table, "\t", q.name)
	}
	fmt.Fprintln(table)
	for _, folder := range slices.Sorted(maps.Keys(limits)) {
		fmt.Fprint(table, folder)
		for _, limit := range limits[folder] {
			fmt.Fprint(table, "\t", limit)
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(limitsFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
