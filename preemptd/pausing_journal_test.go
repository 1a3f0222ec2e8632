// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
)

// lines is a journal that remembers what it was given.
type lines struct {
	action.Journal
	all []string
}

func (l *lines) Save(_ context.Context, a *journal.Action, _ string) error {
	l.all = append(l.all, a.Step+" "+string(a.State))
	return nil
}

// TestPauses: with the name of a step the process stops once the journal has it, with ! as
// long as the journal does not have that it is done; else it never does.
func TestPauses(t *testing.T) {
	const stop = "stop"
	life := []journal.Action{
		{ID: 1, Step: "survey", State: journal.Going}, {ID: 1, Step: "park", State: journal.Going},
		{ID: 1, Step: "park", State: journal.Going, Attempt: 1}, {ID: 1, Step: "told", State: journal.Going}, {ID: 1, Step: "told", State: journal.Done},
	}
	for at, want := range map[string][]string{
		"":        {"survey going", "park going", "park going", "told going", "told done"},
		"start":   {"survey going", "park going", "park going", "told going", "told done"},
		"survey":  {"survey going", stop, "park going", "park going", "told going", "told done"},
		"survey!": {"survey going", stop, "park going", "park going", "told going", "told done"},
		"park":    {"survey going", "park going", stop, "park going", "told going", "told done"},
		"park!":   {"survey going", "park going", "park going", stop, "told going", "told done"},
		"told":    {"survey going", "park going", "park going", "told going", stop, "told done"},
		"told!":   {"survey going", "park going", "park going", "told going", stop, "told done"},
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
			t.Errorf("%q: %q", at, l.all)
		}
		if len(p.steps) != 0 {
			t.Errorf("%q: what has ended is remembered", at)
		}
	}
}
