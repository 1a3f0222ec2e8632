// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package style tests that the tree stays readable: limits.txt has, for each package that does not reach the goals
// yet, how many of its function names may be a single word, how many of its types may be named by an adjective, a
// participle or a pronoun, how many pronouns 1,000 words of its comments may have, and how large its types, files and
// functions may be. The numbers are to go down. `go run ./contrib/readability` prints the counts of the whole tree, and
// how well-known projects do.
package style

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
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

// quantity is a property of a package that has a limit.
type quantity struct {
	name  string
	count func(*measure.Counts) int
	// goal is the limit of a package that limits.txt does not list.
	goal float64
	// A limit is a number for each `per` units of the count that base returns, so that a larger package may have more.
	// Where base is nil, the limit is the number itself.
	per  int
	base func(*measure.Counts) int
	// advice tells how to mend a package that has too many.
	advice string
	// words are the words that are counted; nil: no words.
	words []string
}

// plainerWords is the advice about names and comments.
const plainerWords = "use plainer words (`go run ./contrib/readability --by-package`)"

// quantities are the columns of limits.txt.
var quantities = []quantity{
	{name: "one-word-names-%", goal: 15, count: func(c *measure.Counts) int { return c.UnexportedOneWord },
		per: 100, base: func(c *measure.Counts) int { return c.Unexported }, advice: plainerWords},
	{name: "riddled-types-%", goal: 0, count: func(c *measure.Counts) int { return c.RiddledTypes },
		per: 100, base: func(c *measure.Counts) int { return c.Types },
		advice: "name each type by a noun, not by a lone adjective, participle, pronoun or verb: see measure.IsRiddle"},
	pronounQuantity(0, 0.3), // who, whom, whose
	pronounQuantity(1, 10),  // it
	pronounQuantity(2, 3),   // one, ones, those, others
	pronounQuantity(3, 0.1), // nobody, somebody
	pronounQuantity(4, 2),   // what, whatever
	pronounQuantity(5, 4),   // nothing, none
	{name: "methods", goal: 60, count: largestType,
		advice: "give a part of the type with the most methods to a type of its own"},
	{name: "files", goal: 40, count: func(c *measure.Counts) int { return c.Files },
		advice: "join files that belong together, or make a part a package of its own"},
	{name: "long-files", goal: 0, count: func(c *measure.Counts) int { return c.LongFiles },
		advice: fmt.Sprintf("a file has at most %d lines (`wc -l`): split what has more", measure.LongFile)},
	{name: "longest-function", goal: 60, count: func(c *measure.Counts) int { return c.Percentile(100) },
		advice: "it has so many lines: split it where a part has a name of its own"},
}

// pronounQuantity limits the words of a group: so many of them in 1,000 words of comments.
func pronounQuantity(group int, goal float64) quantity {
	name := measure.PronounGroups[group].Name
	first, _, _ := strings.Cut(name, "/")
	return quantity{name: first, goal: goal, count: func(c *measure.Counts) int { return c.Pronouns[name] },
		per: 1000, base: func(c *measure.Counts) int { return c.CommentWords }, advice: plainerWords, words: measure.PronounGroups[group].Words}
}

// maxPlaces bounds the places of words that a failure lists.
const maxPlaces = 20

// listWords returns where the comments of a package have words: "FILE:LINE: WORD", each on a line of its own.
func listWords(t *testing.T, folder string, words []string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			for _, comment := range group.List {
				line := files.Position(comment.Pos()).Line
				for i, text := range strings.Split(comment.Text, "\n") {
					for _, word := range measure.WordsOf(text) {
						if slices.Contains(words, word) {
							places = append(places, fmt.Sprintf("\n  %s:%d: %s", strings.TrimPrefix(path, root+"/"), line+i, word))
						}
					}
				}
			}
		}
	}
	return strings.Join(places[:min(len(places), maxPlaces)], "")
}

// allowedCount returns how many a package may have under a limit.
func (q *quantity) allowedCount(limit float64, c *measure.Counts) int {
	if q.base == nil {
		return int(limit)
	}
	return int(limit * float64(q.base(c)) / float64(q.per))
}

// lowestLimit returns the lowest whole limit that a package does not exceed.
func (q *quantity) lowestLimit(c *measure.Counts) int {
	count := q.count(c)
	if q.base == nil || q.base(c) == 0 {
		return count
	}
	return (count*q.per + q.base(c) - 1) / q.base(c)
}

func largestType(c *measure.Counts) int {
	for _, largest := range c.LargestTypes(1) {
		return largest.N
	}
	return 0
}

// TestLimits compares each package with its line in limits.txt.
func TestLimits(t *testing.T) {
	packages, err := measure.Tree(root, measure.Go)
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
			limit := q.goal
			if listed := listedLimits(limits, folder); listed != nil {
				limit = max(limit, float64(listed[column]))
			}
			if count, allowed := q.count(packages[folder]), q.allowedCount(limit, packages[folder]); count > allowed {
				t.Errorf("package %s: %s: %d, and there may be %d: %s; after moving code: go test ./tests/style -update -raise%s",
					folder, q.name, count, allowed, q.advice, listWords(t, folder, q.words))
			}
		}
	}
	for folder := range limits {
		if packages[folder] == nil {
			t.Logf("%s lists package %s, which does not exist: go test ./tests/style -update", limitsFile, folder)
		}
	}
}

// TestOtherKinds limits the shares of names of a single word and of riddled types, and pronouns, in test files and in
// C: in the whole tree, not by package. The limits are to go down with the counts of `go run ./contrib/readability`.
func TestOtherKinds(t *testing.T) {
	for _, kind := range []struct {
		name   string
		flag   string
		kind   measure.Kind
		limits [8]float64 // of the first quantities
	}{
		{"test files", "go-test", measure.GoTest, [8]float64{10.5, 15.5, 0.25, 4.6, 2.4, 0.25, 0.5, 0.5}},
		{"C", "c", measure.C, [8]float64{2, 0, 0.25, 7, 3, 0, 1, 1}},
		{"C of tests", "c-test", measure.CTest, [8]float64{2, 0, 0.25, 4, 2, 0.25, 2, 2}},
	} {
		packages, err := measure.Tree(root, kind.kind)
		if err != nil {
			t.Fatal(err)
		}
		sum := measure.Sum(packages)
		for column, limit := range kind.limits {
			if q := quantities[column]; q.count(sum) > q.allowedCount(limit, sum) {
				t.Errorf("%s: %s: %d, and there may be %d. %s (`go run ./contrib/readability --kind %s --by-package`)",
					kind.name, q.name, q.count(sum), q.allowedCount(limit, sum), q.advice, kind.flag)
			}
		}
	}
}

// listedLimits returns the limits of a package. A package that is not listed has the limits of the nearest package
// above: a new package may just have been made of a part of that package.
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
// the package's count, and raised only with -raise or if the package has not been listed.
func newLimits(packages map[string]*measure.Counts, old map[string][]int) map[string][]int {
	limits := make(map[string][]int)
	for folder, counts := range packages {
		var limit []int
		exceeds := false
		for column, q := range quantities {
			lowest := q.lowestLimit(counts)
			if listed := old[folder]; listed != nil && !*raise {
				lowest = min(lowest, listed[column])
			}
			exceeds = exceeds || q.count(counts) > q.allowedCount(q.goal, counts)
			limit = append(limit, lowest)
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
				t.Fatalf("%s: line %q: %v", limitsFile, lines.Text(), err)
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
	fmt.Fprintln(&text, "# Pronouns are counted in 1,000 words of comments.")
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
