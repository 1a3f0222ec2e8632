// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/manual"
)

// manCommand is singctl man, which writes the manual. The packages' build calls it; people need not know.
type manCommand struct{ *app }

func (a manCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a folder", Hidden: true,
		Args: argumentCount(1, 1, "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			var errs []error
			for _, c := range documentedCommands(cmd.Root()) {
				name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
				errs = append(errs, os.WriteFile(filepath.Join(args[0], name), []byte(manPage(c)), 0o644))
			}
			return errors.Join(errs...)
		},
	}
}

// documentedCommands returns a command and the commands below that are not hidden. The commands below completion, one
// for each shell, are on its page.
func documentedCommands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() && c.Name() != "completion" {
			all = append(all, documentedCommands(s)...)
		}
	}
	return all
}

// manPage is a command's manual page, in the man macros.
func manPage(c *cobra.Command) string {
	if c.HasParent() {
		return manual.CommandPage(c, 1)
	}
	codes := manual.List{Title: "EXIT STATUS"}
	for l := range strings.Lines(exitCodes) {
		number, what, _ := strings.Cut(strings.TrimSpace(l), " ")
		codes.Items = append(codes.Items, [2]string{number, strings.TrimSpace(what)})
	}
	return manual.CommandPage(c, 1, codes)
}
