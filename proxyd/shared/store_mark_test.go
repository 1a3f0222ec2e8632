// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shared_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// openFolder marks a folder, if it is not marked, and opens it as a node does.
func openFolder(t *testing.T, dir, lib string) *shared.Folder {
	t.Helper()
	if _, _, err := shared.Init(dir, "mini"); err != nil {
		t.Fatal(err)
	}
	f, err := shared.Open(dir, lib)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestStore moves the store's folder while a daemon runs and between its runs, and checks the
// errors.
func TestStore(t *testing.T) {
	dir, lib := t.TempDir(), t.TempDir()
	f := openFolder(t, dir, lib)
	if err := f.OpenStore(); err != nil {
		t.Fatal(err)
	}
	store, away := filepath.Join(dir, "store"), filepath.Join(dir, "away")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want error) {
		t.Helper()
		if err := f.Check(); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: Check: %v, want %v", what, err, want)
		}
		if err := openFolder(t, dir, lib).OpenStore(); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: OpenStore: %v, want %v", what, err, want)
		}
		if err := openFolder(t, dir, t.TempDir()).OpenStore(); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s, on a new node: OpenStore: %v, want %v", what, err, want)
		}
	}
	expect("untouched", nil)

	move(store, away)
	expect("the store is deleted", shared.ErrNoStore)
	if _, err := os.Lstat(store); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a store was made in the place of the one that is missing: %v", err)
	}
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	expect("an empty folder is in its place", shared.ErrNoStore)
	if left, err := os.ReadDir(store); err != nil || len(left) != 0 {
		t.Errorf("the empty folder has %v, %v", left, err)
	}

	other := t.TempDir()
	if err := openFolder(t, other, t.TempDir()).OpenStore(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	move(filepath.Join(other, "store"), store)
	expect("another store is in its place", shared.ErrOtherStore)

	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	move(away, store)
	expect("the store is back", nil)

	// An administrator begins with a new store.
	if err := errors.Join(os.RemoveAll(store), os.Remove(filepath.Join(dir, "store.json"))); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); !errors.Is(err, shared.ErrNoStore) {
		t.Errorf("Check by the daemon of the old store: %v", err)
	}
	if err := openFolder(t, dir, lib).OpenStore(); err != nil {
		t.Errorf("OpenStore after the old store was removed: %v", err)
	}
}

// TestStoreOfOlderRelease: a store without a mark gets a mark and keeps its files, also from many nodes at once.
func TestStoreOfOlderRelease(t *testing.T) {
	dir := t.TempDir()
	folders := make([]*shared.Folder, 8)
	for i := range folders {
		folders[i] = openFolder(t, dir, t.TempDir())
	}
	if err := os.MkdirAll(filepath.Join(dir, "store", "chunks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, f := range folders {
		all.Go(func() {
			if err := f.OpenStore(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, f := range folders {
		if err := f.Check(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "store", "chunks")); err != nil {
		t.Error(err)
	}
}
