// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
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

// TestEndWait: a hold and a wait for the shared folder are removed from both comments when the run has begun. Other
// words of proxyd, and words of users and administrators, stay.
func TestEndWait(t *testing.T) {
	for name, c := range map[string]struct{ comment, admin, want string }{
		"held":                   {"mine; singularity: held: no criu", "singularity: held: no criu", "update JobId=7 Comment=mine\nupdate JobId=7 AdminComment=\n"},
		"waits":                  {"singularity: waits for the shared folder: no mark", "singularity: waits for the shared folder: no mark", "update JobId=7 Comment=\nupdate JobId=7 AdminComment=\n"},
		"an administrator's":     {"singularity: held: no criu", "see ticket; singularity: held: no criu", "update JobId=7 Comment=\n"},
		"a checkpoint":           {"singularity: checkpoint 4 at 18:01:29 (requeue)", "singularity: held: no criu", ""},
		"a user writes held":     {"held: waits for the shared folder: ", "", ""},
		"no comment":             {"", "", ""},
		"restored, of held text": {"singularity: restored from checkpoint 4 on n1; held: ", "", ""},
	} {
		q := slurmtest.NewQueue(t)
		q.Set(t, map[uint32]string{7: "RUNNING"})
		q.SetComment(t, c.comment)
		q.SetAdminComment(t, c.admin)
		wrote := filepath.Join(q.Dir, "wrote")
		script := "#!/bin/sh\necho \"$*\" >>" + wrote + "\n"
		if err := errors.Join(os.WriteFile(wrote, nil, 0o600), os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(script), 0o755)); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if err := (Comments{Slurm: q.Slurm()}).EndWait(t.Context(), "7"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(wrote); err != nil || string(got) != c.want {
			t.Errorf("%s: scontrol was called as %q, %v; want %q", name, got, err, c.want)
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
