// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFullState: a State has a bounded length, whatever a job does to files. What the State describes is put back, and that
// there is more is said.
func TestFullState(t *testing.T) {
	dir := ownFolder(t)
	in := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%05d", i)) }
	target := strings.Repeat("\x01", 4000) // six times as long as JSON
	const links = 3500
	var entries []Entry
	for i := range links {
		if err := errors.Join(os.Symlink(target, in(i)), os.Lchown(in(i), testUID, testUID)); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{Kind: Symlinked, Path: in(i)})
	}
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, entries...)
	b, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > MaxState || len(state.Files) < links/2 || len(state.Files) == links || !state.Lost || !state.Full {
		t.Errorf("%d files in %d bytes; lost %v, full %v", len(state.Files), len(b), state.Lost, state.Full)
	}
	if got := reasonsOf(state.Notes); !strings.Contains(got, "changed more files than 56 MiB describe") {
		t.Errorf("notes: %.300s", got)
	}
	if err := os.Remove(in(0)); err != nil {
		t.Fatal(err)
	}
	r := putBackNow(t, state, shelf, Job{}, Entry{Kind: Removed, Path: in(0)})
	if got, err := os.Readlink(in(0)); got != target || err != nil || r.Restored != 1 || r.Removed != 0 {
		t.Errorf("put back: %v, restored %d, removed %d", err, r.Restored, r.Removed)
	}
	if _, err := os.Lstat(in(links - 1)); err != nil {
		t.Errorf("a link that the State does not describe: %v", err)
	}
	// The next State begins from this one.
	if again := recordNow(t, state, newShelf(), Job{}); !again.Lost || len(again.Files) != len(state.Files) {
		t.Errorf("the next State: lost %v, %d files", again.Lost, len(again.Files))
	}
}

// TestNotesBounded: a note is for people, and has a bounded length.
func TestNotesBounded(t *testing.T) {
	w := &worker{}
	for range 1100 {
		w.addProblem("/"+strings.Repeat("n", 4000), strings.Repeat("w", 4000))
	}
	if n := w.notes[0]; len(w.notes) != 1000 || len(n.Path) != 512 || len(n.Why) != 512 {
		t.Errorf("%d notes, of %d and %d bytes", len(w.notes), len(n.Path), len(n.Why))
	}
}

// TestFullTouched: what a journal returns takes a bounded amount of memory, and says if that is not all.
func TestFullTouched(t *testing.T) {
	j, _ := journalFor(t)
	name := "/" + strings.Repeat("n/", 2000)
	var entries []Entry
	for i := range maxTouched / len(name) {
		entries = append(entries, Entry{Kind: Closed, Path: fmt.Sprintf("%s%d", name, i)})
	}
	if err := j.Add(entries...); err != nil {
		t.Fatal(err)
	}
	got := touchedSince(t, j, 0)
	size := 0
	for _, e := range got.Entries {
		size += e.memorySize()
	}
	if size > maxTouched || len(got.Entries) < len(entries)/2 || len(got.Entries) == len(entries) || !got.Lost || !got.Full {
		t.Errorf("%d entries of %d, %d bytes, lost %v, full %v", len(got.Entries), len(entries), size, got.Lost, got.Full)
	}
}
