// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Command tally runs the parts of a test run, in order, and ends with the count of all tests that passed and
// failed. Each argument is "name: shell command". Arguments between "--" are lanes: the parts of a lane run in
// order, and lanes run side by side. If a part prints the events of `go test -json`, tally
// counts its tests; any other part counts as a single test, which passes if the command succeeds. For each
// package tally prints a line with the tests that passed. For each test that failed it prints the test's output, and for
// each test that was skipped a line with the reason. At the end there are tables of the time that parts, packages and tests took.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	lanes, err := parseLanes(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "tally: %v\n", err)
		os.Exit(2)
	}
	total := runLanes(lanes, os.Stdout)
	fmt.Println(total)
	if total.failed > 0 || total.passed == 0 {
		os.Exit(1)
	}
}

type count struct{ passed, failed, unsteady, skipped int }

func (c count) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d unsteady, %d skipped", c.passed, c.failed, c.unsteady, c.skipped)
}

func (c *count) addCount(d count) {
	c.passed += d.passed
	c.failed += d.failed
	c.unsteady += d.unsteady
	c.skipped += d.skipped
}

// event has the fields of test2json's output that tally uses.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// tally reads events. It keeps the output of a test until the test has ended, and prints the output only if the test
// failed. Of a skipped test the reason is printed. mu guards all fields between read and heartbeat.
type tally struct {
	part string
	mu   sync.Mutex
	count
	tests    int
	latest   string // the test that was started last, with its package
	progress string // the line of progress that was printed last
	said     map[string][]string
	plain    []string // the last lines that are no events: all that a command prints that is not go test
	failures []failure
	hopeless bool // a failure that is no chance: no test is run again
	times    *timing
	w        io.Writer
}

func newTally(part string, w io.Writer) *tally {
	return &tally{part: part, said: map[string][]string{}, times: &timing{}, w: w}
}

// progressInterval returns the time between lines of progress: 30 s for a person at a terminal; a file, which is read
// afterwards, gets a line each five minutes.
func progressInterval(out *os.File) time.Duration {
	info, err := out.Stat()
	if err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return 30 * time.Second
	}
	return 5 * time.Minute
}

// startHeartbeat prints a line at each interval, so that a person who waits sees progress, until stop is
// called.
func (t *tally) startHeartbeat(every time.Duration) (stop func()) {
	ticker := time.NewTicker(every)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				t.printProgress()
			}
		}
	}()
	return func() { ticker.Stop(); close(done) }
}

// printProgress prints how far the part is, unless the last line of progress said the same.
func (t *tally) printProgress() {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("     … %s: %d passed so far, now at %s\n", t.part, t.passed, t.latest)
	if t.latest != "" && line != t.progress {
		t.progress = line
		fmt.Fprint(t.w, line)
	}
}

func (t *tally) readEvents(r io.Reader) {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if line != "" {
			t.readLine(line)
		}
		if err != nil {
			return
		}
	}
}

func (t *tally) readLine(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(t.w, line)
		t.plain = append(t.plain[max(0, len(t.plain)-lastLines+1):], line)
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		t.said[key] = append(t.said[key], e.Output)
	case "run":
		t.latest = strings.TrimPrefix(e.Package, module) + " " + e.Test
	case "pass", "fail", "skip":
		t.noteEnd(e, key)
	}
}

func (t *tally) noteEnd(e event, key string) {
	t.times.addEvent(e)
	switch {
	case e.Test != "":
		t.tests++
		t.testEnded(e, key)
	case e.Action == "pass":
		fmt.Fprintf(t.w, "ok   %s %.1f s\n", e.Package, e.Elapsed)
	case e.Action == "fail":
		// A package that did not build, or panicked, has no failed test, so the package itself is counted.
		said := append(t.takeUnended(e.Package), t.said[key]...)
		fmt.Fprintf(t.w, "FAIL %s %.1f s\n%s", e.Package, e.Elapsed, strings.Join(said, ""))
		if !slices.ContainsFunc(t.failures, func(f failure) bool { return f.pkg == e.Package }) {
			t.failed++
			t.failures = append(t.failures, failure{pkg: e.Package, said: said})
			t.hopeless = true
		}
		t.hopeless = t.hopeless || certain.MatchString(strings.Join(said, ""))
	}
	delete(t.said, key)
}

// takeUnended returns the output of a package's tests that began and did not end: if the package hung or panicked, the
// output has the stacks of all goroutines.
func (t *tally) takeUnended(pkg string) (said []string) {
	for _, key := range slices.Sorted(maps.Keys(t.said)) {
		if strings.HasPrefix(key, pkg+" Test") {
			said = append(said, t.said[key]...)
			delete(t.said, key)
		}
	}
	return said
}

func (t *tally) testEnded(e event, key string) {
	switch e.Action {
	case "pass":
		t.passed++
		return
	case "fail":
		t.failed++
		t.failures = append(t.failures, failure{pkg: e.Package, test: e.Test, said: t.said[key]})
		t.hopeless = t.hopeless || certain.MatchString(strings.Join(t.said[key], ""))
	case "skip":
		t.skipped++
		fmt.Fprintf(t.w, "SKIP %s %s: %s\n", e.Package, e.Test, skipReason(t.said[key]))
		return
	}
	fmt.Fprintf(t.w, "%s %s %s\n%s", strings.ToUpper(e.Action), e.Package, e.Test, strings.Join(t.said[key], ""))
}

// skipReason returns the output of a skipped test, on one line, without the lines that the testing package prints for
// each test.
func skipReason(said []string) string {
	var words []string
	for line := range strings.Lines(strings.Join(said, "")) {
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimLeft(line, " "), "--- SKIP: ") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}
