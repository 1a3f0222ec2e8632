// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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

// Cases that have a kernel fail. A device is of no use any more to a process whose kernel has failed, so that each has a process of
// its own.
const faultCases = "a_fault_.*"

// runSuite runs the suite of backends over the driver. A case that ends the whole process is found by running the later cases
// again.
func runSuite(ctx context.Context, k *kit) {
	const name = "suite of backends"
	if !k.needDriver(name) {
		return
	}
	library := "libcuda.so.1"
	if k.driver != "" {
		library = filepath.Join(k.driver, library)
	}
	passed, skipped := 0, map[string]string{}
	skip, seen, faults := faultCases, map[string]bool{}, false
	for attempt := 0; ; attempt++ {
		args := []string{"-test.v", "-library", library, "-test.timeout", suiteLimit.String()}
		if faults {
			args = append(args, "-first", "-test.run", "^TestDevice$/^"+faultCases)
		} else {
			args = append(args, "-test.run", "^TestDevice$")
		}
		if skip != "" {
			args = append(args, "-test.skip", "^TestDevice$/^("+skip+")$")
		}
		known := len(seen)
		p := task{name: fmt.Sprintf("suite-%d", attempt), limit: suiteLimit + 5*time.Second}
		e := k.runChild(ctx, p, append([]string{k.filePath("tests", "backend.test")}, args...)...)
		for _, m := range verdict.FindAllStringSubmatch(e.stdout, -1) {
			if seen[m[2]] {
				continue
			}
			seen[m[2]] = true
			skip += "|" + regexp.QuoteMeta(m[2])
			switch m[1] {
			case "PASS":
				passed++
			case "SKIP":
				skipped[strings.ReplaceAll(m[2], "_", " ")] = "left out: " + textOf(e.stdout, m[2])
			case "FAIL":
				k.addRow(row{Name: strings.ReplaceAll(m[2], "_", " "), Outcome: wrong, Why: textOf(e.stdout, m[2])})
			}
		}
		skip = strings.TrimPrefix(skip, "|")
		last := unfinishedCase(e.stdout, seen)
		switch {
		case last != "" || ctx.Err() != nil || attempt > 30 || len(seen) == 0:
		case !faults:
			faults, skip = true, ""
			continue
		case len(seen) > known:
			continue // the next one
		}
		if last == "" || ctx.Err() != nil || attempt > 30 {
			if len(seen) == 0 {
				k.addRow(row{Name: name, Outcome: wrong, Why: "it did not begin: " + e.describeFailure() + "\n" + lastLine(e.stdout)})
				return
			}
			if last != "" {
				k.addRow(row{Name: name, Outcome: wrong, Why: "its time is over: what begins with " + last + " was not run"})
			}
			break
		}
		if timeRanOut(e.stderr, last) {
			continue // the cases before have taken the time
		}
		seen[last] = true
		skip = strings.TrimPrefix(skip+"|"+regexp.QuoteMeta(last), "|")
		k.addRow(row{Name: strings.ReplaceAll(last, "_", " "), Outcome: wrong, Why: "it ended or held up the whole process: " + e.describeFailure()})
	}
	result := right
	if passed == 0 {
		result = wrong
	}
	k.addRow(row{Name: name, Outcome: result, Why: fmt.Sprintf("%d of %d cases passed, %d are left out", passed, len(seen), len(skipped)), Values: skipped})
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

// textOf is what a case has printed.
func textOf(stdout, name string) string {
	_, text, _ := strings.Cut(stdout, "=== RUN   TestDevice/"+name+"\n")
	text, _, _ = strings.Cut(text, "=== RUN ")
	text, _, _ = strings.Cut(text, "--- FAIL: TestDevice")
	const most = 1500
	return strings.TrimSpace(text[:min(len(text), most)])
}
