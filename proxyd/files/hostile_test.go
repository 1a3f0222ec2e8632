// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHostileRecord: if the user puts any paths into the list, Record reads no file that the user could not read, and
// does not block.
func TestHostileRecord(t *testing.T) {
	dir := ownFolder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	secret := filepath.Join(parent, "secret")
	if err := os.WriteFile(secret, []byte("TOP SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(parent, "closed")
	if err := errors.Join(os.Mkdir(closed, 0o700), os.WriteFile(filepath.Join(closed, "f"), []byte("TOP SECRET"), 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(closed); os.Remove(secret) })
	if err := errors.Join(
		os.Symlink(secret, in("link")), os.Symlink(closed, in("folder")), os.Symlink("/proc/1", in("proc")),
		unix.Mkfifo(in("fifo"), 0o666), unix.Mknod(in("device"), unix.S_IFCHR|0o666, 1<<8|5), // /dev/zero
		os.Symlink("b", in("a")), os.Symlink("a", in("b")), os.Link(secret, in("hardlink")),
	); err != nil {
		t.Fatal(err)
	}
	writeFile(t, in("mine"), "mine")
	shelf := newShelf()
	var entries []Entry
	for _, p := range []string{
		secret, closed + "/f", in("link"), in("folder/f"), in("proc/mem"), in("fifo"), in("device"), in("a"), in("a/x"), in("hardlink"),
		"/proc/1/mem", "/proc/self/mem", "/dev/zero", "/etc/shadow", "/etc/passwd/x", "/", "/..", "/../../etc/shadow", in("mine"), in("mine/x"),
		in(strings.Repeat("n", 300)), "/" + strings.Repeat("d/", 2000) + "x", in("no\xffutf8"), "/sys/kernel/x", "/dev/shm/x",
	} {
		for _, k := range []Kind{Created, Written, Unsure} {
			entries = append(entries, Entry{Kind: k, Path: p})
		}
		entries = append(entries, Entry{Kind: Renamed, Path: p, Other: in("mine")}, Entry{Kind: Linked, Path: in("y"), Other: p})
	}
	state := recordNow(t, nil, shelf, Job{}, entries...)
	for name, b := range shelf.streams {
		if strings.Contains(string(b), "SECRET") || strings.Contains(string(b), "root:") {
			t.Errorf("stream %s has what only root can read", name)
		}
	}
	for p, f := range state.Files {
		if belowAny(string(p), travelling) {
			t.Errorf("%s was recorded", p)
		}
		if len(f.Data) > 0 && string(p) != in("mine") {
			t.Errorf("%s has content: %+v", p, f)
		}
	}
	if state.Files[Name(in("mine"))] == nil || state.Files[Name(in("fifo"))].Type != Fifo {
		t.Errorf("the user's own are not there: %+v", state.Files)
	}
	throughJSON(t, state)
}

// TestHostilePutBack: PutBack writes, makes and removes no file that the user could not.
func TestHostilePutBack(t *testing.T) {
	dir := ownFolder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	writeFile(t, in("f"), "old content")
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, Entry{Kind: Created, Path: in("f")})
	good := state.Files[Name(in("f"))]
	victim := filepath.Join(parent, "victim")
	others := filepath.Join(dir, "others")
	if err := errors.Join(os.WriteFile(victim, []byte("root's"), 0o644), os.WriteFile(others, []byte("other's"), 0o666),
		os.Chown(others, otherUID, otherUID), os.Chmod(others, 0o666),
		os.Remove(in("f")), os.Symlink(victim, in("f")), // swapped after the cut
		os.Symlink(parent, in("folder")), unix.Mkfifo(in("fifo"), 0o666)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(victim) })
	for _, p := range []string{victim, in("folder/victim"), "/etc/passwd", in("fifo"), others, filepath.Join(parent, "new"), "/proc/self/mem"} {
		forged := *good
		state.Files[Name(p)] = &forged
	}
	var entries []Entry
	for _, p := range []string{victim, "/etc/passwd", in("folder/victim"), others, parent, "/etc"} {
		entries = append(entries, Entry{Kind: Created, Path: p}, Entry{Kind: Renamed, Path: p, Other: in("moved")})
	}
	r := putBackNow(t, state, shelf, Job{}, entries...)
	if got := readFile(t, victim); got != "root's" {
		t.Errorf("root's file: %q", got)
	}
	if got := readFile(t, others); got != "other's" {
		t.Errorf("another user's file: %q", got)
	}
	if _, err := os.Lstat(filepath.Join(parent, "new")); err == nil {
		t.Error("PutBack has made a file in a folder in which the user may not make one")
	}
	if len(r.Notes) == 0 {
		t.Error("PutBack has left a file alone, and the report has no note")
	}
}
