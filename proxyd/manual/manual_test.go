// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newProgram returns a command with all features that a page treats in different ways.
func newProgram() *cobra.Command {
	root := &cobra.Command{Use: "thing", Short: "Does it", Long: "One.\n\n.Two - \\ three", Example: "  thing go\n  thing -v"}
	root.PersistentFlags().String("key", "", "a `WORD`")
	root.PersistentFlags().String("left-out", "", "not here")
	run := func(*cobra.Command, []string) {}
	sub := &cobra.Command{Use: "go FILE", Short: "Goes", Run: run}
	sub.Flags().Bool("fast", false, "be quick")
	root.AddCommand(sub, &cobra.Command{Use: "hidden", Hidden: true, Run: run})
	return root
}

func TestProgramPage(t *testing.T) {
	got := ProgramPage(newProgram(), 8, func(f *pflag.Flag) bool { return f.Name == "left-out" }, List{"FILES", [][2]string{{"/etc/x-y", "It."}}})
	want := `.TH THING 8 "" "singularity-slurm"
.SH NAME
thing \- Does it
.SH SYNOPSIS
.B thing COMMAND [flags]
.SH DESCRIPTION
One.
.PP
\&.Two \- \e three
.SH COMMANDS
.SS thing go FILE
Goes
.TP
.B \-\-fast
be quick
.SH OPTIONS
.TP
.B \-\-help
help for thing
.SH COMMON OPTIONS
.TP
.B \-\-key WORD
a WORD
.SH EXAMPLES
.PP
.nf
thing go
thing \-v
.fi
.SH FILES
.TP
.B /etc/x\-y
It.
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCommandPage(t *testing.T) {
	root := newProgram()
	sub, _, err := root.Find([]string{"go"})
	if err != nil {
		t.Fatal(err)
	}
	want := `.TH THING\-GO 1 "" "singularity-slurm"
.SH NAME
thing\-go \- Goes
.SH SYNOPSIS
.B thing go FILE [flags]
.SH DESCRIPTION
Goes
.SH OPTIONS
.TP
.B \-\-fast
be quick
.SH COMMON OPTIONS
.TP
.B \-\-key WORD
a WORD
.TP
.B \-\-left\-out string
not here
`
	if got := CommandPage(sub, 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
