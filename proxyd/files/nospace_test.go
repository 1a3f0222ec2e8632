// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// makeSmallFolder returns a folder of the test user's on a file system of 4 MiB.
func makeSmallFolder(t *testing.T) string {
	t.Helper()
	dir := ownFolder(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fillFolder takes all space of a folder's file system, and returns a function that frees the space again.
func fillFolder(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, rand.Reader); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func randomText() string {
	b := make([]byte, 1<<20)
	rand.Read(b)
	return string(b)
}

// TestPutBackWithoutSpace: a file makes PutBack fail if there is no space for its content, with the file's name and the
// reason; with space, a second PutBack succeeds.
func TestPutBackWithoutSpace(t *testing.T) {
	for name, change := range map[string]func(path string) []Entry{
		"removed":   func(path string) []Entry { os.Remove(path); return []Entry{{Kind: Removed, Path: path}} },
		"shortened": func(path string) []Entry { os.Truncate(path, 0); return []Entry{{Kind: Written, Path: path}} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := makeSmallFolder(t)
			path, content := filepath.Join(dir, "model.ckpt"), randomText()
			writeFile(t, path, content)
			shelf := newShelf()
			state := recordNow(t, nil, shelf, Job{}, Entry{Kind: Created, Path: path})
			want := describeTree(t, dir)
			after := change(path)
			empty := fillFolder(t, dir)
			_, err := PutBack(testDeadline(t), testUser, Job{}, state, TouchedFiles{Entries: after}, shelf)
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("PutBack without space: %v, want an error that names the file", err)
			}
			empty()
			r := putBackNow(t, state, shelf, Job{}, after...)
			if d := differentLines(want, describeTree(t, dir)); d != "" || len(r.Notes) > 0 {
				t.Errorf("after PutBack with space the files differ:\n%s%+v", d, r)
			}
		})
	}
}

// TestPutBackReason: PutBack says why the helper has failed, also if the helper was being sent more than a pipe can hold.
func TestPutBackReason(t *testing.T) {
	dir := makeSmallFolder(t)
	shelf := newShelf()
	var entries []Entry
	for _, name := range []string{"1", "2", "3"} {
		path := filepath.Join(dir, name)
		writeFile(t, path, randomText())
		entries = append(entries, Entry{Kind: Created, Path: path})
	}
	state := recordNow(t, nil, shelf, Job{}, entries...)
	for _, e := range entries {
		os.Truncate(e.Path, 0)
	}
	fillFolder(t, dir)
	_, err := PutBack(testDeadline(t), testUser, Job{}, state, TouchedFiles{Entries: entries}, shelf)
	if err == nil || !strings.Contains(err.Error(), entries[0].Path) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("PutBack without space: %v, want the file and the reason", err)
	}
}

// TestPutBackForbidden: a file that the user may not write any more is left alone, and noted.
func TestPutBackForbidden(t *testing.T) {
	dir := ownFolder(t)
	locked := filepath.Join(dir, "locked")
	entries := createdEntries(t, filepath.Join(locked, "f"), "before")
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, entries...)
	writeFile(t, entries[0].Path, "after")
	if err := errors.Join(os.Chown(locked, otherUID, otherUID), os.Chmod(locked, 0o700)); err != nil {
		t.Fatal(err)
	}
	r := putBackNow(t, state, shelf, Job{}, Entry{Kind: Written, Path: entries[0].Path})
	if !slices.ContainsFunc(r.Notes, func(n Note) bool { return string(n.Path) == entries[0].Path }) {
		t.Errorf("notes %+v, want one about the file that the user may not write", r.Notes)
	}
}

// TestWrittenFileIsSynced: an error that comes when a written file is made durable or closed counts.
func TestWrittenFileIsSynced(t *testing.T) {
	for name, closed := range map[string]bool{"fsync": false, "close": true} {
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a device that has no fsync
		if err != nil {
			t.Fatal(err)
		}
		if closed {
			f.Close()
		}
		w := contentWriter{path: "/home/a/f", file: f}
		w.finishFile()
		if err := w.syncFiles(); err == nil || !strings.Contains(err.Error(), "/home/a/f") {
			t.Errorf("%s: syncFiles = %v, want an error that names the file", name, err)
		}
	}
}
