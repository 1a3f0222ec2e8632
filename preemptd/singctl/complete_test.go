// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestComplete: the shell proposes jobs, nodes and checkpoints where they are wanted.
func TestComplete(t *testing.T) {
	c := newCluster(t)
	for line, want := range map[string]string{
		"show":               "812\ttrain\n814\twait\n:4\n",
		"migrate 812 --to":   "n1\nn2\nn3\n:4\n",
		"migrate 812 --away": "n1\nn2\nn3\n:4\n",
		"doctor --node":      "n1\nn2\nn3\n:4\n",
		"drain":              "n1\nn2\nn3\n:4\n",
		"verify":             "mini/812/1\t",
		"delete mini/812/1":  "mini/812/2",
		"export":             "mini/812/1\t",
		"export mini/812/1":  ":16\n", // folders, by the shell
	} {
		got := c.run(t.Context(), "alice", append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if !strings.Contains(got, want) || line == "delete mini/812/1" && strings.Contains(got, "mini/812/1") {
			t.Errorf("singctl %s TAB: %q, want %q", line, got, want)
		}
	}
}
