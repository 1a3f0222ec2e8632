// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"strings"
	"testing"
	"time"
)

// TestNamedCheckpoint reads comments as this package writes them, behind text of a user.
func TestNamedCheckpoint(t *testing.T) {
	for comment, want := range map[string]int{
		"":                         0,
		"checkpoint 4 at the gate": 0,
		"singularity: checkpoint 4 at 18:01:29 (requeue)":                                  4,
		"singularity: checkpoint 12 at 18:01:29 (periodic), on its way to the store":       12,
		"mine; singularity: restored from checkpoint 3 on n1,n2":                           3,
		"singularity: no checkpoint at 18:01:29: job 3: checkpoint 4: prepare: too big":    0,
		"singularity: held: " + "the shared folder has no checkpoint of this job any more": 0,
		GoesOnFrom("mine; singularity: node n1 failed", 5):                                 5,
		"singularity: node n1 failed; without a checkpoint its next run begins anew":       0,
		"singularity: begins anew, as asked for: checkpoint 4 at n1":                       0,
		"singularity: checkpoint 99999999999999999999 at 18:01:29 (requeue)":               0,
	} {
		if got := NamedCheckpoint(comment); got != want {
			t.Errorf("%q names checkpoint %d, want %d", comment, got, want)
		}
	}
	for reason, want := range map[string]string{
		"requeue": "checkpoint 7 at 18:01:29 (requeue)",
		"preempt by alice: back tomorrow (action 6)": "checkpoint 7 at 18:01:29",
	} {
		said := CheckpointComment(7, time.Date(2026, 7, 1, 18, 1, 29, 0, time.UTC), reason)
		if said != want || NamedCheckpoint(composeComment("mine", said)) != 7 {
			t.Errorf("CheckpointComment = %q, want %q", said, want)
		}
	}
	if n := NamedCheckpoint(composeComment("mine", "checkpoint 7 at "+time.Now().Format(time.TimeOnly)+" (user)")); n != 7 {
		t.Errorf("a composed comment names checkpoint %d, want 7", n)
	}
}

func TestComment(t *testing.T) {
	for _, c := range []struct{ had, text, want string }{
		{"", "a", "singularity: a"},
		{"mine", "a", "mine; singularity: a"},
		{"mine; singularity: a", "b\n\"c\"", "mine; singularity: b  c "},
		{"singularity: a", "b", "singularity: b"},
	} {
		if got := composeComment(c.had, c.text); got != c.want {
			t.Errorf("%q and %q: %q", c.had, c.text, got)
		}
	}
}

// TestObstacleComment: the note about an obstacle stands beside the rest of a comment, is replaced, and is removed
// without a trace.
func TestObstacleComment(t *testing.T) {
	for _, c := range []struct{ had, text, want string }{
		{"", "a", "singularity: cannot be captured as it is: a"},
		{"mine", "a", "mine; singularity: cannot be captured as it is: a"},
		{"mine; singularity: checkpoint 4 at 18:01:29 (asked)", "a", "mine; singularity: checkpoint 4 at 18:01:29 (asked); cannot be captured as it is: a"},
		{"mine; singularity: checkpoint 4 at 18:01:29 (asked); cannot be captured as it is: a", "b", "mine; singularity: checkpoint 4 at 18:01:29 (asked); cannot be captured as it is: b"},
		{"mine; singularity: checkpoint 4 at 18:01:29 (asked); cannot be captured as it is: a", "", "mine; singularity: checkpoint 4 at 18:01:29 (asked)"},
		{"mine; singularity: cannot be captured as it is: a", "", "mine"},
		{"singularity: cannot be captured as it is: a", "", ""},
		{"mine", "", "mine"},
		{"", "", ""},
		{"singularity: checkpoint 4 at 18:01:29 (asked)", "", "singularity: checkpoint 4 at 18:01:29 (asked)"},
	} {
		got := composeObstacle(c.had, c.text)
		if got != c.want {
			t.Errorf("%q and %q: %q", c.had, c.text, got)
		}
		if again := composeObstacle(got, c.text); again != got {
			t.Errorf("%q and %q again: %q", c.had, c.text, again)
		}
	}
	if n := NamedCheckpoint(composeObstacle(composeComment("mine", "checkpoint 7 at 18:01:29 (user)"), "a terminal")); n != 7 {
		t.Errorf("a comment with an obstacle names checkpoint %d, want 7", n)
	}
	long := composeObstacle("mine", strings.Repeat("x", 2000))
	if again := composeObstacle(long, strings.Repeat("x", 2000)); again != long || len(long) > maxComment+100 {
		t.Errorf("a long one has %d bytes, then %d", len(long), len(again))
	}
}
