// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestPutBackAgain: the same changes are undone a second time, because the first PutBack failed, or because the node
// crashed before Rewind. A folder that the first PutBack could not move back, and has kept in the place of the recorded
// folder, could be moved by the second PutBack, with the files that the first has put back into it.
func TestPutBackAgain(t *testing.T) {
	needRoot(t)
	for name, first := range map[string]struct {
		loader func(l Loader) Loader
		want   error
	}{
		"the first failed":    {loader: func(l Loader) Loader { return &failing{l, 1, 3} }, want: errFails},
		"the first succeeded": {loader: func(l Loader) Loader { return l }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownFolder(t)
			in := func(name string) string { return filepath.Join(dir, name) }
			shelf := newShelf()
			// The State knows that x/h was missing: a file system's clock is too coarse to tell by the time of birth.
			before := append(makeFolder(t, in("d")), Entry{Kind: Removed, Path: in("x/h")})
			for _, f := range []string{"d/f", "d/g"} {
				before = append(before, createdEntries(t, in(f), "12345")...)
			}
			state := recordNow(t, nil, shelf, Job{}, before...)
			want := describeTree(t, dir)

			var after []Entry
			change := func(entries ...Entry) { after = append(after, entries...) }
			change(moveAside(t, in("old"), in("d")))
			if err := os.Remove(in("old/f")); err != nil {
				t.Fatal(err)
			}
			change(Entry{Kind: Removed, Path: in("old/f")})
			change(makeFolder(t, in("x"))...)
			change(moveAside(t, in("d"), in("x")))
			// A program that bypasses the shim writes x/h: when the names are undone, the new x is not empty, and stays.
			change(makeFolder(t, in("x"))...)
			writeFile(t, in("x/h"), "new")
			change(Entry{Kind: Closed, Path: in("x/h")})

			_, err := PutBack(testDeadline(t), testUser, Job{}, state, TouchedFiles{Entries: after}, first.loader(shelf))
			if !errors.Is(err, first.want) {
				t.Fatalf("the first PutBack: %v, want %v", err, first.want)
			}
			folder := inodeOf(t, in("d"))
			if r := putBackNow(t, state, shelf, Job{}, after...); len(r.Notes) > 0 {
				t.Errorf("notes of the second PutBack: %v", r.Notes)
			}
			if d := differentLines(want, describeTree(t, dir)); d != "" {
				t.Errorf("after the second PutBack:\n%s", d)
			}
			if now := inodeOf(t, in("d")); now != folder {
				t.Errorf("d is inode %d after the second PutBack, and was %d after the first", now, folder)
			}
		})
	}
}

// makeFolder makes a folder as the job would.
func makeFolder(t *testing.T, path string) []Entry {
	t.Helper()
	if err := errors.Join(os.Mkdir(path, 0o755), os.Chown(path, testUID, testUID)); err != nil {
		t.Fatal(err)
	}
	return []Entry{{Kind: Folder, Path: path}}
}

// moveAside gives a file a new name, as the job would, where no file is.
func moveAside(t *testing.T, to, from string) Entry {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	return Entry{Kind: Renamed, Path: to, Other: from}
}

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	st, err := statLink(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Ino
}
