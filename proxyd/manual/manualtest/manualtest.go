// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package manualtest checks the manual page of a daemon.
package manualtest

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/manual"
)

// CheckPage checks that a page has each key of the configuration and each command, and that each command has an
// example. A key is a name and its default.
func CheckPage(t *testing.T, root *cobra.Command, page string, keys [][2]string) {
	t.Helper()
	for _, key := range keys {
		if !strings.Contains(page, "\n.B "+manual.EscapeText(key[0])+"\n"+manual.EscapeText(key[1])+"\n") {
			t.Errorf("the page lacks the key %s", key[0])
		}
	}
	if len(keys) < 20 {
		t.Errorf("%d keys", len(keys))
	}
	commands := root.Commands()
	for i := 0; i < len(commands); i++ {
		c := commands[i]
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
