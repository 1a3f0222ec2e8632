// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func recordNow(t testing.TB, before *State, s Saver, job Job, entries ...Entry) *State {
	t.Helper()
	state, err := Record(testDeadline(t), testUser, job, before, TouchedFiles{Entries: entries}, s)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func putBackNow(t testing.TB, at *State, l Loader, job Job, entries ...Entry) Report {
	t.Helper()
	r, err := PutBack(testDeadline(t), testUser, job, at, TouchedFiles{Entries: entries}, l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// writeFile makes a file of the test user's.
func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(content), 0o644), os.Chown(path, testUID, testUID)); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err != nil {
		return "<missing>"
	}
	return string(b)
}

func reasonsOf(notes []Note) string {
	var all []string
	for _, n := range notes {
		all = append(all, filepath.Base(string(n.Path))+": "+n.Why)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func createdEntries(t testing.TB, path, content string) []Entry {
	dir := filepath.Dir(path)
	if _, err := os.Lstat(dir); err != nil {
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, testUID, testUID)); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, path, content)
	return []Entry{{Kind: Created, Path: path}}
}

func appendTo(t testing.TB, path, content string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(content)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRecordSavesChanges: unchanged files are neither read nor saved again, of files that were appended to only the end
// is saved, and old streams do not grow without bound.
func TestRecordSavesChanges(t *testing.T) {
	dir := ownFolder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	shelf := newShelf()
	writeFile(t, in("big"), strings.Repeat("0123456789abcdef", 1<<20)) // 4 segments
	writeFile(t, in("log"), strings.Repeat("line\n", 1<<20))           // 5 MiB
	entries := []Entry{{Kind: Created, Path: in("big")}, {Kind: Created, Path: in("log")}}
	one := recordNow(t, nil, shelf, Job{}, entries...)
	first := shelf.totalSize()
	two := recordNow(t, one, shelf, Job{})
	if shelf.totalSize() != first || len(two.Streams) != 1 || !slices.Equal(shelf.kept, []string{"files-1"}) {
		t.Errorf("%d bytes after %d, kept %v", shelf.totalSize(), first, shelf.kept)
	}
	// Twice: at the first cut, it may still have been open otherwise.
	appendTo(t, in("log"), "more\n")
	two = recordNow(t, two, shelf, Job{}, Entry{Kind: Appended, Path: in("log"), Size: 5 << 20})
	first = shelf.totalSize()
	appendTo(t, in("log"), "more\n")
	three := recordNow(t, two, shelf, Job{}, Entry{Kind: Appended, Path: in("log"), Size: 5 << 20})
	if grew := shelf.totalSize() - first; grew > maxSegment {
		t.Errorf("5 appended bytes cost %d", grew)
	}
	f, _ := os.OpenFile(in("big"), os.O_WRONLY, 0)
	f.WriteAt([]byte("X"), 5<<20)
	f.Close()
	second := shelf.totalSize()
	four := recordNow(t, three, shelf, Job{}, Entry{Kind: Written, Path: in("big")})
	if grew := shelf.totalSize() - second; grew != maxSegment {
		t.Errorf("a changed byte cost %d", grew)
	}
	want := describeTree(t, dir)
	os.Remove(in("big"))
	os.Remove(in("log"))
	r := putBackNow(t, four, shelf, Job{})
	if d := differentLines(want, describeTree(t, dir)); d != "" || r.Restored != 2 {
		t.Errorf("after PutBack the files differ: %s; report %+v, want 2 restored", d, r)
	}
	// When most of a stream is not used any more, the rest is saved anew.
	os.Truncate(in("big"), 100)
	five := recordNow(t, four, shelf, Job{}, Entry{Kind: Written, Path: in("big")})
	six := recordNow(t, five, shelf, Job{})
	if _, ok := six.Streams["files-1"]; ok {
		t.Errorf("the first stream is still in use: %v", six.Streams)
	}
	// Without a Keeper everything is saved again.
	plain := struct{ Saver }{newShelf()}
	if s := recordNow(t, six, plain, Job{}); len(s.Streams) != 1 || s.Streams["files-8"] == 0 {
		t.Errorf("streams %v", s.Streams)
	}
}

// TestSparse: a hole is neither saved nor filled, and content that was written into it later is removed.
func TestSparse(t *testing.T) {
	dir := ownFolder(t)
	p := filepath.Join(dir, "f")
	writeFile(t, p, "begin")
	f, _ := os.OpenFile(p, os.O_WRONLY, 0)
	f.WriteAt([]byte("end"), 1<<40)
	f.Close()
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, Entry{Kind: Created, Path: p})
	if shelf.totalSize() > 100 {
		t.Errorf("Record of a sparse file has saved %d bytes", shelf.totalSize())
	}
	f, _ = os.OpenFile(p, os.O_WRONLY, 0)
	f.WriteAt([]byte("in the hole"), 1<<39)
	f.Close()
	check := func() {
		t.Helper()
		putBackNow(t, state, shelf, Job{}, Entry{Kind: Created, Path: p})
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 11)
		f.ReadAt(b, 1<<39)
		st, _ := f.Stat()
		if string(b) != strings.Repeat("\x00", 11) || st.Size() != 1<<40+3 || st.Sys().(*syscall.Stat_t).Blocks > 64 {
			t.Errorf("after PutBack the hole has %q, the file %d bytes and %d blocks", b, st.Size(), st.Sys().(*syscall.Stat_t).Blocks)
		}
	}
	check()
	os.Remove(p)
	check()
}

// damaged is a Loader with streams of other content than was saved.
type damaged struct{ *shelf }

func (d damaged) Open(name string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(strings.Repeat("x", len(d.streams[name])))), nil
}

// TestPutBackFails: content that cannot be loaded, or differs from the saved content, is an error, and a later PutBack
// can succeed.
func TestPutBackFails(t *testing.T) {
	dir := ownFolder(t)
	p := filepath.Join(dir, "f")
	writeFile(t, p, "content")
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, Entry{Kind: Created, Path: p})
	os.Remove(p)
	for name, l := range map[string]Loader{"damaged": damaged{shelf}, "missing": newShelf()} {
		if _, err := PutBack(testDeadline(t), testUser, Job{}, state, TouchedFiles{}, l); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := readFile(t, p); strings.Contains(got, "x") {
			t.Errorf("%s: wrote %q", name, got)
		}
	}
	// A killed helper.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := PutBack(ctx, testUser, Job{}, state, TouchedFiles{}, shelf); !errors.Is(err, context.Canceled) {
		t.Errorf("PutBack with a cancelled ctx: %v", err)
	}
	putBackNow(t, state, shelf, Job{})
	if got := readFile(t, p); got != "content" {
		t.Errorf("after a PutBack that succeeds, the file has %q", got)
	}
	if _, err := Record(testDeadline(t), testUser, Job{}, nil, TouchedFiles{Entries: []Entry{{Kind: Created, Path: p}}}, full{}); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("Record with a Saver that is full: %v", err)
	}
}

// full is a Saver that has no space.
type full struct{}

func (full) Create(string) (io.WriteCloser, error) { return full{}, nil }
func (full) Write([]byte) (int, error)             { return 0, unix.ENOSPC }
func (full) Close() error                          { return nil }

// TestNameThatIsNoText: a file with a name that is no UTF-8 is put back under that name, and so is a link to it.
func TestNameThatIsNoText(t *testing.T) {
	dir := ownFolder(t)
	folder, name, link := filepath.Join(dir, "\xfe"), filepath.Join(dir, "\xfe", "\xff"), filepath.Join(dir, "link")
	entries := createdEntries(t, name, "content")
	if err := errors.Join(os.Symlink(name, link), os.Lchown(link, testUID, testUID)); err != nil {
		t.Fatal(err)
	}
	shelf := newShelf()
	state := recordNow(t, nil, shelf, Job{}, append(entries, Entry{Kind: Symlinked, Path: link})...)
	if state.Files[Name(name)] == nil || state.Parents[Name(folder)] == nil {
		t.Errorf("recorded: %+v, folders %+v", state.Files, state.Parents)
	}
	if err := errors.Join(os.RemoveAll(folder), os.Remove(link)); err != nil {
		t.Fatal(err)
	}
	putBackNow(t, state, shelf, Job{})
	if got := readFile(t, link); got != "content" {
		t.Errorf("after PutBack the file behind the link has %q", got)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("entries of the folder: %v, %v; want two", all, err)
	}
}

// TestFailureNumber: the failure of a helper has the number of the error that the helper met.
func TestFailureNumber(t *testing.T) {
	var sent bytes.Buffer
	p := newPipe(nil, &sent)
	if err := errors.Join(p.sendFailure(fmt.Errorf("join: %w", syscall.ESTALE)), p.flushFrames()); err != nil {
		t.Fatal(err)
	}
	h := &userHelper{pipe: newPipe(&sent, io.Discard)}
	if _, _, err := h.nextMessage(); !errors.Is(err, syscall.ESTALE) || err.Error() != "join: "+syscall.ESTALE.Error() {
		t.Errorf("failure of a helper: %v", err)
	}
}
