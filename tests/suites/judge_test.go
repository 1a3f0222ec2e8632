// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// verdict is the judgement of a program's run.
type verdict string

const (
	right    verdict = "right"
	refused  verdict = "refused by name"
	wrong    verdict = "wrong"
	hang     verdict = "hang"
	tooSlow  verdict = "too slow"
	notBuilt verdict = "not built"
	graphics verdict = "needs graphics"
)

// verdicts are all verdicts, in the order of the page's columns.
var verdicts = []verdict{right, refused, wrong, hang, tooSlow, notBuilt, graphics}

// outcome is a row of the page.
type outcome struct {
	verdict verdict
	by      string // the evidence for the verdict
	took    time.Duration
	why     string
}

// The kinds of evidence for a verdict.
const (
	byWords    = "its words"
	byOutput   = "its output"
	byExitCode = "its exit code"
)

// ending has the results of a run.
type ending struct {
	output   string // standard output and standard error
	exit     int
	took     time.Duration
	late     bool // the run was ended
	idle     bool // because no process ran any more, not because its time was over
	stuck    bool // the program did not end by SIGTERM
	executed uint64
	missed   []string // calls that are not covered, by the device server's status
	faults   []string // errors that have ended a process's use of devices
}

// serverDied is proxyd's message that the program has lost its devices.
const serverDied = "proxyd: the device server has died"

// shimSays begins the lines that the shim writes on standard error, which are no words of the program.
const shimSays = "singularity: "

// judgeRun returns the outcome of a run. expected is the suite's own output of the program, nil if there is none.
func (r rules) judgeRun(e ending, expected *string) outcome {
	o := outcome{took: e.took, by: byExitCode}
	line := func(pattern *regexp.Regexp) string {
		if pattern == nil {
			return ""
		}
		for l := range strings.Lines(e.output) {
			if pattern.MatchString(l) && !strings.Contains(l, shimSays) {
				return strings.TrimSpace(l)
			}
		}
		return ""
	}
	said := line(r.wrong)
	switch declined, found := line(r.declines), line(r.right); {
	case strings.Contains(e.output, serverDied):
		o.verdict, o.why = wrong, line(regexp.MustCompile(regexp.QuoteMeta(serverDied)))
	case e.stuck:
		o.verdict, o.why = hang, "it does not end when it is told to"
	case e.late && e.idle:
		o.verdict, o.why = hang, "nothing of it runs any more"
	case e.late:
		o.verdict, o.why = tooSlow, fmt.Sprintf("%d million instructions of warps in that time", e.executed/1e6)
	case e.exit == 0 && said == "" && found != "":
		o.verdict, o.by = right, byWords
	case declined != "":
		o.verdict, o.by, o.why = refused, byWords, declined
	case e.exit != 0 || said != "":
		o.verdict, o.why = wrong, fmt.Sprintf("exit code %d", e.exit)
		if said != "" {
			o.by, o.why = byWords, said
		}
		if len(e.faults) > 0 {
			o.why += "; " + strings.Join(e.faults, "; ")
		}
		if len(e.missed) > 0 {
			o.verdict, o.why = refused, strings.Join(e.missed, "; ")
		}
	case expected != nil:
		o.verdict, o.by, o.why = right, byOutput, r.firstDifference(e.output, *expected)
		if o.why != "" {
			o.verdict = wrong
		}
	case len(e.missed) > 0:
		o.verdict, o.why = refused, strings.Join(e.missed, "; ")
	default:
		o.verdict = right
	}
	return o
}

// firstDifference names the first line in which an output differs from the expected output, without the lines to ignore.
func (r rules) firstDifference(output, expected string) string {
	lines := func(text string) []string {
		var kept []string
		for l := range strings.Lines(text) {
			if l = strings.TrimSpace(l); r.ignore == nil || !r.ignore.MatchString(l) {
				kept = append(kept, l)
			}
		}
		return kept
	}
	got, want := lines(output), lines(expected)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			return fmt.Sprintf("line %d is %q, and none is expected", i+1, got[i])
		case i >= len(got):
			return fmt.Sprintf("line %d is missing, and %q is expected", i+1, want[i])
		case got[i] != want[i]:
			return fmt.Sprintf("line %d is %q, and %q is expected", i+1, got[i], want[i])
		}
	}
	return ""
}

func TestJudge(t *testing.T) {
	words := rules{right: regexp.MustCompile("PASSED"), wrong: regexp.MustCompile("FAILED|error"), declines: regexp.MustCompile("needs .* GPUs")}
	expected := "sum 3\ntime 9 s\n"
	ignore := rules{ignore: regexp.MustCompile("^time")}
	for _, c := range []struct {
		name     string
		rules    rules
		ending   ending
		expected *string
		want     outcome
	}{
		{"words", words, ending{output: "Test PASSED\n"}, nil, outcome{verdict: right, by: byWords}},
		{"words, and an exit code", words, ending{output: "Test PASSED\n", exit: 1}, nil, outcome{verdict: wrong, by: byExitCode, why: "exit code 1"}},
		{"no words", words, ending{output: "done\n"}, nil, outcome{verdict: right, by: byExitCode}},
		{"wrong words", words, ending{output: "a PASSED\n b FAILED\n"}, nil, outcome{verdict: wrong, by: byWords, why: "b FAILED"}},
		{"refused", words, ending{output: "error 801\n", exit: 1, missed: []string{"cuTexture", "cuSurface"}}, nil, outcome{verdict: refused, by: byWords, why: "cuTexture; cuSurface"}},
		{"right, though something is missed", words, ending{output: "PASSED", missed: []string{"cuTexture"}}, nil, outcome{verdict: right, by: byWords}},
		{"no words, and something is missed", words, ending{output: "done\n", missed: []string{"cuTexture"}}, nil, outcome{verdict: refused, by: byExitCode, why: "cuTexture"}},
		{"the shim's words", words, ending{output: shimSays + "cuX needs 8 GPUs\nPASSED\n"}, nil, outcome{verdict: right, by: byWords}},
		{"the shim's words alone", words, ending{output: "Running." + shimSays + "cuX needs 8 GPUs\n", missed: []string{"cuX"}}, nil, outcome{verdict: refused, by: byExitCode, why: "cuX"}},
		{"declines", words, ending{output: "needs 8 GPUs\n", exit: 2}, nil, outcome{verdict: refused, by: byWords, why: "needs 8 GPUs"}},
		{"a fault", words, ending{exit: 1, faults: []string{"kernel k: bad address"}}, nil, outcome{verdict: wrong, by: byExitCode, why: "exit code 1; kernel k: bad address"}},
		{"the server died", words, ending{output: "PASSED\n" + serverDied + " (signal)\n", missed: []string{"x"}}, nil, outcome{verdict: wrong, by: byExitCode, why: serverDied + " (signal)"}},
		{"too slow", words, ending{late: true, executed: 7e6}, nil, outcome{verdict: tooSlow, by: byExitCode, why: "7 million instructions of warps in that time"}},
		{"idle", words, ending{late: true, idle: true, executed: 7e6, took: time.Minute}, nil, outcome{verdict: hang, by: byExitCode, took: time.Minute, why: "nothing of it runs any more"}},
		{"ignores signals", words, ending{late: true, stuck: true, executed: 1}, nil, outcome{verdict: hang, by: byExitCode, why: "it does not end when it is told to"}},
		{"the expected output", ignore, ending{output: "sum 3\ntime 5 s\n"}, &expected, outcome{verdict: right, by: byOutput}},
		{"another output", ignore, ending{output: "time 5 s\nsum 4\n"}, &expected, outcome{verdict: wrong, by: byOutput, why: `line 1 is "sum 4", and "sum 3" is expected`}},
		{"too little output", rules{}, ending{output: "sum 3\n"}, &expected, outcome{verdict: wrong, by: byOutput, why: `line 2 is missing, and "time 9 s" is expected`}},
		{"too much output", ignore, ending{output: "sum 3\nsum 4\n"}, &expected, outcome{verdict: wrong, by: byOutput, why: `line 2 is "sum 4", and none is expected`}},
	} {
		if got := c.rules.judgeRun(c.ending, c.expected); got != c.want {
			t.Errorf("%s: judgeRun = %+v, want %+v", c.name, got, c.want)
		}
	}
}

// mapFS is a file system of empty files.
func mapFS(names ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, name := range names {
		m[name] = &fstest.MapFile{}
	}
	return m
}
