// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/manual"
)

// TestManPage: the page has each key of the configuration and each command, and each command has an
// example.
func TestManPage(t *testing.T) {
	root := rootCommand()
	page := manPage(root)
	for _, key := range config.Reference() {
		if !strings.Contains(page, "\n.B "+manual.EscapeText(key[0])+"\n"+manual.EscapeText(key[1])+"\n") {
			t.Errorf("the page lacks the key %s", key[0])
		}
	}
	if len(config.Reference()) < 20 {
		t.Errorf("%d keys", len(config.Reference()))
	}
	commands := root.Commands()
	for _, c := range commands {
		if !c.IsAvailableCommand() || c.Name() == "completion" || c.Name() == "help" {
			continue
		}
		commands = append(commands, c.Commands()...)
		if !strings.Contains(page, "\n.SS "+manual.EscapeText(strings.TrimSuffix(c.UseLine(), " [flags]"))+"\n") {
			t.Errorf("the page lacks %s", c.CommandPath())
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
	}
}
