// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFullState: a State has a bounded length, even if a job changes very many files. The files that the State
// describes are put back, and a note says that there are more.
func TestFullState(t *testing.T) {
	dir := ownFolder(t)
	in := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%05d", i)) }
	target := strings.Repeat("\x01", 4000) // six times as long as JSON
	const links = 100
	defer func(was int) { maxDescribed = was }(maxDescribed)
	maxDescribed = 2 << 20
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
	if len(b) > 3<<20 || len(state.Files) < links/2 || len(state.Files) == links || !state.Lost || !state.Full {
		t.Errorf("%d files in %d bytes; lost %v, full %v", len(state.Files), len(b), state.Lost, state.Full)
	}
	if got := reasonsOf(state.Notes); !strings.Contains(got, "changed more files than 2 MiB describe") {
		t.Errorf("notes: %.300s", got)
	}
	if err := os.Remove(in(0)); err != nil {
		t.Fatal(err)
	}
	r := putBackNow(t, state, shelf, Job{}, Entry{Kind: Removed, Path: in(0)})
	if got, err := os.Readlink(in(0)); got != target || err != nil || r.Restored != 1 || r.Removed != 0 {
		t.Errorf("PutBack of a described link: %v, restored %d, removed %d; want the link restored", err, r.Restored, r.Removed)
	}
	if _, err := os.Lstat(in(links - 1)); err != nil {
		t.Errorf("a link that the State does not describe: %v", err)
	}
	// The next State begins from this one.
	if again := recordNow(t, state, newShelf(), Job{}); !again.Lost || len(again.Files) != len(state.Files) {
		t.Errorf("the next State: lost %v, %d files", again.Lost, len(again.Files))
	}
}

// TestManyRemoved: a State does not grow with each temporary file that the job has ever had, and without these all that a
// job makes after the cut is removed all the same, also at such a path.
func TestManyRemoved(t *testing.T) {
	dir := ownFolder(t)
	defer func(was int) { maxMissing = was }(maxMissing)
	maxMissing = 10
	in := func(i int) string { return filepath.Join(dir, fmt.Sprintf("%05d", i)) }
	temporary := func(from, to int) (entries []Entry) {
		for i := from; i < to; i++ {
			entries = append(entries, Entry{Kind: Created, Path: in(i)}, Entry{Kind: Removed, Path: in(i)})
		}
		return entries
	}
	expect := func(s *State, kept ...int) {
		t.Helper()
		if len(s.Files) != len(kept)+1 || s.Files[Name(filepath.Join(dir, "kept"))] == nil || s.Lost {
			t.Errorf("the State has %d paths, lost %v; want kept and %d that are gone", len(s.Files), s.Lost, len(kept))
		}
		for _, i := range kept {
			if f := s.Files[Name(in(i))]; f == nil || f.Type != Missing {
				t.Errorf("%s: %+v, want missing", in(i), f)
			}
		}
	}
	writeFile(t, filepath.Join(dir, "kept"), "kept")
	first := append(temporary(0, 4), Entry{Kind: Created, Path: filepath.Join(dir, "kept")})
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, first...)
	expect(state, 0, 1, 2, 3)
	state = recordNow(t, state, shelf, Job{}, temporary(10, 30)...)
	expect(state, 0, 1, 2, 3, 10, 11, 12, 13, 14, 15)
	state = recordNow(t, state, shelf, Job{}, temporary(40, 42)...)
	expect(state, 40, 41)

	// 5: named by the shim. 15: a program that bypasses the shim made the file. 16: the change list does not know whether
	// the file is there.
	waitForLaterFiles(t, dir, state)
	for _, i := range []int{5, 15, 16} {
		writeFile(t, in(i), "made after the cut")
	}
	r := putBackNow(t, state, shelf, Job{}, Entry{Kind: Created, Path: in(5)}, Entry{Kind: Closed, Path: in(15)}, Entry{Kind: Unsure, Path: in(16)})
	for _, i := range []int{5, 15, 16} {
		if _, err := os.Lstat(in(i)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s, made after the cut: %v, want that it is gone; notes: %s", in(i), err, reasonsOf(r.Notes))
		}
	}
	if got := readFile(t, filepath.Join(dir, "kept")); got != "kept" || r.Removed != 3 {
		t.Errorf("kept has %q, %d files are removed; want kept, 3", got, r.Removed)
	}
}

// waitForLaterFiles returns when a new file in dir is born after the State by the file system's clock, which advances in
// steps of some milliseconds.
func waitForLaterFiles(t *testing.T, dir string, s *State) {
	t.Helper()
	b := &backer{worker: &worker{state: s}}
	for probe := filepath.Join(dir, "probe"); ; {
		writeFile(t, probe, "")
		later := b.isNew(probe)
		if err := os.Remove(probe); err != nil {
			t.Fatal(err)
		}
		if later {
			return
		}
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

// TestFullTouched: the result of Since takes a bounded amount of memory, and says if entries are left out.
func TestFullTouched(t *testing.T) {
	j, _ := changeListFor(t)
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
		size += e.countBytes()
	}
	if size > maxTouched || len(got.Entries) < len(entries)/2 || len(got.Entries) == len(entries) || !got.Lost || !got.Full {
		t.Errorf("%d entries of %d, %d bytes, lost %v, full %v", len(got.Entries), len(entries), size, got.Lost, got.Full)
	}
}

// TestHelperIsPaid: the memory of a helper with much to do counts for the job, and where memory is short there the helper ends
// before the job's processes. A job at its limit of memory is captured all the same if there is little to do.
func TestHelperIsPaid(t *testing.T) {
	needRoot(t)
	group := makeCgroup(t)
	u := testUser
	u.Cgroup = group
	for work, want := range map[int]bool{0: false, muchWork: true} {
		h, err := startHelper(testDeadline(t), u, work)
		if err != nil {
			t.Fatal(err)
		}
		pids, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if has := string(pids) == fmt.Sprintln(h.cmd.Process.Pid); err != nil || has != want {
			t.Errorf("work of %d bytes: process %d, and the cgroup has %q, %v", work, h.cmd.Process.Pid, pids, err)
		}
		score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", h.cmd.Process.Pid))
		if (string(score) == "1000\n") != want || err != nil {
			t.Errorf("work of %d bytes: oom_score_adj %s, %v", work, score, err)
		}
		_ = h.endHelper(context.Background(), io.EOF)
	}
	u.Cgroup = t.TempDir()
	if h, err := startHelper(testDeadline(t), u, muchWork); err == nil {
		t.Error("a helper with much to do runs outside of the cgroup")
		_ = h.endHelper(context.Background(), io.EOF)
	}
	many := &State{Files: FileMap{"/a": {Data: make([]Segment, muchWork/128)}}}
	if estimateWork(nil, nil) != 0 || estimateWork(many, nil) < muchWork || estimateWork(nil, make([]Entry, muchWork/56+1)) < muchWork {
		t.Error("estimateWork: want 0 without a State and entries, and muchWork or more with many")
	}
}

// makeCgroup returns the path of a new cgroup v2; it skips the test on a host where tests cannot make one.
func makeCgroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		if dir, err := os.MkdirTemp(root, "files-test-"); err == nil {
			t.Cleanup(func() { _ = os.Remove(dir) })
			return dir
		}
	}
	t.Skip("SKIP: needs root and cgroup v2")
	return ""
}
