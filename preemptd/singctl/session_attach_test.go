// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestExitStatusOf(t *testing.T) {
	for _, c := range []struct {
		state, exitCode string
		want            int
	}{
		{"COMPLETED", "0:0", 0}, {"FAILED", "3:0", 3}, {"FAILED", "0:9", 137}, {"CANCELLED", "0:15", 143},
		{"CANCELLED", "0:0", 1}, {"TIMEOUT", "0:1", 129}, {"OUT_OF_MEMORY", "0:125", 253}, {"FAILED", "", 1},
	} {
		if got := exitStatusOf(c.state, c.exitCode); got != c.want {
			t.Errorf("exitStatusOf(%s, %s) = %d, want %d", c.state, c.exitCode, got, c.want)
		}
	}
}

func TestWaitText(t *testing.T) {
	for _, c := range []struct{ shown, want string }{
		{"JobState=PENDING Reason=Resources StartTime=2026-11-20T18:01:29", "session 8: PENDING (Resources), not before 2026-11-20T18:01:29; waiting"},
		{"JobState=PENDING Reason=None StartTime=Unknown", "session 8: PENDING; waiting"},
		{"JobState=COMPLETING Reason=None StartTime=2026-11-20T18:01:29", "session 8: COMPLETING; waiting"},
	} {
		if got := waitText("8", fieldOf(c.shown, "JobState"), c.shown); got != c.want {
			t.Errorf("waitText of %s = %q", c.shown, got)
		}
	}
}
