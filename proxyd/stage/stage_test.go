// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

func idOf(t *testing.T, text string) store.ID {
	t.Helper()
	i, err := store.ParseID(text)
	noError(t, err)
	return i
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openStage is a Stage in a folder on a disk, or in memory.
func openStage(t *testing.T, dir string, size uint64) *Stage {
	t.Helper()
	s, err := Open(dir, size)
	noError(t, err)
	return s
}

func newFolder(t *testing.T) string {
	dir := t.TempDir()
	noError(t, os.Chmod(dir, 0o700))
	return dir
}

func putStream(t *testing.T, h *Share, name string, data []byte) {
	t.Helper()
	f, err := h.Create(name)
	noError(t, err)
	_, err = f.Write(data)
	noError(t, errors.Join(err, f.Close()))
}

func checkKept(t *testing.T, s *Stage, i store.ID, size int) {
	t.Helper()
	h, err := s.Create(i)
	noError(t, err)
	putStream(t, h, "pages", make([]byte, size))
	noError(t, h.Commit(nil))
}

func listStreams(t *testing.T, s *Stage, job *store.JobID) string {
	t.Helper()
	all, err := s.List(job)
	noError(t, err)
	var ids []string
	for _, sum := range all {
		noError(t, sum.Err)
		ids = append(ids, sum.ID.String())
	}
	return strings.Join(ids, " ")
}

// TestShare: written streams can be read, under any name, but not before the commit.
func TestShare(t *testing.T) {
	for _, dir := range []string{newFolder(t), memoryFolder(t)} {
		s := openStage(t, dir, 0)
		i := idOf(t, "mini/7/1")
		h, err := s.Create(i)
		noError(t, err)
		var g sync.WaitGroup
		want := map[string][]byte{}
		for n := range 40 {
			name, data := fmt.Sprintf("%d/files/../%s\n", n, strings.Repeat("x", 300)), bytes.Repeat([]byte{byte(n)}, n*n*1000)
			want[name] = data
			g.Go(func() { putStream(t, h, name, data) })
		}
		g.Wait()
		if _, err := h.Create("0/files/../" + strings.Repeat("x", 300) + "\n"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create with a name that is in use: %v; want ErrExist", err)
		}
		if _, err := s.Open(i); !errors.Is(err, ErrLost) || listStreams(t, s, nil) != "" {
			t.Errorf("Open before Commit: %v; want ErrLost", err)
		}
		noError(t, h.Commit([]byte("meta")))
		noError(t, h.Abort())
		s = openStage(t, dir, 0) // a daemon's successor
		k, err := s.Open(i)
		noError(t, err)
		if string(k.Meta) != "meta" || len(k.Streams) != len(want) {
			t.Fatalf("the share has meta %q and %d streams", k.Meta, len(k.Streams))
		}
		for n, st := range k.Streams {
			var b bytes.Buffer
			noError(t, k.CopyTo(&b, n))
			if !bytes.Equal(b.Bytes(), want[st.Name]) {
				t.Errorf("stream %q differs from the bytes that were written", st.Name)
			}
		}
	}
}

func memoryFolder(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "stage-test-")
	noError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestMemory: Open finds out whether its folder is in memory.
func TestMemory(t *testing.T) {
	if !openStage(t, memoryFolder(t), 0).memory {
		t.Error("/dev/shm is no memory")
	}
}

// TestLeftovers: uncommitted files of a daemon that was killed are removed, committed shares stay.
func TestLeftovers(t *testing.T) {
	dir := newFolder(t)
	s := openStage(t, dir, 0)
	checkKept(t, s, idOf(t, "a.b-c/7/1"), 10)
	h, err := s.Create(idOf(t, "a.b-c/7/2"))
	noError(t, err)
	putStream(t, h, "pages", make([]byte, 1000))
	noError(t, os.Mkdir(filepath.Join(dir, "a.b-c.8.1.old"), 0o700))
	noError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	s = openStage(t, dir, 0)
	if got := listStreams(t, s, nil); got != "a.b-c/7/1" {
		t.Errorf("shares after the restart = %q, want a.b-c/7/1", got)
	}
	left, err := os.ReadDir(dir)
	noError(t, err)
	if len(left) != 2 {
		t.Errorf("files left in the folder: %v", left)
	}
}

// TestCreateAgain: an attempt that failed leaves no stream to a later attempt of the same name.
func TestCreateAgain(t *testing.T) {
	s := openStage(t, newFolder(t), 0)
	i := idOf(t, "mini/7_3+1/1")
	first, err := s.Create(i)
	noError(t, err)
	putStream(t, first, "old", nil)
	second, err := s.Create(i)
	noError(t, err)
	if _, err := first.Create("late"); !errors.Is(err, errEnded) {
		t.Errorf("Create in the share that was replaced: %v; want errEnded", err)
	}
	noError(t, first.Abort())
	putStream(t, second, "new", nil)
	noError(t, second.Commit(nil))
	third, err := s.Create(i)
	noError(t, err)
	putStream(t, third, "newest", nil)
	if listStreams(t, s, nil) != "" {
		t.Error("the older is there")
	}
	noError(t, third.Commit(nil))
	k, err := s.Open(i)
	noError(t, err)
	if len(k.Streams) != 1 || k.Streams[0].Name != "newest" {
		t.Errorf("streams of the share = %v, want newest", k.Streams)
	}
}

// TestAbort: a writer of a share that is given up gets an error, and no file is left.
func TestAbort(t *testing.T) {
	dir := newFolder(t)
	s := openStage(t, dir, 0)
	h, err := s.Create(idOf(t, "mini/7/1"))
	noError(t, err)
	f, err := h.Create("pages")
	noError(t, err)
	noError(t, h.Abort())
	noError(t, h.Abort())
	if _, err := f.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Abort: %v; want ErrClosed", err)
	}
	if _, err := h.Create("more"); !errors.Is(err, errEnded) {
		t.Errorf("Create after Abort: %v", err)
	}
	if err := h.Commit(nil); !errors.Is(err, errEnded) {
		t.Errorf("Commit after Abort: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left after Abort: %v, %v", left, err)
	}
}

// TestLost: a share that is gone or not whole is an error for its reader.
func TestLost(t *testing.T) {
	i := idOf(t, "mini/7/1")
	for name, harm := range map[string]func(share string) error{
		"gone":          os.RemoveAll,
		"no index":      func(share string) error { return os.Remove(share + "/index.json") },
		"index damaged": func(share string) error { return os.WriteFile(share+"/index.json", []byte(`{"streams":[`), 0o600) },
		"stream gone":   func(share string) error { return os.Remove(share + "/0") },
		"stream short":  func(share string) error { return os.Truncate(share+"/0", 5) },
		"stream long":   func(share string) error { return os.Truncate(share+"/0", 50000) },
	} {
		dir := newFolder(t)
		s := openStage(t, dir, 0)
		checkKept(t, s, i, 5000)
		noError(t, harm(dir+"/mini.7.1"))
		k, err := s.Open(i)
		if err == nil {
			err = k.CopyTo(io.Discard, 0)
		}
		if !errors.Is(err, ErrLost) {
			t.Errorf("read a share with the harm %q: %v; want ErrLost", name, err)
		}
	}
	s := openStage(t, newFolder(t), 0)
	checkKept(t, s, i, 5000)
	k, err := s.Open(i)
	noError(t, err)
	if err := k.CopyTo(full{}, 0); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrLost) {
		t.Errorf("CopyTo a full store: %v; want ENOSPC and not ErrLost", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestDelete: Delete removes one share, and other shares stay.
func TestDelete(t *testing.T) {
	dir := newFolder(t)
	s := openStage(t, dir, 0)
	one, two := idOf(t, "mini/7/1"), idOf(t, "mini/7/2")
	checkKept(t, s, one, 10)
	checkKept(t, s, two, 10)
	checkKept(t, s, idOf(t, "mini/8/1"), 10)
	noError(t, os.MkdirAll(dir+"/mini.7.1.old/x", 0o700)) // of a removal that was killed
	noError(t, s.Delete(one))
	if err := s.Delete(one); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Delete again: %v; want ErrNotExist", err)
	}
	if got := listStreams(t, s, &two.JobID); got != "mini/7/2" {
		t.Errorf("shares after Delete = %q", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("files left after Delete: %v, %v", left, err)
	}
}

// TestReserve: space that is reserved, written or kept is not given away again.
func TestReserve(t *testing.T) {
	s := openStage(t, newFolder(t), 10<<20)
	one, two := idOf(t, "mini/7/1"), idOf(t, "mini/7/2")
	refused := func(n uint64, free uint64) {
		t.Helper()
		var short *store.SpaceError
		if _, err := s.Reserve(two, n); !errors.As(err, &short) || (short.Free-min(short.Free, short.Reserved))>>20 != free {
			t.Errorf("reserve %d MiB: %v, want %d MiB free", n>>20, err, free)
		}
	}
	room, err := s.Reserve(one, 6<<20)
	noError(t, err)
	refused(5<<20, 4)
	h, err := s.Create(one)
	noError(t, err)
	putStream(t, h, "pages", make([]byte, 5<<20)) // out of the reserved space
	refused(5<<20, 4)
	putStream(t, h, "more", make([]byte, 3<<20)) // and more
	refused(3<<20, 2)
	noError(t, h.Commit(nil))
	room.Release()
	room.Release()
	refused(3<<20, 1) // the index takes a little
	noError(t, s.Delete(one))
	other, err := s.Reserve(two, 10<<20)
	noError(t, err)
	other.Release()
	// No stage has a petabyte.
	s = openStage(t, memoryFolder(t), 0)
	var short *store.SpaceError
	if _, err := s.Reserve(one, 1<<50); !errors.As(err, &short) {
		t.Errorf("Reserve of a petabyte: %v; want a SpaceError", err)
	}
	total, available, err := memoryInfo()
	noError(t, err)
	if available > total || available == 0 {
		t.Errorf("memoryInfo: %d available of %d", available, total)
	}
}

// TestOpen: a folder that other users could write to, or that is no folder, is refused.
func TestOpen(t *testing.T) {
	dir := newFolder(t)
	for name, c := range map[string]struct {
		make func() error
		want string
	}{
		"missing": {func() error { return nil }, "no such file"},
		"file":    {func() error { return os.WriteFile(dir+"/file", nil, 0o600) }, "not a folder"},
		"link":    {func() error { return os.Symlink(dir, dir+"/link") }, "not a folder"},
		"open":    {func() error { return errors.Join(os.Mkdir(dir+"/open", 0o700), os.Chmod(dir+"/open", 0o750)) }, "closed to everybody else"},
	} {
		noError(t, c.make())
		if _, err := Open(dir+"/"+name, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// FuzzParse: of all names in the folder, a share's are exactly those that sharePath makes.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"mini.7.1", "a.b.8_1+2.3", "mini.7.1.new", "lost+found", "...", "mini.07.1", "m/i.7.1"} {
		f.Add(name)
	}
	s := &Stage{dir: "/stage"}
	f.Fuzz(func(t *testing.T, name string) {
		if i, ok := parseShareName(name); ok && s.sharePath(i) != "/stage/"+name {
			t.Errorf("%q became %s, which is at %s", name, i, s.sharePath(i))
		}
	})
}

// TestCarry: a share refers to a stream of another checkpoint by its name, without a file of its
// own.
func TestCarry(t *testing.T) {
	s := openStage(t, newFolder(t), 0)
	i, from := idOf(t, "mini/7/2"), idOf(t, "mini/7/1")
	h, err := s.Create(i)
	noError(t, err)
	putStream(t, h, "pages", []byte("abc"))
	noError(t, h.Carry("blocks", from))
	putStream(t, h, "last", []byte("d"))
	for _, name := range []string{"pages", "blocks"} {
		if err := h.Carry(name, from); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Carry %s again: %v; want ErrExist", name, err)
		}
		if _, err := h.Create(name); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create %s again: %v; want ErrExist", name, err)
		}
	}
	noError(t, h.Commit(nil))
	if err := h.Carry("late", from); !errors.Is(err, errEnded) {
		t.Errorf("Carry after Commit: %v; want errEnded", err)
	}
	k, err := s.Open(i)
	noError(t, err)
	if len(k.Streams) != 3 || k.Streams[0].From != nil || k.Streams[2].Name != "blocks" || *k.Streams[2].From != from {
		t.Errorf("streams of the share = %+v; want pages, last, and blocks of the other checkpoint", k.Streams)
	}
	for n, want := range []string{"abc", "d"} {
		var b bytes.Buffer
		if err := k.CopyTo(&b, n); err != nil || b.String() != want {
			t.Errorf("stream = %q, %v", b.String(), err)
		}
	}
}
