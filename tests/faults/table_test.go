//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// results are the outcomes by the trials' names.
type results map[string]outcome

func (r results) countOutcomes() (tried, lost, elsewhere int) {
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

func (r results) summaryLine() string {
	tried, lost, elsewhere := r.countOutcomes()
	return fmt.Sprintf("%d cases, %d lost (%d came a phase late)", tried, lost, elsewhere)
}

// renderTable returns the page about these outcomes.
func (r results) renderTable() string {
	var b strings.Builder
	tried, lost, elsewhere := r.countOutcomes()
	b.WriteString("# Faults\n\nWritten by `go test -tags faults ./tests/faults -table docs/faults.md`; do not edit. With `-run`, as in\n" +
		"`-run TestFaults/restore/.*/kill_slurmctld`, the command replaces the cases that it runs and leaves the rest.\n\n" +
		"A job of two tasks on two nodes counts in step over TCP, into files and its log. It has one checkpoint; then, in the\n" +
		"middle of a phase of the next one or of a restore, one thing breaks. *ran on*: the job's processes never ended.\n" +
		"*resumed*: Slurm ran the job again, and it went on from a committed checkpoint. *held*: its comment said why it could\n" +
		"not be restored; released after the repair, it resumed. In the end files and memory are exact, the log repeats at most\n" +
		"what was rolled back, and no node has anything left of the job. An asterisk: Slurm's own programs said something about\n" +
		"the fault in the job's log. A job with software GPUs trains a perceptron in two ranks, and prints the loss and a hash of\n" +
		"all parameters at each step: each is that of an undisturbed run.\n\n" +
		"A slurmctld that dies right after it has launched a job has forgotten that, and launches it once more; the node refuses,\n" +
		"and Slurm holds the job as \"launch failed requeued held\". A node whose slurmd died while it ended a run may refuse the\n" +
		"next run, too (\"already running\"), if that starts within seconds, as here, and not after the two minutes that Slurm\n" +
		"waits. No person releases such a job here: proxyd does, and a job that stays held so is lost. Where slurmctld launches\n" +
		"the job in the second in which it has the nodes kill the forgotten run, Slurm ends the job (exit code 1), and proxyd\n" +
		"requeues it.\n\n" +
		"`.ci/run` runs 9 of the cases (8 by `-seed 49 -some 8`, and one in which Slurm holds the job), `make test` 3 of them,\n" +
		"`make test-releases` 12 on each older Slurm, and `make test-faults` all. A moment has the name of the call or phase in\n" +
		"proxyd's log: `reconnect_devices`, in which device servers find each other again, was `meet` in earlier releases.\n\n")
	fmt.Fprintf(&b, "**%d cases, %d lost.** Cases in which the phase was over before the fault came: %d, marked with the moment that was\n"+
		"hit. The last column has the `-seed` of each row.\n", tried, lost, elsewhere)
	for _, s := range stages {
		r.renderStage(&b, s)
	}
	var notes []string
	for _, m := range moments {
		for _, f := range faults {
			if o := r[trial{f, m}.name()]; o.err != nil {
				notes = append(notes, fmt.Sprintf("* %s, at %s of *%s*: %s\n", f.name, m.name, m.stage, cellText(o.err.Error())))
			}
		}
	}
	if notes != nil {
		b.WriteString("\n## Lost\n\n" + strings.Join(notes, ""))
	}
	return b.String()
}

func (r results) renderStage(b *strings.Builder, s stage) {
	fmt.Fprintf(b, "\n## %s\n\n| fault |", s.title())
	under := "\n| --- |"
	for _, m := range momentsOf(s) {
		fmt.Fprintf(b, " %s |", m.name)
		under += " --- |"
	}
	b.WriteString(" seed |" + under + " --- |\n")
	for _, f := range faults {
		if !f.isTriedAt(momentsOf(s)[0]) {
			continue
		}
		fmt.Fprintf(b, "| %s |", f.name)
		var seeds []string
		for _, m := range momentsOf(s) {
			o := r[trial{f, m}.name()]
			fmt.Fprintf(b, " %s |", o.cell(m))
			for _, seed := range strings.Fields(o.seeds) {
				if !slices.Contains(seeds, seed) {
					seeds = append(seeds, seed)
				}
			}
		}
		fmt.Fprintf(b, " %s |\n", strings.Join(seeds, " "))
	}
}

// cell returns the text of the table's cell for a trial at m.
func (o outcome) cell(m stageMoment) string {
	if o.what == "" {
		return "not tried"
	}
	text := o.what
	if o.err != nil {
		text = "**lost**"
	}
	if o.noise != "" {
		text += noisy
	}
	if o.at != m.name {
		text += " (at " + o.at + ")"
	}
	return text
}

// noisy marks a cell if Slurm's own programs said something about the fault in the job's log.
const noisy = ` \*`

var (
	cellParts = regexp.MustCompile(`^(.*?)( \\\*)?(?: \(at (.*)\))?$`)
	lostNote  = regexp.MustCompile(`^\* (.*), at (.*) of \*(.*)\*: (.*)$`)
)

// readTable returns the outcomes in the table of a page.
func readTable(page string) results {
	r := results{}
	var s stage
	var columns []string
	for l := range strings.Lines(page) {
		l = strings.TrimSuffix(l, "\n")
		if title, ok := strings.CutPrefix(l, "## "); ok {
			s, columns = "", nil
			for _, one := range stages {
				if one.title() == title {
					s = one
				}
			}
			continue
		}
		if m := lostNote.FindStringSubmatch(l); m != nil {
			name := trial{fault{name: m[1]}, stageMoment{name: m[2], stage: stage(m[3])}}.name()
			if o, ok := r[name]; ok {
				o.err = errors.New(strings.ReplaceAll(m[4], `\|`, "|"))
				r[name] = o
			}
			continue
		}
		if s == "" || !strings.HasPrefix(l, "| ") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(l, "| "), " |"), " | ")
		switch {
		case columns == nil:
			columns = cells
		case len(cells) == len(columns) && cells[0] != "---":
			r.readRow(s, columns, cells)
		}
	}
	return r
}

// readRow takes over a row of a stage's table: its first cell is the fault, its last has the seeds.
func (r results) readRow(s stage, columns, cells []string) {
	last := len(cells) - 1
	for i := 1; i < last; i++ {
		if cells[i] == "not tried" {
			continue
		}
		m := cellParts.FindStringSubmatch(cells[i])
		o := outcome{what: m[1], noise: m[2], at: m[3], seeds: cells[last]}
		if o.at == "" {
			o.at = columns[i]
		}
		if o.what == "**lost**" {
			o.what, o.err = "lost", errors.New("see the run of that seed")
		}
		r[trial{fault{name: cells[0]}, stageMoment{stage: s, name: columns[i]}}.name()] = o
	}
}

// mergeIntoPage puts the outcomes of a run into the page at path, which need not be there yet.
func (r results) mergeIntoPage(path string) error {
	page, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all := readTable(string(page))
	for name, o := range r {
		if o.what != "" {
			all[name] = o
		}
	}
	return os.WriteFile(path, []byte(all.renderTable()), 0o644)
}

// cellText keeps a text on its line.
func cellText(s string) string { return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s) }

func TestTable(t *testing.T) {
	r := results{
		trial{faults[0], moments[0]}.name(): {what: "ran on", at: moments[0].name},
		trial{faults[1], moments[1]}.name(): {what: "resumed", at: "drain"},
		trial{faults[2], moments[2]}.name(): {what: "lost", at: moments[2].name, err: errors.New("one\ntwo")},
	}
	got := r.renderTable()
	for _, want := range []string{
		"**3 cases, 1 lost.** Cases in which the phase was over before the fault came: 1, marked",
		"| kill proxyd of the leader | ran on | not tried |",
		"| kill proxyd of a peer | not tried | resumed (at drain) |",
		"* kill slurmd of the leader, at drain of *checkpoint, the job runs on*: one two\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// TestMerge: a page keeps the cells that a later run has not tried, and all other cells are replaced.
func TestMerge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults.md")
	kept, changed, late := trial{faults[0], moments[0]}.name(), trial{faults[1], moments[1]}.name(), trial{faults[1], moments[2]}.name()
	first := results{
		kept:    {what: "lost", at: moments[0].name, noise: "x", err: errors.New("a|b"), seeds: "7"},
		changed: {what: "lost", at: moments[1].name, err: errors.New("two"), seeds: "7"},
		late:    {what: "held, then resumed", at: "dump", noise: "x", seeds: "7"},
	}
	if err := first.mergeIntoPage(path); err != nil {
		t.Fatal(err)
	}
	second := results{changed: {what: "ran on", at: moments[1].name, seeds: "8"}, kept: {}}
	if err := second.mergeIntoPage(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first[changed] = second[changed]
	if want := first.renderTable(); string(got) != want {
		t.Errorf("merged:\n%s\nin one run:\n%s", got, want)
	}
	if row := "| kill proxyd of a peer | not tried | ran on | held, then resumed \\* (at dump) |"; !strings.Contains(string(got), row) || !strings.Contains(string(got), "| 8 7 |\n") {
		t.Errorf("%q with its seeds is not in\n%s", row, got)
	}
}
