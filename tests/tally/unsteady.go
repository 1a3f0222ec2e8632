// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// Real clusters on a machine that is shared with others have tests that fail once in some
// hundred runs. A test that fails is therefore run once more, alone; if it passes then it is
// counted as unsteady, which is said at the end and is no failure. It is a bug of the test or of
// the product all the same: its first output is there to be read. There is no second chance
// for what cannot be chance: a data race, a panic, a test that hangs, more than a few at once.

// maxUnsteady is how many tests of a part may be run once more.
const maxUnsteady = 2

// failure is a test that failed, with the lines that it said.
type failure struct {
	pkg, test string
	said      []string
	unsteady  bool // it passed the second time
}

// certain are words of a failure that no second run would take back.
var certain = regexp.MustCompile(`WARNING: DATA RACE|race detected|(?m)^panic: |^fatal error: |panic: test timed out`)

// leafTests are the failures that are not of a test only because one in it failed.
func leafTests(all []failure) []failure {
	return slices.DeleteFunc(slices.Clone(all), func(f failure) bool {
		return slices.ContainsFunc(all, func(g failure) bool { return g.pkg == f.pkg && strings.HasPrefix(g.test, f.test+"/") })
	})
}

// commandOfTest is the command that runs one test of a part's command alone, or false if that is no
// command of go test on folders of this tree.
func commandOfTest(command string, f failure) (string, bool) {
	folders := regexp.MustCompile(` \./\S+`)
	if !strings.Contains(command, " test -json") || len(folders.FindAllString(command, -1)) != 1 {
		return "", false
	}
	var steps []string
	for _, s := range strings.Split(f.test, "/") {
		steps = append(steps, "^"+regexp.QuoteMeta(s)+"$")
	}
	quoted := "'" + strings.ReplaceAll(strings.Join(steps, "/"), "'", `'\''`) + "'"
	// What flags go test itself has may stand behind the package; of two the last counts.
	return folders.ReplaceAllLiteralString(command, " "+f.pkg) + " -count=1 -run " + quoted, true
}

// tryFailedAgain runs the tests that failed once more, unless that would prove nothing, and takes
// those that pass from the failures.
func (t *tally) tryFailedAgain(name, command string) {
	failed := leafTests(t.failures)
	if len(failed) == 0 || len(failed) > maxUnsteady || t.hopeless {
		return
	}
	for _, f := range failed {
		once, ok := commandOfTest(command, f)
		if !ok {
			return
		}
		fmt.Fprintf(t.w, "== %s: %s %s once more, alone\n", name, f.pkg, f.test)
		out, err := exec.Command("sh", "-c", once).CombinedOutput()
		second := newTally(t.w)
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

// lastLines is how much of what a test said is told again at the end.
const lastLines = 40

// printFailures says at the end of all once more what failed, where nobody has to look for it.
func printFailures(w io.Writer, failures []failure) {
	for _, f := range failures {
		how := "FAILED"
		if f.unsteady {
			how = "UNSTEADY, passed when it was run once more,"
		}
		said := f.said[max(0, len(f.said)-lastLines):]
		fmt.Fprintf(w, "%s %s %s:\n%s", how, f.pkg, f.test, strings.Join(said, ""))
	}
}
