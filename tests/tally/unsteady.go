// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Tests with real clusters on a shared machine fail by chance in some of a hundred runs. So a test that fails
// is run again, without the other tests of its part. If the test passes then, it counts as unsteady, which is
// printed at the end and is no failure. An unsteady test is still a bug of the test or of the product, and its
// first output is printed for that reason. No test is run again after a failure that cannot be chance: a data
// race, a panic, a test that hangs, or more failures than maxUnsteady.

// maxUnsteady bounds the tests of a part that are run again.
const maxUnsteady = 2

// failure is a failure with its output: of a test, of a package without a failed test (pkg alone), or of a part that
// has no tests (its name stands in pkg).
type failure struct {
	pkg, test string
	said      []string
	unsteady  bool // the test passed the second time
}

// certain matches output of failures that cannot be chance.
var certain = regexp.MustCompile(`WARNING: DATA RACE|race detected|(?m)^panic: |^fatal error: |panic: test timed out`)

// leafTests leaves out failures of tests that failed only because a subtest failed.
func leafTests(all []failure) []failure {
	return slices.DeleteFunc(slices.Clone(all), func(f failure) bool {
		return slices.ContainsFunc(all, func(g failure) bool { return g.pkg == f.pkg && strings.HasPrefix(g.test, f.test+"/") })
	})
}

// packagesOfPart matches the packages of a part's command: folders of this tree, or the list that a command prints.
var packagesOfPart = regexp.MustCompile(` \$\([^)]*\)|(?: \./\S+)+`)

// commandOfTest returns the command that runs a single test of a part's command. It returns false if the
// part's command is not go test on packages of this tree.
func commandOfTest(command string, f failure) (string, bool) {
	if !strings.Contains(command, " test -json") || len(packagesOfPart.FindAllString(command, -1)) != 1 {
		return "", false
	}
	var steps []string
	for _, s := range strings.Split(f.test, "/") {
		steps = append(steps, "^"+regexp.QuoteMeta(s)+"$")
	}
	quoted := "'" + strings.ReplaceAll(strings.Join(steps, "/"), "'", `'\''`) + "'"
	// The new flags stand behind the package. If a flag appears twice, go test uses the second.
	return packagesOfPart.ReplaceAllLiteralString(command, " "+f.pkg) + " -count=1 -run " + quoted, true
}

// tryFailedAgain runs failed tests again, unless a failure cannot be chance, and marks the tests that pass as
// unsteady.
func (t *tally) tryFailedAgain(p part, lane int) {
	failed := leafTests(t.failures)
	if len(failed) == 0 || len(failed) > maxUnsteady || t.hopeless {
		return
	}
	for _, f := range failed {
		once, ok := commandOfTest(p.command, f)
		if !ok {
			return
		}
		fmt.Fprintf(t.w, "== %s: %s %s once more\n", p.name, f.pkg, f.test)
		out, err := shellCommand(once, lane).CombinedOutput()
		second := newTally(t.part, t.w)
		second.readEvents(strings.NewReader(string(out)))
		if err != nil || second.failed > 0 || second.passed == 0 {
			return
		}
	}
	t.failed = 0
	t.unsteady = len(failed)
	for i := range t.failures {
		t.failures[i].unsteady = true
	}
}

// A failed test's output is printed again at the end, without the middle if it is long: the reason stands either in the
// first lines, before the logs that the end of a test prints, or in the last.
const (
	firstLines = 20
	lastLines  = 20
)

// printFailures prints all failures again at the end of the run, so that a reader need not search the output.
func printFailures(w io.Writer, failures []failure) {
	for _, f := range failures {
		how := "FAILED"
		if f.unsteady {
			how = "UNSTEADY, passed when it was run once more,"
		}
		said := f.said
		if cut := len(said) - firstLines - lastLines; cut > 0 {
			middle := fmt.Sprintf("    … %d lines, printed above when the test ended …\n", cut)
			said = slices.Concat(said[:firstLines], []string{middle}, said[len(said)-lastLines:])
		}
		fmt.Fprintf(w, "%s %s:\n%s", how, strings.TrimSpace(f.pkg+" "+f.test), strings.Join(said, ""))
	}
}
