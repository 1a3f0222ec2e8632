// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package filestate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// saveCheckpoint saves a checkpoint of a run, in which the state of capsule 0 has a mark. With old, the manifest lacks the
// mark, as manifests of older releases do.
func saveCheckpoint(t *testing.T, s *store.Store, number uint32, run int, mark files.Mark, old bool) {
	t.Helper()
	id := checkpoint
	id.Number = number
	w, err := s.Create(t.Context(), store.Upload{ID: id, Node: "n1"})
	requireNoError(t, err)
	summary, err := Save(upload.StoreShare{Writer: w, Node: "n1"}, "0/", &files.State{Serial: int(number), Mark: mark})
	requireNoError(t, err)
	if old {
		summary.Mark = 0
	}
	meta := records.Meta{Run: run, Capsules: []records.CapsuleMeta{{Index: 0, Node: "n1", FilesSummary: summary}}}
	b, err := meta.Encode()
	requireNoError(t, err)
	_, err = w.Commit(t.Context(), b)
	requireNoError(t, err)
}

// TestOldestMark: the least mark counts, whichever checkpoint has it, and a checkpoint of which the mark is not known
// counts as one that needs all changes.
func TestOldestMark(t *testing.T) {
	s, dir := openStore(t)
	want := func(index int, want files.Mark) {
		t.Helper()
		if got, err := OldestMark(t.Context(), s, checkpoint.JobID, index); err != nil || got != want {
			t.Errorf("OldestMark of capsule %d = %d, %v; want %d", index, got, err, want)
		}
	}
	want(0, 0)
	saveCheckpoint(t, s, 1, 0, 300, false)
	want(0, 300)
	want(1, 0) // the checkpoint does not have this capsule
	saveCheckpoint(t, s, 2, 1, 200, false)
	want(0, 200)
	saveCheckpoint(t, s, 3, 1, 400, false)
	want(0, 200)
	saveCheckpoint(t, s, 4, 1, 500, true)
	want(0, 0)
	last := checkpoint
	last.Number = 4
	requireNoError(t, s.Delete(t.Context(), last))
	want(0, 200)
	damageManifest(t, dir, 1)
	want(0, 0)
}

// damageManifest changes a byte in the manifest of a checkpoint.
func damageManifest(t *testing.T, dir string, number uint32) {
	t.Helper()
	id := checkpoint
	id.Number = number
	damaged := 0
	requireNoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "manifest") || !strings.Contains(path, id.String()) {
			return err
		}
		b, err := os.ReadFile(path)
		requireNoError(t, err)
		b[len(b)/2] ^= 1
		damaged++
		return os.WriteFile(path, b, 0o600)
	}))
	if damaged != 1 {
		t.Fatalf("%d manifests of %s were found, want 1", damaged, id)
	}
}

// TestLoadNewest: the newest checkpoint of the run from the mark on.
func TestLoadNewest(t *testing.T) {
	s, _ := openStore(t)
	saveCheckpoint(t, s, 1, 1, 100, false)
	saveCheckpoint(t, s, 2, 2, 200, false)
	saveCheckpoint(t, s, 3, 2, 300, false)
	saveCheckpoint(t, s, 4, 1, 400, false) // of another run
	for _, c := range []struct {
		run   int
		since files.Mark
		want  int
	}{{2, 0, 3}, {2, 300, 3}, {2, 301, 0}, {1, 0, 4}, {3, 0, 0}} {
		got, err := LoadNewest(t.Context(), s, checkpoint.JobID, c.run, 0, c.since)
		if err != nil || (got != nil) != (c.want != 0) || got != nil && got.Serial != c.want {
			t.Errorf("LoadNewest of run %d since %d: %+v, %v; want that of checkpoint %d", c.run, c.since, got, err, c.want)
		}
	}
}
