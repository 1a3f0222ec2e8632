// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
)

// lines is a journal that remembers its entries.
type lines struct {
	action.Journal
	all []string
}

func (l *lines) Save(_ context.Context, a *journal.Action, _ string) error {
	l.all = append(l.all, a.Step+" "+string(a.State))
	return nil
}

// TestPauses: with the name of a step the process stops once the journal has it, with ! as
// long as the journal does not have that the step is done; else the process never stops.
func TestPauses(t *testing.T) {
	const stop = "stop"
	life := []journal.Action{
		{ID: 1, Step: "check", State: journal.Going}, {ID: 1, Step: "park", State: journal.Going},
		{ID: 1, Step: "park", State: journal.Going, Attempt: 1}, {ID: 1, Step: "report", State: journal.Going}, {ID: 1, Step: "report", State: journal.Done},
	}
	for at, want := range map[string][]string{
		"":        {"check going", "park going", "park going", "report going", "report done"},
		"start":   {"check going", "park going", "park going", "report going", "report done"},
		"check":   {"check going", stop, "park going", "park going", "report going", "report done"},
		"check!":  {"check going", stop, "park going", "park going", "report going", "report done"},
		"park":    {"check going", "park going", stop, "park going", "report going", "report done"},
		"park!":   {"check going", "park going", "park going", stop, "report going", "report done"},
		"report":  {"check going", "park going", "park going", "report going", stop, "report done"},
		"report!": {"check going", "park going", "park going", "report going", stop, "report done"},
	} {
		l := &lines{}
		p := &pausingJournal{
			Journal: l, at: func() string { return at }, log: slog.New(slog.DiscardHandler), steps: map[int64]string{},
			stop: func() { l.all = append(l.all, stop) },
		}
		for _, a := range life {
			if err := p.Save(t.Context(), &a, ""); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(l.all, want) {
			t.Errorf("to stop at %q: entries and stops are %q, want %q", at, l.all, want)
		}
		if len(p.steps) != 0 {
			t.Errorf("to stop at %q: steps of an ended action are remembered", at)
		}
	}
}

// TestPauseFile: the file that the variable names is read at each entry, and may be missing; without the variable there is
// no journal that could stop the process.
func TestPauseFile(t *testing.T) {
	l := &lines{}
	if j := newPausingJournal(l, "", slog.New(slog.DiscardHandler)); j != action.Journal(l) {
		t.Errorf("without a file the journal is a %T", j)
	}
	file := filepath.Join(t.TempDir(), "pause")
	p := newPausingJournal(l, file, slog.New(slog.DiscardHandler)).(*pausingJournal)
	if at := p.at(); at != "" {
		t.Errorf("without the file the process stops at %q", at)
	}
	if err := os.WriteFile(file, []byte("park!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if at := p.at(); at != "park!" {
		t.Errorf("the process stops at %q, want park!", at)
	}
}
