// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/session"
)

// TestComplete: the shell proposes jobs, nodes and checkpoints where they are wanted.
func TestComplete(t *testing.T) {
	c := newCluster(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.MkdirAll(home+"/.singularity-slurm/sessions", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := session.NoteSubmission("77"); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"show":               "812\ttrain\n814\twait\n:4\n",
		"migrate 812 --to":   "n1\nn2\nn3\n:4\n",
		"migrate 812 --away": "n1\nn2\nn3\n:4\n",
		"session attach":     "77\n:4\n",
		"session stop":       "77\n:4\n",
		"doctor --node":      "n1\nn2\nn3\n:4\n",
		"drain":              "n1\nn2\nn3\n:4\n",
		"verify":             "mini/812/1\t",
		"delete mini/812/1":  "mini/812/2",
		"export":             "mini/812/1\t",
		"export mini/812/1":  ":16\n", // folders, by the shell
	} {
		got := c.runLine(t.Context(), "alice", append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if !strings.Contains(got, want) || line == "delete mini/812/1" && strings.Contains(got, "mini/812/1") {
			t.Errorf("singctl %s TAB: %q, want %q", line, got, want)
		}
	}
	if got, want := c.runLine(t.Context(), "alice", "__complete", "migrate", "812", "--to", "n1,n"), "n1,n1\nn1,n2\nn1,n3\n:4\n"; !strings.Contains(got, want) {
		t.Errorf("behind a comma: %q, want %q", got, want)
	}
}
