// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/manual"
)

// TestEveryCommand: every command has a page, which names its options, and proposes its arguments, which is no file.
func TestEveryCommand(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	if out := c.runLine(t.Context(), "alice", "man", dir); out != "" {
		t.Fatalf("singctl man printed %q, want no output", out)
	}
	all := documentedCommands((&app{}).rootCommand())
	pages, err := os.ReadDir(dir)
	if err != nil || len(pages) != len(all) || len(all) < 17 {
		t.Fatalf("%d commands, %d pages: %v", len(all), len(pages), err)
	}
	for _, command := range all {
		name := strings.ReplaceAll(command.CommandPath(), " ", "-")
		raw, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		want := []string{".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", manual.EscapeText(command.Short)}
		for flag := range strings.FieldsSeq(command.NonInheritedFlags().FlagUsages()) {
			if strings.HasPrefix(flag, "--") {
				want = append(want, manual.EscapeText(flag))
			}
		}
		for _, sub := range command.Commands() {
			if sub.IsAvailableCommand() {
				want = append(want, manual.EscapeText(sub.UseLine()))
			}
		}
		for _, w := range want {
			if !strings.Contains(string(raw), w) {
				t.Errorf("%s.1 does not have %q:\n%s", name, w, raw)
			}
		}
		if command.HasAvailableSubCommands() {
			continue
		}
		args := append([]string{"__complete"}, strings.Fields(command.CommandPath())[1:]...)
		out := c.runLine(t.Context(), "alice", append(args, "")...)
		if takesFile := command.Name() == "check"; strings.Contains(out, "NoFileComp") == takesFile {
			t.Errorf("%s proposes files or not:\n%s", command.CommandPath(), out)
		}
	}
}
