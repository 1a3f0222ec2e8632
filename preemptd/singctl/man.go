// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the manual. The packages' build calls it; people need not know.
// manCommand is singctl man.
type manCommand struct{ *app }

func (a manCommand) build() *cobra.Command {
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

// documentedCommands returns a command and the commands below that are not hidden. What completes
// for which shell is on a single page.
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
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"singularity-slurm\"\n", roffText(strings.ToUpper(name)))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roffText(name), roffText(c.Short))
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roffText(usage))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", roffParagraphs(orDefault(c.Long, c.Short)))
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roffText(s.UseLine()), roffText(s.Short))
			}
		}
	}
	if local := c.NonInheritedFlags(); local.HasAvailableFlags() {
		b.WriteString(".SH OPTIONS\n" + flagList(local))
	}
	if inherited := c.InheritedFlags(); inherited.HasAvailableFlags() {
		b.WriteString(".SH COMMON OPTIONS\n" + flagList(inherited))
	}
	if !c.HasParent() {
		b.WriteString(".SH EXIT STATUS\n")
		for l := range strings.Lines(exitCodes) {
			number, what, _ := strings.Cut(strings.TrimSpace(l), " ")
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", number, roffText(strings.TrimSpace(what)))
		}
	}
	return b.String()
}

func flagList(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		value, what := pflag.UnquoteUsage(f)
		if value != "" {
			value = " " + value
		}
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roffText("--"+f.Name+value), roffText(what))
	})
	return b.String()
}

// roffParagraphs sets text in which an empty line ends a paragraph.
func roffParagraphs(s string) string {
	var b strings.Builder
	for i, p := range strings.Split(strings.TrimSpace(s), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for l := range strings.Lines(p) {
			b.WriteString(roffText(strings.TrimSuffix(l, "\n")) + "\n")
		}
	}
	return b.String()
}

// roffText escapes text, so that troff reads the text unchanged.
func roffText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
