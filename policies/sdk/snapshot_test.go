// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"testing"
	"time"
)

// TestMayDisturb: each condition alone keeps policies from a job.
func TestMayDisturb(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := &Snapshot{Time: now, Rules: Rules{MinRun: time.Minute, CoolDown: 5 * time.Minute}}
	job := Job{State: Running, Preemptable: true, Started: now.Add(-time.Minute), Acted: now.Add(-5 * time.Minute)}
	for _, c := range []struct {
		name   string
		change func(*Job)
		want   bool
	}{
		{"left alone for as long as the rules want", func(*Job) {}, true},
		{"never disturbed", func(j *Job) { j.Acted = time.Time{} }, true},
		{"waits", func(j *Job) { j.State = Waiting }, false},
		{"cannot be captured", func(j *Job) { j.Preemptable = false }, false},
		{"an action is under way", func(j *Job) { j.Action = "resize" }, false},
		{"has just started", func(j *Job) { j.Started = j.Started.Add(time.Second) }, false},
		{"was disturbed a moment ago", func(j *Job) { j.Acted = j.Acted.Add(time.Second) }, false},
	} {
		j := job
		c.change(&j)
		if got := s.MayDisturb(&j); got != c.want {
			t.Errorf("%s: MayDisturb = %v, want %v", c.name, got, c.want)
		}
	}
}
