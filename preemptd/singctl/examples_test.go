// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestExamples: help of each command has an example, and each example is a command line that its
// command accepts.
func TestExamples(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range documentedCommands((&app{}).rootCommand()) {
		seen[c.CommandPath()] = true
		if c.Name() == "completion" || c.Name() == "help" {
			continue
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if words[0] != "singctl" {
				t.Errorf("example of %s does not begin with singctl: %q", c.CommandPath(), line)
				continue
			}
			root := (&app{}).rootCommand()
			found, rest, err := root.Find(words[1:])
			if err != nil {
				t.Errorf("example %q: Find: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("example %q: ParseFlags: %v", line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("example %q: ValidateArgs: %v", line, err)
			}
			if c.HasParent() && found.CommandPath() != c.CommandPath() && !c.HasAvailableSubCommands() {
				t.Errorf("%s: %q is an example of %s", c.CommandPath(), line, found.CommandPath())
			}
		}
	}
	for path := range examples {
		if !seen[path] {
			t.Errorf("there is no command %s", path)
		}
	}
}
