// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package posix_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/storetest"
)

func newFolder(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openFolder(t *testing.T, dir string) *posix.Backend {
	b, err := posix.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBackend(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Backend { return openFolder(t, newFolder(t)) })
}

// TestFollow: a store that was moved away and copied back is used again, without a file of the folder that is gone.
func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	b, err := posix.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Follow(); err != nil {
		t.Errorf("nothing has changed: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := b.Follow(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is gone: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "leases"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.Mkdir(t.Context(), "leases/1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before Follow: %v", err)
	}
	if err := b.Follow(); err != nil {
		t.Fatal(err)
	}
	if err := b.Mkdir(t.Context(), "leases/1"); err != nil {
		t.Errorf("after Follow: %v", err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := b.Follow(); !errors.Is(err, store.ErrForeign) {
		t.Errorf("a folder that users can read: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	cases := []struct {
		name string
		make func(t *testing.T, dir string) string
	}{
		{"group may read", func(t *testing.T, dir string) string {
			return mustReturn(t, dir, os.Chmod(dir, 0o750))
		}},
		{"symbolic link", func(t *testing.T, dir string) string {
			link := filepath.Join(dir, "link")
			return mustReturn(t, link, os.Symlink(dir, link))
		}},
		{"symbolic link above", func(t *testing.T, dir string) string {
			sub := filepath.Join(dir, "sub")
			mustReturn(t, "", os.Mkdir(sub, 0o700))
			link := filepath.Join(dir, "link")
			return mustReturn(t, link+"/sub", os.Symlink(dir, link))
		}},
		{"another owner", func(t *testing.T, dir string) string {
			if os.Geteuid() != 0 {
				t.Skip("needs root: chown")
			}
			return mustReturn(t, dir, os.Chown(dir, 1234, 1234))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b, err := posix.Open(c.make(t, newFolder(t)))
			if !errors.Is(err, store.ErrForeign) {
				t.Errorf("error %v, want ErrForeign", err)
			}
			if err == nil {
				b.Close()
			}
		})
	}
}

func mustReturn(t *testing.T, path string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGetRefuses puts foreign things into the store's place.
func TestGetRefuses(t *testing.T) {
	cases := []struct {
		name string
		spy  func(t *testing.T, path string) error
	}{
		{"symbolic link", func(t *testing.T, path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.Symlink(filepath.Base(path)+"2", path))
		}},
		{"mode", func(_ *testing.T, path string) error { return os.Chmod(path, 0o644) }},
		{"fifo", func(_ *testing.T, path string) error { return errors.Join(os.Remove(path), mkfifo(path)) }},
		{"owner", func(t *testing.T, path string) error {
			if os.Geteuid() != 0 {
				t.Skip("needs root: chown")
			}
			return os.Chown(path, 1234, -1)
		}},
		{"folder is a link", func(_ *testing.T, path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := newFolder(t)
			b := openFolder(t, dir)
			for _, d := range []string{"tmp", "a"} {
				mustReturn(t, "", b.Mkdir(t.Context(), d))
			}
			mustReturn(t, "", b.Put(t.Context(), store.File{Name: "a/x", Data: []byte("x")}))
			mustReturn(t, "", c.spy(t, filepath.Join(dir, "a/x")))
			if data, err := b.Get(t.Context(), "a/x", 9, nil); !errors.Is(err, store.ErrForeign) {
				t.Errorf("got %q, %v, want ErrForeign", data, err)
			}
		})
	}
}

// TestStatFollowsNothing: Stat describes a link itself: the link's target does not belong to the store.
func TestStatFollowsNothing(t *testing.T) {
	dir := newFolder(t)
	b := openFolder(t, dir)
	for _, d := range []string{"tmp", "a"} {
		mustReturn(t, "", b.Mkdir(t.Context(), d))
	}
	mustReturn(t, "", b.Put(t.Context(), store.File{Name: "a/x", Data: []byte("content")}))
	mustReturn(t, "", os.Symlink("x", filepath.Join(dir, "a/file")))
	mustReturn(t, "", os.Symlink("../a", filepath.Join(dir, "a/folder")))
	mustReturn(t, "", mkfifo(filepath.Join(dir, "a/fifo")))
	for name, want := range map[string]store.Info{
		"a": {Dir: true}, "a/x": {Size: 7}, "a/file": {Size: 1}, "a/folder": {Size: 4}, "a/fifo": {},
	} {
		info, err := b.Stat(t.Context(), name)
		if err != nil || info.Dir != want.Dir || info.Size != want.Size || info.ModTime.IsZero() {
			t.Errorf("Stat of %s = %+v, %v, want %+v", name, info, err, want)
		}
	}
	for name, want := range map[string]error{"a/y": fs.ErrNotExist, "b/x": fs.ErrNotExist, "a/folder/x": store.ErrForeign, "a/x/y": store.ErrForeign} {
		if info, err := b.Stat(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("Stat of %s = %+v, error %v, want %v", name, info, err, want)
		}
	}
}

// TestNoDotDot: a name cannot leave the folder.
func TestNoDotDot(t *testing.T) {
	dir := newFolder(t)
	mustReturn(t, "", os.WriteFile(filepath.Join(dir, "secret"), []byte("s"), 0o600))
	mustReturn(t, "", os.Mkdir(filepath.Join(dir, "in"), 0o700))
	b := openFolder(t, filepath.Join(dir, "in"))
	for _, name := range []string{"../secret", "a/../../secret", "/etc/passwd"} {
		if data, err := b.Get(t.Context(), name, 1<<20, nil); err == nil {
			t.Errorf("Get of %s read %q, want an error", name, data)
		}
	}
}
