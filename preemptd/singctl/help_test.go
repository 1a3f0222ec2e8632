// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestHelp: help COMMAND and COMMAND --help print the same, and a quote is no name.
func TestHelp(t *testing.T) {
	c := newCluster(t)
	for _, command := range []string{"", "version", "doctor", "completion", "completion bash"} {
		args := strings.Fields(command)
		asked := c.runLine(t.Context(), "alice", append([]string{"help"}, args...)...)
		flag := c.runLine(t.Context(), "alice", append(args, "--help")...)
		if asked != flag || !strings.Contains(asked, "Usage:") || strings.Contains(asked, "\nexit ") {
			t.Errorf("help %s:\n%s\n%s --help:\n%s", command, asked, command, flag)
		}
	}
	if out, want := c.runLine(t.Context(), "alice", "show", "812", "--node", `n1"`), "! singctl: --node \"n1\\\"\": want names, separated by commas\n! hint: singctl show --help\nexit 2\n"; out != want {
		t.Errorf("show with a quote in --node:\n%s\nwant:\n%s", out, want)
	}
	if out := c.runLine(t.Context(), "alice", "__complete", "help", "doc"); !strings.Contains(out, "doctor\n") {
		t.Errorf("completion of \"help doc\" = %q, want doctor", out)
	}
}
