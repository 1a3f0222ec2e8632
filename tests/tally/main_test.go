// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	const passes = `{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`
	const fails = `{"Action":"output","Package":"p","Test":"TestB","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p","Elapsed":0.1}
`
	const doesNotBuild = `{"Action":"output","Package":"p","Output":"x.go:1: no\n"}
{"Action":"fail","Package":"p","Elapsed":0}
`
	const hangs = `{"Action":"run","Package":"p","Test":"TestD"}
{"Action":"output","Package":"p","Test":"TestD","Output":"panic: test timed out after 1s\n"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p","Elapsed":1}
`
	const skips = `{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:7: needs\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"        a GPU\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
`
	cases := []struct {
		name, in string
		want     count
		says     string
		saysNot  string
	}{
		{"pass", passes, count{passed: 1}, "ok   p", "quiet"},
		{"fail", fails, count{failed: 1}, "the reason", ""},
		{"does not build", doesNotBuild, count{failed: 1}, "x.go:1: no", ""},
		{"hangs", hangs, count{failed: 1}, "panic: test timed out after 1s\nFAIL\n", ""},
		{"skip says why, on one line", skips, count{skipped: 1}, "SKIP p TestC: c_test.go:7: needs a GPU\n", "--- SKIP"},
		{"all", passes + fails + skips, count{passed: 1, failed: 1, skipped: 1}, "FAIL p TestB", "quiet"},
		{"other output", "panic: no\n" + passes, count{passed: 1}, "panic: no", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var said strings.Builder
			tl := newTally("p", &said)
			tl.readEvents(strings.NewReader(c.in))
			if tl.count != c.want {
				t.Errorf("counted %+v, want %+v", tl.count, c.want)
			}
			if !strings.Contains(said.String(), c.says) {
				t.Errorf("printed %q, want %q in it", said.String(), c.says)
			}
			if c.saysNot != "" && strings.Contains(said.String(), c.saysNot) {
				t.Errorf("printed %q, do not want %q in it", said.String(), c.saysNot)
			}
		})
	}
}

// TestProgress: the line of progress names the test that was started last, and its package. It is not printed twice while
// nothing happens.
func TestProgress(t *testing.T) {
	var said strings.Builder
	tl := newTally("unit", &said)
	tl.readEvents(strings.NewReader(`{"Action":"run","Package":"` + module + `a/b","Test":"TestX"}` + "\n"))
	tl.printProgress()
	if want := "     … unit: 0 passed so far, now at a/b TestX\n"; said.String() != want {
		t.Errorf("printed %q, want %q", said.String(), want)
	}
	tl.printProgress()
	if n := strings.Count(said.String(), "\n"); n != 1 {
		t.Errorf("%d lines are printed while nothing happens, want 1: %q", n, said.String())
	}
	tl.readEvents(strings.NewReader(`{"Action":"run","Package":"` + module + `a/b","Test":"TestY"}` + "\n"))
	tl.printProgress()
	if !strings.HasSuffix(said.String(), "now at a/b TestY\n") {
		t.Errorf("printed %q, want a last line about TestY", said.String())
	}
}

// TestProgressInterval: a file gets a line less often than a terminal.
func TestProgressInterval(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	terminal, err := os.Open("/dev/null") // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if inFile, shown := progressInterval(file), progressInterval(terminal); inFile != 5*time.Minute || shown != 30*time.Second {
		t.Errorf("a file gets a line each %v, a terminal each %v; want 5m and 30s", inFile, shown)
	}
}

func TestRunCountsACommand(t *testing.T) {
	for command, want := range map[string]count{"true": {passed: 1}, "exit 3": {failed: 1}} {
		if got := runPart(part{"x", command}, 1, io.Discard).count; got != want {
			t.Errorf("%s: %+v, want %+v", command, got, want)
		}
	}
}

func TestParseLanes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want [][]part
	}{
		{[]string{"a: x", "b:y: z"}, [][]part{{{"a", "x"}, {"b", "y: z"}}}},
		{[]string{"a: x", "--", "b: y"}, [][]part{{{"a", "x"}}, {{"b", "y"}}}},
		{[]string{"no command"}, nil},
	} {
		if got, err := parseLanes(c.args); !reflect.DeepEqual(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v, %v, want %v", c.args, got, err, c.want)
		}
	}
}

// TestLanes runs lanes of which each waits for the other: they run side by side. The parts of a lane run in their
// order, and each part has the number of its lane in its environment.
func TestLanes(t *testing.T) {
	dir := t.TempDir()
	meet := func(own, other string) string {
		return fmt.Sprintf("mkfifo %[1]s/%[2]s 2>&-; mkfifo %[1]s/%[3]s 2>&-; echo here >%[1]s/%[2]s & read word <%[1]s/%[3]s && wait", dir, own, other)
	}
	note := func(word string) string { return "echo " + word + " $TALLY_LANE >>" + filepath.Join(dir, "order") }
	var said strings.Builder
	got := runLanes([][]part{
		{{"one", meet("a", "b") + "; " + note("one")}, {"two", note("two")}},
		{{"three", meet("b", "a")}, {"four", "echo the reason; exit 1"}},
	}, &said)
	if !strings.Contains(said.String(), "FAILED four:\nthe reason\nexit status 1\n") {
		t.Errorf("at the end nothing says that a part without tests failed:\n%s", said.String())
	}
	if want := (count{passed: 3, failed: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if order, err := os.ReadFile(filepath.Join(dir, "order")); string(order) != "one 1\ntwo 1\n" {
		t.Errorf("the first lane's parts noted %q, %v", order, err)
	}
	for _, name := range []string{"one", "two", "three", "four"} {
		if !strings.Contains(said.String(), "== "+name+": ") {
			t.Errorf("nothing says that %s has ended:\n%s", name, said.String())
		}
	}
}

// TestPrintFailures looks for the reasons of failures at the end of all, in the first and in the last lines of tests that
// print much.
func TestPrintFailures(t *testing.T) {
	long := slices.Concat([]string{"the first\n"}, slices.Repeat([]string{"middle\n"}, 100), []string{"the last\n"})
	var said strings.Builder
	printFailures(&said, []failure{{pkg: "p", test: "TestA", said: long}, {pkg: "p", test: "TestB", unsteady: true}})
	got := said.String()
	if !strings.HasPrefix(got, "FAILED p TestA:\nthe first\nmiddle\n") || !strings.Contains(got, "the last\nUNSTEADY") ||
		!strings.Contains(got, "… 62 lines") || strings.Count(got, "middle") != firstLines+lastLines-2 {
		t.Errorf("printed %q, want the first %d and the last %d lines of TestA, and how many are left out between them, before UNSTEADY", got, firstLines, lastLines)
	}
}

// TestUnsteady runs real tests that fail the first time, always, or in a way that is never
// chance.
func TestUnsteady(t *testing.T) {
	const always = `t.Fatal("no")`
	few := []string{"first time only", "one of them always", "panic in a routine"}
	for name, c := range map[string]struct {
		tests []string
		want  count
	}{
		"first time only":     {[]string{"once(t)"}, count{passed: 1, unsteady: 1}},
		"one in another":      {[]string{`t.Run("it's a (sub)", once)`}, count{passed: 1, unsteady: 1}},
		"always":              {[]string{always}, count{passed: 1, failed: 1}},
		"one of them always":  {[]string{"once(t)", always}, count{passed: 1, failed: 2}},
		"too many":            {[]string{"once(t)", "once(t)", "once(t)"}, count{passed: 1, failed: 3}},
		"says it was a race":  {[]string{`t.Log("WARNING: DATA RACE"); once(t)`}, count{passed: 1, failed: 1}},
		"panic":               {[]string{`if t.Run("x", once); t.Failed() { panic("no") }`}, count{passed: 1, failed: 2}},
		"panic in a routine":  {[]string{`if testing.Verbose() { go panic("no"); select {} }`}, count{passed: 1, failed: 1}},
		"ends without a word": {[]string{`if fails(t) { os.Exit(1) }`}, count{passed: 1, failed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !slices.Contains(few, name) {
				t.Skip("each case compiles and links its tests")
			}
			dir := t.TempDir()
			source := "package x\nimport (\"os\"; \"testing\")\nfunc TestFine(t *testing.T) {}\n" +
				"func fails(t *testing.T) bool { return os.Mkdir(\"" + dir + "/\"+t.Name()[:5], 0o700) == nil }\n" +
				"func once(t *testing.T) { if fails(t) { t.Fatal(\"once\") } }\n"
			for n, body := range c.tests {
				source += fmt.Sprintf("func Test%d(t *testing.T) { %s }\n", n, body)
			}
			for file, text := range map[string]string{"go.mod": "module x\n", "x_test.go": source} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := runPart(part{name, "cd " + dir + " && go test -json -vet=off ./..."}, 1, io.Discard)
			got, failures := run.count, leafTests(run.failures)
			unsteady := 0
			for _, f := range failures {
				if f.unsteady {
					unsteady++
				}
			}
			if got != c.want || unsteady != got.unsteady || unsteady > 0 && unsteady != len(failures) {
				t.Errorf("counted %+v and named %+v, want %+v", got, failures, c.want)
			}
		})
	}
}

// TestCommandOfTest: the command of a single test, for each way in which the Makefile names packages.
func TestCommandOfTest(t *testing.T) {
	f := failure{pkg: "x/y", test: "TestA/b"}
	for command, want := range map[string]string{
		"go test -json -tags c ./tests/c -run x":                   "go test -json -tags c x/y -run x -count=1 -run '^TestA$/^b$'",
		"go test -json -timeout 9m ./a ./b":                        "go test -json -timeout 9m x/y -count=1 -run '^TestA$/^b$'",
		"go test -json -race $(go list ./... | grep -v -e /slow$)": "go test -json -race x/y -count=1 -run '^TestA$/^b$'",
		"make test-c":                       "",
		"go test -json ./a -timeout 9m ./b": "",
	} {
		got, ok := commandOfTest(command, f)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s\n gives %q, want %q", command, got, want)
		}
	}
}

// TestTiming prints parts in their order, the slowest packages and tests first, and no test that is in another.
func TestTiming(t *testing.T) {
	tl := newTally("p", io.Discard)
	tl.readEvents(strings.NewReader(`{"Action":"pass","Package":"` + module + `a/b","Test":"TestQuick","Elapsed":1}
{"Action":"pass","Package":"` + module + `a/b","Test":"TestSlow/inner","Elapsed":4}
{"Action":"fail","Package":"` + module + `a/b","Test":"TestSlow","Elapsed":5}
{"Action":"fail","Package":"` + module + `a/b","Elapsed":6.5}
`))
	tl.times.parts = []timedPart{{"lint", time.Second}, {"unit", 7 * time.Second}}
	var said strings.Builder
	tl.times.printTimes(&said, 8*time.Second)
	want := "\nwhere 8s went\n  part\n1.0 s  lint\n7.0 s  unit\n\n  slowest packages\n6.5 s  a/b\n\n  slowest tests\n5.0 s  b.TestSlow\n1.0 s  b.TestQuick\n\n"
	if got := said.String(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}
