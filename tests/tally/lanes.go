// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// part is a command of the test run.
type part struct{ name, command string }

// laneVariable is set in the environment of each part, to the number of the part's lane. A test that looks at the
// processes of the whole machine tells from this variable which processes belong to tests of other lanes.
const laneVariable = "TALLY_LANE"

// parseLanes reads the arguments: parts, with "--" between lanes.
func parseLanes(args []string) ([][]part, error) {
	lanes := [][]part{nil}
	for _, arg := range args {
		if arg == "--" {
			lanes = append(lanes, nil)
			continue
		}
		name, command, ok := strings.Cut(arg, ":")
		if !ok {
			return nil, fmt.Errorf("%q: want \"name: command\"", arg)
		}
		last := len(lanes) - 1
		lanes[last] = append(lanes[last], part{name, strings.TrimSpace(command)})
	}
	return lanes, nil
}

// testRun is the state that the lanes of a run share. mu guards the fields below it.
type testRun struct {
	began time.Time
	out   io.Writer

	mu       sync.Mutex
	total    count
	failures []failure
	times    timing
}

// runLanes runs lanes side by side, and prints the failures and the time of each lane.
func runLanes(lanes [][]part, out io.Writer) count {
	r := &testRun{began: time.Now(), out: &sharedWriter{w: out}}
	var wg sync.WaitGroup
	for i, lane := range lanes {
		wg.Go(func() { r.runLane(i+1, lane) })
	}
	wg.Wait()
	printFailures(out, r.failures)
	r.times.printTimes(out, time.Since(r.began))
	return r.total
}

func (r *testRun) runLane(lane int, parts []part) {
	for _, p := range parts {
		fmt.Fprintf(r.out, "== %s (%s into the run)\n", p.name, time.Since(r.began).Round(time.Second))
		began := time.Now()
		t := runPart(p, lane, r.out)
		r.addPart(t, time.Since(began))
	}
}

func (r *testRun) addPart(t *tally, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.addCount(t.count)
	r.failures = append(r.failures, leafTests(t.failures)...)
	r.times.parts = append(r.times.parts, timedPart{t.part, took})
	r.times.packages = append(r.times.packages, t.times.packages...)
	r.times.tests = append(r.times.tests, t.times.tests...)
}

// runPart runs a part, and returns the count and the failures of the first try. A command that fails counts as
// a failure even if all its tests passed.
func runPart(p part, lane int, w io.Writer) *tally {
	began := time.Now()
	t := newTally(p.name, w)
	cmd := shellCommand(p.command, lane)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.partFailed(err)
		return t
	}
	stop := t.startHeartbeat(progressInterval(os.Stdout))
	t.readEvents(out)
	stop()
	err = cmd.Wait()
	switch {
	case err != nil && t.failed == 0:
		t.partFailed(err)
	case err == nil && t.tests == 0:
		t.passed++
	case t.tests > 0:
		t.tryFailedAgain(p, lane)
	}
	fmt.Fprintf(w, "== %s: %s in %.0f s\n", p.name, t.count, time.Since(began).Seconds())
	return t
}

// partFailed notes that the part's command failed, though no test of the part did.
func (t *tally) partFailed(err error) {
	fmt.Fprintf(t.w, "%s: %v\n", t.part, err)
	t.failed++
	t.failures = append(t.failures, failure{pkg: t.part, said: append(t.plain, err.Error()+"\n")})
}

// shellCommand is a shell command in the environment of a lane's parts.
func shellCommand(command string, lane int) *exec.Cmd {
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = append(slices.Clone(os.Environ()), laneVariable+"="+strconv.Itoa(lane))
	return cmd
}

// sharedWriter writes the bytes of each call in one piece, so that lines of several lanes do not mix.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
