//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkpoint is a checkpoint as singctl lists it.
type checkpoint struct {
	ID              string
	Number          int
	Logical, Stored int64
	State           string
	Phases          []struct {
		Phase string
		Took  float64 // seconds
	}
}

// phasesTook is the sum of some phases.
func (k *checkpoint) phasesTook(phases ...string) (sum float64) {
	for _, p := range k.Phases {
		if slices.Contains(phases, p.Phase) {
			sum += p.Took
		}
	}
	return sum
}

// captureJob makes a checkpoint of a job that goes on, and returns how long its user waited for the checkpoint, in
// seconds.
func (c *cluster) captureJob(t *testing.T, job string) (k checkpoint, waited float64) {
	t.Helper()
	said := c.runScript(t, "ctl", "alice", fmt.Sprintf("began=$EPOCHREALTIME; singctl checkpoint %s >/dev/null; echo $began $EPOCHREALTIME", job))
	var began, ended float64
	if _, err := fmt.Sscan(said, &began, &ended); err != nil {
		t.Fatalf("singctl checkpoint %s: %q: %v", job, said, err)
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var all struct{ Checkpoints []checkpoint }
		list := c.runScript(t, "ctl", "alice", "singctl checkpoints --json "+job)
		if err := json.Unmarshal([]byte(list), &all); err != nil || len(all.Checkpoints) == 0 || time.Now().After(end) {
			t.Fatalf("singctl checkpoints: %v: %s", err, list)
		}
		k = slices.MaxFunc(all.Checkpoints, func(a, b checkpoint) int { return a.Number - b.Number })
		if k.State == "" { // in the store
			return k, ended - began
		}
	}
}

// ranks is a job with tasks that hold the same 200 MiB, and 1 MiB each of their own.
const ranks = "srun -n%d bash -c '(echo fill 200 %d; sleep infinity) | ./agent'"

// measureStorage measures how much room checkpoints take.
func measureStorage(t *testing.T, c *cluster) []figure {
	job := func(n, seed int) (first, second checkpoint) {
		id, _ := c.submitJob(t, fmt.Sprintf("-w n1 -n%d --singularity", n), fmt.Sprintf(ranks, n, seed))
		defer c.runScript(t, "ctl", "root", "scancel "+id)
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			log, _ := os.ReadFile(c.sharedPath(id + ".log"))
			if strings.Count(string(log), "filled\n") == n {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("job %s: %s", id, log)
			}
		}
		first, _ = c.captureJob(t, id)
		second, _ = c.captureJob(t, id)
		t.Logf("%d ranks: %+v, then %+v", n, first, second)
		return first, second
	}
	one, _ := job(1, 101)
	four, again := job(4, 102) // other memory: chunks that the first job stored would not be stored again
	var equal, idle turns
	equal.add(float64(one.Stored), float64(four.Stored))
	idle.add(float64(four.Stored), float64(again.Stored))
	return []figure{
		equal.ratio("stored by four ranks that hold the same 200 MiB, and by one", formatMebibytes, atMost(1.1, "≤ 1.1")),
		idle.ratio("stored by a second checkpoint of those four, idle, and by the first", formatMebibytes, atMost(0.02, "≤ 0.02")),
	}
}
