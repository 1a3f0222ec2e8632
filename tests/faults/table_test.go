//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// results are the outcomes by the trials' names.
type results map[string]outcome

func (r results) counts() (tried, lost, elsewhere int) {
	for _, m := range moments {
		for _, f := range faults {
			o, ok := r[trial{f, m}.name()]
			if !ok || o.what == "" {
				continue
			}
			tried++
			if o.err != nil {
				lost++
			}
			if o.at != m.name {
				elsewhere++
			}
		}
	}
	return tried, lost, elsewhere
}

func (r results) summary() string {
	tried, lost, elsewhere := r.counts()
	return fmt.Sprintf("%d cases, %d lost (%d came a phase late)", tried, lost, elsewhere)
}

// table is the page about a run.
func (r results) table(seed uint64) string {
	var b strings.Builder
	tried, lost, elsewhere := r.counts()
	b.WriteString("# Faults\n\nWritten by `go test -tags faults ./tests/faults -table docs/faults.md`; do not edit.\n\n" +
		"A job of two tasks on two nodes counts in step over TCP, into files and its log. It has one checkpoint; then, in the middle of a\n" +
		"phase of the next one or of a restore, one thing breaks. *ran on*: the job's processes never ended. *resumed*: Slurm ran the job\n" +
		"again, and it went on from a committed checkpoint. *held*: its comment said why it could not be restored; released after the\n" +
		"repair, it resumed. In the end files and memory are exact, the log repeats at most what was rolled back, and no node has anything\n" +
		"left of the job. An asterisk: Slurm's own programs said something about the fault in the job's log.\n\n")
	fmt.Fprintf(&b, "**%d cases, %d lost.** Seed %d; in %d cases the phase was over before the fault came: they are marked with the moment that was hit.\n", tried, lost, seed, elsewhere)
	for _, s := range stages {
		r.stage(&b, s)
	}
	var notes []string
	for _, m := range moments {
		for _, f := range faults {
			if o := r[trial{f, m}.name()]; o.err != nil {
				notes = append(notes, fmt.Sprintf("* %s, at %s of *%s*: %s\n", f.name, m.name, m.stage, cell(o.err.Error())))
			}
		}
	}
	if notes != nil {
		b.WriteString("\n## Lost\n\n" + strings.Join(notes, ""))
	}
	return b.String()
}

func (r results) stage(b *strings.Builder, s stage) {
	fmt.Fprintf(b, "\n## %s%s\n\n| fault |", strings.ToUpper(string(s[:1])), s[1:])
	under := "\n| --- |"
	for _, m := range momentsOf(s) {
		fmt.Fprintf(b, " %s |", m.name)
		under += " --- |"
	}
	b.WriteString(under + "\n")
	for _, f := range faults {
		fmt.Fprintf(b, "| %s |", f.name)
		for _, m := range momentsOf(s) {
			o, ok := r[trial{f, m}.name()]
			text := o.what
			switch {
			case !ok || o.what == "":
				text = "not tried"
			case o.err != nil:
				text = "**lost**"
			}
			if o.noise != "" {
				text += " \\*"
			}
			if ok && o.what != "" && o.at != m.name {
				text += " (at " + o.at + ")"
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
}

// cell keeps a text on its line.
func cell(s string) string { return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s) }

func TestTable(t *testing.T) {
	r := results{
		trial{faults[0], moments[0]}.name(): {what: "ran on", at: moments[0].name},
		trial{faults[1], moments[1]}.name(): {what: "resumed", at: "drain"},
		trial{faults[2], moments[2]}.name(): {what: "lost", at: moments[2].name, err: errors.New("one\ntwo")},
	}
	got := r.table(7)
	for _, want := range []string{
		"**3 cases, 1 lost.** Seed 7; in 1 cases",
		"| kill proxyd of the leader | ran on | not tried |",
		"| kill proxyd of a peer | not tried | resumed (at drain) |",
		"* kill slurmd of the leader, at drain of *checkpoint, the job runs on*: one two\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
