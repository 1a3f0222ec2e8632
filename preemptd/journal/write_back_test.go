// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoved: when its file was removed under preemptd, a journal is written again with all actions, and later
// writes are in the new file.
func TestRemoved(t *testing.T) {
	for name, files := range map[string][]string{
		"the file":          {""},
		"the file and logs": {"", "-wal", "-shm"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "preemptd.db")
			j := openJournal(t, path)
			before, err := j.Begin(t.Context(), preempt)
			if err != nil {
				t.Fatal(err)
			}
			for _, suffix := range files {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := j.Take(t.Context()); !errors.Is(err, ErrLocked) {
				t.Errorf("the mandate is taken of a journal that is gone: %v", err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var told error
			if err := j.Keep(ctx, func(err error) { told = err; stop() }); err != nil || !errors.Is(told, errRemoved) {
				t.Fatalf("Keep: %v, told %v", err, told)
			}
			before.Step = "requeue"
			if err := j.Save(t.Context(), &before, "after that"); err != nil {
				t.Fatal(err)
			}
			if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
				t.Errorf("the new file: %v, %v", st, err)
			}
			id := j.ID()
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			again := openJournal(t, path)
			all, err := again.Unfinished(t.Context())
			if err != nil || len(all) != 1 || all[0].ID != before.ID || all[0].Step != "requeue" || again.ID() != id {
				t.Errorf("found again: %+v, %v; journal %s, was %s", all, err, again.ID(), id)
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left over: %q, %v", left, err)
			}
		})
	}
}

// TestReplaced: another file in the place of the open file ends the work, and is not written over.
func TestReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "preemptd.db")
	j := openJournal(t, path)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.Keep(t.Context(), nil); !errors.Is(err, ErrReplaced) {
		t.Errorf("Keep: %v", err)
	}
	if _, err := j.Take(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("Take: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the other file: %q, %v", b, err)
	}
}
