// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// parentsOf is how tests have a job write files in folders that no entry of the change list names, as after a program that
// bypasses the shim.
func parentsOf(t *testing.T, dir string) []Entry {
	t.Helper()
	past := time.Unix(1e9, 123456789)
	deep := filepath.Join(dir, "a/b")
	err := os.MkdirAll(deep, 0o755)
	writeFile(t, filepath.Join(deep, "f"), "deep")
	writeFile(t, filepath.Join(dir, "a/g"), "flat")
	for p, mode := range map[string]uint32{"a/b": 0o500, "a": 0o2710} {
		p = filepath.Join(dir, p)
		err = errors.Join(err, os.Chown(p, testUID, 777), unix.Chmod(p, mode), os.Chtimes(p, past, past))
	}
	if err != nil {
		t.Fatal(err)
	}
	return []Entry{{Kind: Closed, Path: filepath.Join(deep, "f")}, {Kind: Closed, Path: filepath.Join(dir, "a/g")}}
}

// TestParents: a folder that is gone and has to be made for a file in it has the permissions, group and time that it had at
// the cut, also if PutBack failed meanwhile.
func TestParents(t *testing.T) {
	dir := ownFolder(t)
	user := testUser
	user.Groups = []uint32{777}
	shelf := newShelf()
	state, err := Record(testDeadline(t), user, Job{}, nil, TouchedFiles{Entries: parentsOf(t, dir)}, shelf)
	if err != nil {
		t.Fatal(err)
	}
	want := describeTree(t, dir)
	state = throughJSON(t, state)
	for opens := range 3 { // the last does not fail
		if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
			t.Fatal(err)
		}
		_, err := PutBack(testDeadline(t), user, Job{}, state, TouchedFiles{}, &failing{shelf, opens, 2 * opens})
		if err != nil && !errors.Is(err, errFails) {
			t.Fatal(err)
		}
		report, err := PutBack(testDeadline(t), user, Job{}, state, TouchedFiles{}, shelf)
		if err != nil || len(report.Notes) > 0 {
			t.Fatalf("%v, notes %v", err, report.Notes)
		}
		if d := differentLines(want, describeTree(t, dir)); d != "" {
			t.Errorf("after a failure at %d:\n%s", opens, d)
		}
	}
}

// TestParentsStay: folders on the way to a file are not touched if they still exist, even with other permissions. A
// folder that was another user's is made again, with a note.
func TestParentsStay(t *testing.T) {
	dir := ownFolder(t)
	state := recordNow(t, nil, newShelf(), Job{}, parentsOf(t, dir)...)
	a := filepath.Join(dir, "a")
	if err := errors.Join(os.Chmod(a, 0o700), os.Chown(a, testUID, testUID)); err != nil {
		t.Fatal(err)
	}
	want := describeTree(t, dir)
	if r := putBackNow(t, state, newShelf(), Job{}); len(r.Notes) > 0 {
		t.Errorf("notes %v, want none: the folders are there", r.Notes)
	}
	if d := differentLines(want, describeTree(t, dir)); d != "" {
		t.Errorf("a folder that was there:\n%s", d)
	}

	others := filepath.Join(dir, "others")
	if err := errors.Join(os.Mkdir(others, 0o777), os.Chown(others, otherUID, otherUID), os.Chmod(others, 0o777)); err != nil {
		t.Fatal(err)
	}
	shelf := newShelf()
	state = recordNow(t, nil, shelf, Job{}, createdEntries(t, filepath.Join(others, "f"), "x")...)
	if err := os.RemoveAll(others); err != nil {
		t.Fatal(err)
	}
	r := putBackNow(t, state, shelf, Job{})
	if got, want := reasonsOf(r.Notes), "others: made: it was not there any more, and what it was is not known"; got != want {
		t.Errorf("notes of PutBack %q, want %q", got, want)
	}
	var st unix.Stat_t
	if err := unix.Lstat(others, &st); err != nil || fmt.Sprintf("%d %o", st.Uid, st.Mode&0o7777) != fmt.Sprintf("%d 755", testUID) {
		t.Errorf("stat of the folder that was made again: %v: user %d, mode %o", err, st.Uid, st.Mode)
	}
}
