// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
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
	var reports *regexp.Regexp // of a call that was refused
	if len(e.missed) > 0 {
		reports = r.refusal
	}
	refusal := e.findLine(reports, nil)
	said := e.findLine(r.wrong, reports)
	declined := e.findLine(r.declines, nil)
	switch {
	case strings.Contains(e.output, serverDied):
		o.verdict, o.why = wrong, e.findLine(regexp.MustCompile(regexp.QuoteMeta(serverDied)), nil)
	case e.stuck:
		o.verdict, o.why = hang, "it does not end when it is told to"
	case e.late && e.idle:
		o.verdict, o.why = hang, "nothing of it runs any more"
	case e.late:
		o.verdict, o.why = tooSlow, fmt.Sprintf("%d million instructions of warps in that time", e.executed/1e6)
	case said != "":
		o.verdict, o.by, o.why = wrong, byWords, strings.Join(append([]string{said}, e.faults...), "; ")
	case e.isCrash() && (refusal == "" || e.exit != abortCode) || len(e.faults) > 0 && e.exit != 0:
		o.verdict, o.why = wrong, strings.Join(append([]string{fmt.Sprintf("exit code %d", e.exit)}, e.faults...), "; ")
	case e.exit == 0 && refusal == "" && e.findLine(r.right, nil) != "":
		o.verdict, o.by = right, byWords
	case refusal != "":
		o.verdict, o.by, o.why = refused, byWords, strings.Join(e.missed, "; ")
	case declined != "":
		o.verdict, o.by, o.why = refused, byWords, declined
	case e.exit != 0 && len(e.missed) == 0:
		o.verdict, o.why = wrong, fmt.Sprintf("exit code %d", e.exit)
	case e.exit == 0 && expected != nil:
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

// findLine returns the first line of the program's own output that matches a pattern and does not match but, or "". A
// pattern that is nil matches no line.
func (e ending) findLine(pattern, but *regexp.Regexp) string {
	if pattern == nil {
		return ""
	}
	for l := range strings.Lines(e.output) {
		if pattern.MatchString(l) && !strings.Contains(l, shimSays) && (but == nil || !but.MatchString(l)) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

// Exit codes of proxyd run for a program that a signal has ended.
const (
	signalled = 128 // more than that is the signal
	abortCode = signalled + int(syscall.SIGABRT)
	lastCode  = signalled + int(syscall.SIGSYS)
)

// isCrash tells whether a signal has ended the program.
func (e ending) isCrash() bool { return e.exit < 0 || e.exit > signalled && e.exit <= lastCode }

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
	words := rules{right: regexp.MustCompile("PASSED"), wrong: regexp.MustCompile("FAILED|error"), declines: regexp.MustCompile("needs .* GPUs|requires"), refusal: regexp.MustCompile("801")}
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
		{"refused without the error's words", words, ending{output: "done\n", exit: 1, missed: []string{"cuTexture"}}, nil, outcome{verdict: refused, by: byExitCode, why: "cuTexture"}},
		{"aborted by the refusal", words, ending{output: "what(): 801\n", exit: 134, missed: []string{"cuTexture"}}, nil, outcome{verdict: refused, by: byWords, why: "cuTexture"}},
		{"aborted, and something is missed", words, ending{output: "double free\n", exit: 134, missed: []string{"cuTexture"}}, nil, outcome{verdict: wrong, by: byExitCode, why: "exit code 134"}},
		{"FAILED, and something is missed", words, ending{output: "Test FAILED\n", exit: 1, missed: []string{"cuTexture"}}, nil, outcome{verdict: wrong, by: byWords, why: "Test FAILED"}},
		{"FAILED, refused, and exit code 0", words, ending{output: "error 801\nTest FAILED\n", missed: []string{"cuTexture"}}, nil, outcome{verdict: wrong, by: byWords, why: "Test FAILED"}},
		{"the refusal's words without a refusal", words, ending{output: "error 801\n", exit: 1}, nil, outcome{verdict: wrong, by: byWords, why: "error 801"}},
		{"PASSED, and refused", words, ending{output: "error 801\nPASSED\n", missed: []string{"cuTexture"}}, nil, outcome{verdict: refused, by: byWords, why: "cuTexture"}},
		{"a signal, and something is missed", words, ending{output: "error 801\n", exit: 139, missed: []string{"cuTexture"}}, nil, outcome{verdict: wrong, by: byExitCode, why: "exit code 139"}},
		{"a fault, and something is missed", words, ending{exit: 1, faults: []string{"kernel k: bad address"}, missed: []string{"cuTexture"}}, nil, outcome{verdict: wrong, by: byExitCode, why: "exit code 1; kernel k: bad address"}},
		{"right, though something is missed", words, ending{output: "PASSED", missed: []string{"cuTexture"}}, nil, outcome{verdict: right, by: byWords}},
		{"no words, and something is missed", words, ending{output: "done\n", missed: []string{"cuTexture"}}, nil, outcome{verdict: refused, by: byExitCode, why: "cuTexture"}},
		{"the shim's words", words, ending{output: shimSays + "cuX needs 8 GPUs\nPASSED\n"}, nil, outcome{verdict: right, by: byWords}},
		{"the shim's words alone", words, ending{output: "Running." + shimSays + "cuX needs 8 GPUs\n", missed: []string{"cuX"}}, nil, outcome{verdict: refused, by: byExitCode, why: "cuX"}},
		{"declines", words, ending{output: "needs 8 GPUs\n", exit: 2}, nil, outcome{verdict: refused, by: byWords, why: "needs 8 GPUs"}},
		{"declines, and a signal", words, ending{output: "needs 8 GPUs\n", exit: 139}, nil, outcome{verdict: wrong, by: byExitCode, why: "exit code 139"}},
		{"declines, and FAILED", words, ending{output: "it requires error < 1e-5: FAILED\n", exit: 1}, nil, outcome{verdict: wrong, by: byWords, why: "it requires error < 1e-5: FAILED"}},
		{"declines, and a fault", words, ending{output: "needs 8 GPUs\n", exit: 2, faults: []string{"kernel k: bad address"}}, nil, outcome{verdict: wrong, by: byExitCode, why: "exit code 2; kernel k: bad address"}},
		{"a fault", words, ending{exit: 1, faults: []string{"kernel k: bad address"}}, nil, outcome{verdict: wrong, by: byExitCode, why: "exit code 1; kernel k: bad address"}},
		{"the server died", words, ending{output: "PASSED\n" + serverDied + " (signal)\n", missed: []string{"x"}}, nil, outcome{verdict: wrong, by: byExitCode, why: serverDied + " (signal)"}},
		{"too slow", words, ending{late: true, executed: 7e6}, nil, outcome{verdict: tooSlow, by: byExitCode, why: "7 million instructions of warps in that time"}},
		{"idle", words, ending{late: true, idle: true, executed: 7e6, took: time.Minute}, nil, outcome{verdict: hang, by: byExitCode, took: time.Minute, why: "nothing of it runs any more"}},
		{"ignores signals", words, ending{late: true, stuck: true, executed: 1}, nil, outcome{verdict: hang, by: byExitCode, why: "it does not end when it is told to"}},
		{"the expected output", ignore, ending{output: "sum 3\ntime 5 s\n"}, &expected, outcome{verdict: right, by: byOutput}},
		{"another output", ignore, ending{output: "time 5 s\nsum 4\n"}, &expected, outcome{verdict: wrong, by: byOutput, why: `line 1 is "sum 4", and "sum 3" is expected`}},
		{"another output, and something is missed", ignore, ending{output: "sum 4\n", missed: []string{"cuTexture"}}, &expected, outcome{verdict: wrong, by: byOutput, why: `line 1 is "sum 4", and "sum 3" is expected`}},
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
