// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// verdict is a line of the suite's output about a case.
var verdict = regexp.MustCompile(`(?m)^ +--- (PASS|FAIL|SKIP): TestDevice/(\S+) \(([0-9.]+)s\)$`)

// Of a run of the suite: in all, and of a case that is said to hold up the others.
const (
	suiteLimit = 80 * time.Second
	caseLimit  = 30 * time.Second
)

// Cases that have a kernel fail. After that a process cannot use the device any more, so that each has a process of its own.
const faultCases = "a_fault_.*"

// suiteRuns has the results of the suite's runs so far.
type suiteRuns struct {
	passed  int
	skipped map[string]string // why, by case
	seen    map[string]bool   // cases that have a verdict
	faults  bool              // the cases in which a kernel fails are run now
}

// nextArguments returns the arguments of the next run, which leaves out cases that have a verdict.
func (s *suiteRuns) nextArguments(library string) []string {
	args := []string{"-test.v", "-library", library, "-test.timeout", suiteLimit.String()}
	var skip []string
	if s.faults {
		args = append(args, "-first", "-test.run", "^TestDevice$/^"+faultCases)
	} else {
		args, skip = append(args, "-test.run", "^TestDevice$"), []string{faultCases}
	}
	for _, name := range sortedKeys(s.seen) {
		skip = append(skip, regexp.QuoteMeta(name))
	}
	if len(skip) > 0 {
		args = append(args, "-test.skip", "^TestDevice$/^("+strings.Join(skip, "|")+")$")
	}
	return args
}

// takeVerdicts reads the verdicts in a run's output, and returns how many cases got one.
func (s *suiteRuns) takeVerdicts(k *kit, stdout string) int {
	known := len(s.seen)
	for _, m := range verdict.FindAllStringSubmatch(stdout, -1) {
		if s.seen[m[2]] {
			continue
		}
		s.seen[m[2]] = true
		name := strings.ReplaceAll(m[2], "_", " ")
		switch m[1] {
		case "PASS":
			s.passed++
		case "SKIP":
			s.skipped[name] = "left out: " + textOf(stdout, m[2])
		case "FAIL":
			k.addRow(row{Name: name, Outcome: wrong, Why: textOf(stdout, m[2])})
		}
	}
	return len(s.seen) - known
}

// runSuite runs the suite of backends over the driver.
func runSuite(ctx context.Context, k *kit) {
	const name = "suite of backends"
	if !k.needDriver(name) {
		return
	}
	library := "libcuda.so.1"
	if k.driver != "" {
		library = filepath.Join(k.driver, library)
	}
	s := &suiteRuns{skipped: map[string]string{}, seen: map[string]bool{}}
	if k.nested {
		// A fault, which takes the device from all cases behind it.
		s.seen["host_memory"] = true
		s.skipped["host memory"] = "left out: kernels on software GPUs do not reach memory that is registered"
	}
	if err := s.runCases(ctx, k, library); err != nil {
		k.addRow(row{Name: name, Outcome: wrong, Why: err.Error()})
		if len(s.seen) == 0 {
			return
		}
	}
	result := right
	if s.passed == 0 {
		result = wrong
	}
	k.addRow(row{Name: name, Outcome: result, Why: fmt.Sprintf("%d of %d cases passed, %d are left out", s.passed, len(s.seen), len(s.skipped)), Values: s.skipped})
}

// runCases runs the cases until each has a verdict. A case that ends the whole process is found by running the later cases again.
func (s *suiteRuns) runCases(ctx context.Context, k *kit, library string) error {
	const most = 30
	for attempt := 0; ; attempt++ {
		p := task{name: fmt.Sprintf("suite-%d", attempt), limit: suiteLimit + 5*time.Second}
		if k.nested {
			// Memory of a software GPU cannot be mapped at addresses of another one.
			p.env = []string{visibleDevices + "=0"}
		}
		e := k.runChild(ctx, p, append([]string{k.filePath("tests", "backend.test")}, s.nextArguments(library)...)...)
		more := s.takeVerdicts(k, e.stdout)
		last := unfinishedCase(e.stdout, s.seen)
		over := ctx.Err() != nil || attempt >= most
		switch {
		case len(s.seen) == 0 && last == "":
			return errors.New("it did not begin: " + e.describeFailure() + "\n" + lastLine(e.stdout))
		case last != "" && over:
			return errors.New("its time is over: what begins with " + last + " was not run")
		case last == "" && !over && !s.faults:
			s.faults = true
		case last == "" && (more == 0 || over):
			return nil
		case last == "":
			// With -first a run has a single case of faultCases.
		case timeRanOut(e.stderr, last):
			// The cases before have taken the time.
		default:
			s.seen[last] = true
			k.addRow(row{Name: strings.ReplaceAll(last, "_", " "), Outcome: wrong, Why: "it ended or held up the whole process: " + e.describeFailure()})
		}
	}
}

// unfinishedCase is the case that had begun last, and has no verdict.
func unfinishedCase(stdout string, seen map[string]bool) string {
	at := strings.LastIndex(stdout, "=== RUN   TestDevice/")
	if at < 0 {
		return ""
	}
	name, _, _ := strings.Cut(stdout[at+len("=== RUN   TestDevice/"):], "\n")
	if seen[name] {
		return ""
	}
	return name
}

// runningFor is a case that the time limit of a run has ended, and how long that case had run.
var runningFor = regexp.MustCompile(`(?m)^\s*TestDevice/(\S+) \(([0-9.a-zµ]+)\)$`)

// timeRanOut tells whether a run has ended by its time limit while a case ran that had not taken long.
func timeRanOut(stderr, name string) bool {
	for _, m := range runningFor.FindAllStringSubmatch(stderr, -1) {
		took, err := time.ParseDuration(m[2])
		if m[1] == name && err == nil && took < caseLimit {
			return strings.Contains(stderr, "panic: test timed out")
		}
	}
	return false
}

// textOf returns the output of a case.
func textOf(stdout, name string) string {
	_, text, _ := strings.Cut(stdout, "=== RUN   TestDevice/"+name+"\n")
	text, _, _ = strings.Cut(text, "=== RUN ")
	for _, end := range []string{"--- FAIL: TestDevice", "--- PASS: TestDevice"} {
		text, _, _ = strings.Cut(text, end)
	}
	const most = 1500
	return strings.TrimSpace(text[:min(len(text), most)])
}
