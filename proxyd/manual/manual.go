// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package manual makes manual pages, in the man macros, of commands as cobra knows them. The pages
// agree with --help, because both are made of the same commands and flags.
package manual

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// List is a section of a page: terms, each with its meaning.
type List struct {
	Title string
	Items [][2]string
}

// CommandPage is the page of a single command; the commands below it are named only. The lists
// come at the end.
func CommandPage(c *cobra.Command, section int, lists ...List) string {
	b := beginPage(c, section, formatUsage(c))
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, s := range availableCommands(c) {
			writeItem(b, s.UseLine(), s.Short)
		}
	}
	writeFlags(b, "OPTIONS", c.NonInheritedFlags(), nil)
	writeFlags(b, "COMMON OPTIONS", c.InheritedFlags(), nil)
	writeExamples(b, ".SH EXAMPLES", c)
	writeLists(b, lists)
	return b.String()
}

// ProgramPage is the page of a program with all its commands. Flags for which skip is true are left
// out; skip may be nil. The lists come at the end.
func ProgramPage(root *cobra.Command, section int, skip func(*pflag.Flag) bool, lists ...List) string {
	b := beginPage(root, section, formatUsage(root))
	if root.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		writeCommands(b, root, skip)
	}
	root.InitDefaultHelpFlag() // without this call the help flag is not among the flags
	writeFlags(b, "OPTIONS", root.LocalNonPersistentFlags(), skip)
	writeFlags(b, "COMMON OPTIONS", root.PersistentFlags(), skip)
	writeExamples(b, ".SH EXAMPLES", root)
	writeLists(b, lists)
	return b.String()
}

func formatUsage(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		return c.CommandPath() + " COMMAND [flags]"
	}
	return c.UseLine()
}

func beginPage(c *cobra.Command, section int, usage string) *strings.Builder {
	b := &strings.Builder{}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(b, ".TH %s %d \"\" \"singularity-slurm\"\n", EscapeText(strings.ToUpper(name)), section)
	fmt.Fprintf(b, ".SH NAME\n%s \\- %s\n", EscapeText(name), EscapeText(c.Short))
	fmt.Fprintf(b, ".SH SYNOPSIS\n.B %s\n", EscapeText(usage))
	b.WriteString(".SH DESCRIPTION\n")
	writeParagraphs(b, formatDescription(c))
	return b
}

func formatDescription(c *cobra.Command) string {
	if c.Long == "" {
		return c.Short
	}
	return c.Long
}

// availableCommands returns the commands below a command that are not hidden.
func availableCommands(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			all = append(all, s)
		}
	}
	return all
}

// writeCommands writes the description of each command and its flags, with the commands below.
func writeCommands(b *strings.Builder, c *cobra.Command, skip func(*pflag.Flag) bool) {
	for _, s := range availableCommands(c) {
		if s.Name() == "completion" || s.Name() == "help" { // cobra's own
			continue
		}
		fmt.Fprintf(b, ".SS %s\n", EscapeText(strings.TrimSuffix(s.UseLine(), " [flags]")))
		writeParagraphs(b, formatDescription(s))
		s.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && (skip == nil || !skip(f)) {
				writeFlag(b, f)
			}
		})
		writeExamples(b, ".PP\nFor example:", s)
		writeCommands(b, s, skip)
	}
}

func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet, skip func(*pflag.Flag) bool) {
	began := false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || skip != nil && skip(f) {
			return
		}
		if !began {
			fmt.Fprintf(b, ".SH %s\n", title)
		}
		began = true
		writeFlag(b, f)
	})
}

func writeFlag(b *strings.Builder, f *pflag.Flag) {
	value, what := pflag.UnquoteUsage(f)
	if value != "" {
		value = " " + value
	}
	writeItem(b, "--"+f.Name+value, what)
}

func writeItem(b *strings.Builder, term, text string) {
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", EscapeText(term), EscapeText(text))
}

func writeExamples(b *strings.Builder, title string, c *cobra.Command) {
	if c.Example == "" {
		return
	}
	fmt.Fprintf(b, "%s\n.PP\n.nf\n", title)
	for line := range strings.Lines(c.Example) {
		b.WriteString(EscapeText(strings.TrimSuffix(strings.TrimPrefix(line, "  "), "\n")) + "\n")
	}
	b.WriteString(".fi\n")
}

func writeLists(b *strings.Builder, lists []List) {
	for _, l := range lists {
		fmt.Fprintf(b, ".SH %s\n", EscapeText(l.Title))
		for _, item := range l.Items {
			writeItem(b, item[0], item[1])
		}
	}
}

// writeParagraphs sets text in which an empty line ends a paragraph.
func writeParagraphs(b *strings.Builder, text string) {
	for i, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for l := range strings.Lines(p) {
			b.WriteString(EscapeText(strings.TrimSuffix(l, "\n")) + "\n")
		}
	}
}

// EscapeText escapes text, so that troff reads the text unchanged.
func EscapeText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
