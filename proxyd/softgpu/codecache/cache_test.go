// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package codecache

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const version = "version 1"

func openCache(t *testing.T, path string, limit int64) *Cache {
	t.Helper()
	c, err := Open(path, version, limit)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func keyOf(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// dataOf is data that is long enough to be kept.
func dataOf(text string) []byte { return bytes.Repeat([]byte(text), leastData/len(text)+1) }

// TestKept: data is there again for another process of the same version, under its own key alone.
func TestKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "above", "code")
	c := openCache(t, path, DefaultLimit)
	if c.Load(keyOf("a")) != nil {
		t.Error("an empty cache has data")
	}
	c.Save(keyOf("a"), dataOf("data of a"))
	c.Save(keyOf("short"), []byte("short"))
	for _, again := range []*Cache{c, openCache(t, path, DefaultLimit)} {
		if got := again.Load(keyOf("a")); !bytes.Equal(got, dataOf("data of a")) {
			t.Errorf("%d bytes were read", len(got))
		}
		if again.Load(keyOf("b")) != nil || again.Load(keyOf("short")) != nil {
			t.Error("data was read that was not saved")
		}
	}
	other, err := Open(path, "version 2", DefaultLimit)
	if err != nil {
		t.Fatal(err)
	}
	if other.Load(keyOf("a")) != nil {
		t.Error("another version of the program has read the data")
	}
	for _, place := range []string{path, filepath.Dir(path)} {
		if st, err := os.Stat(place); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v; should have mode 0700", place, st, err)
		}
	}
}

// TestRefusedFolders: a folder that is not the user's own is not used.
func TestRefusedFolders(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"private": 0o700, "group": 0o750, "world": 0o777, "searched": 0o711} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("private", filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"group": "0750", "world": "0777", "searched": "0711", "link": "no link", "file": "folder", "file/below": "file"}
	if os.Geteuid() == 0 {
		if err := os.Mkdir(filepath.Join(dir, "theirs"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, "theirs"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		want["theirs"] = "user 12345"
	}
	for name, text := range want {
		if _, err := Open(filepath.Join(dir, name), version, DefaultLimit); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; should say %q", name, err, text)
		}
	}
	if _, err := Open("relative", version, DefaultLimit); err == nil {
		t.Error("a relative path was taken")
	}
	c := openCache(t, filepath.Join(dir, "private"), DefaultLimit)
	c.Save(keyOf("a"), dataOf("a"))
	if err := os.Chmod(filepath.Join(dir, "private"), 0o777); err != nil {
		t.Fatal(err)
	}
	if c.Load(keyOf("a")) != nil {
		t.Error("data was read from a folder that has become open to all")
	}
}

// TestDamagedFiles: a file with another bit, cut short or made longer is not read, and is replaced by the next Save.
func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	c := openCache(t, path, DefaultLimit)
	key, data := keyOf("a"), dataOf("a")
	file := filepath.Join(path, c.nameOf(key))
	c.Save(key, data)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.Load(key) != nil {
			t.Errorf("%s: the file was read", name)
		}
		if c.Save(key, data); !bytes.Equal(c.Load(key), data) {
			t.Errorf("%s: the data was not saved again", name)
		}
	}
	for at := 0; at < len(whole); at += 1 + at/40 {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		damage("another bit", b)
	}
	for _, n := range []int{0, 1, sizeHead - 1, sizeHead, len(whole) - 1} {
		damage("cut short", whole[:n])
	}
	damage("longer", append(bytes.Clone(whole), 0))
}

// TestForeignFiles: files that another user has made or may write are ignored, and so are links, pipes and folders.
func TestForeignFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	c := openCache(t, path, DefaultLimit)
	key, data := keyOf("a"), dataOf("a")
	file := filepath.Join(path, c.nameOf(key))
	aside := filepath.Join(t.TempDir(), "aside")
	steps := map[string]func() error{
		"writable by others": func() error { return os.Chmod(file, 0o622) },
		"a link":             func() error { return errors.Join(os.Rename(file, aside), os.Symlink(aside, file)) },
		"a pipe":             func() error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) },
		"a folder":           func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	}
	if os.Geteuid() == 0 {
		steps["of another user"] = func() error { return os.Chown(file, 12345, 12345) }
	}
	for name, step := range steps {
		_ = os.RemoveAll(file)
		if c.Save(key, data); !bytes.Equal(c.Load(key), data) {
			t.Fatalf("%s: the data was not saved", name)
		}
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if c.Load(key) != nil {
			t.Errorf("%s: the file was read", name)
		}
	}
}

// TestLimit: the files that were not used for longest are removed, and no file of another name.
func TestLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	size := int64(sizeHead + len(dataOf("0")))
	c := openCache(t, path, 8*size)
	mine := filepath.Join(path, "notes.txt")
	if err := os.WriteFile(mine, make([]byte, 20*size), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(-time.Hour)
	for i, name := range strings.Split("01234567", "") {
		c.Save(keyOf(name), dataOf(name))
		at := begin.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(filepath.Join(path, c.nameOf(keyOf(name))), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if c.Load(keyOf("0")) == nil { // used just now
		t.Fatal("a file is missing below the limit")
	}
	c.Save(keyOf("8"), dataOf("8"))
	for name, kept := range map[string]bool{"0": true, "1": false, "2": false, "3": false, "4": true, "5": true, "6": true, "7": true, "8": true} {
		if got := c.Load(keyOf(name)) != nil; got != kept {
			t.Errorf("%s is kept: %v, want %v", name, got, kept)
		}
	}
	if st, err := os.Stat(mine); err != nil || st.Size() != 20*size {
		t.Errorf("a file that is not the cache's: %v, %v", st, err)
	}
	smaller := openCache(t, path, 4*size)
	d, err := openFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if names := d.listNames(); len(names) != 3 {
		t.Errorf("with half of the limit there are %d files, want 3", len(names))
	}
	if smaller.Save(keyOf("large"), make([]byte, 2*size)); smaller.Load(keyOf("large")) != nil {
		t.Error("data was kept that fills half of the cache")
	}
}

// TestGoneFolder: a cache without its folder has nothing, and does no harm.
func TestGoneFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	c := openCache(t, path, DefaultLimit)
	c.Save(keyOf("a"), dataOf("a"))
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if c.Save(keyOf("b"), dataOf("b")); c.Load(keyOf("a")) != nil || c.Load(keyOf("b")) != nil {
		t.Error("data was read from a folder that is gone")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was made again: %v", err)
	}
}

// TestManyAtOnce: many goroutines and two processes' caches save and load the same data, beyond the limit.
func TestManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	limit := 5 * int64(sizeHead+len(dataOf("0")))
	var all sync.WaitGroup
	for _, c := range []*Cache{openCache(t, path, limit), openCache(t, path, limit)} {
		for range 4 {
			all.Go(func() {
				for range 10 {
					for _, name := range strings.Split("0123456789", "") {
						if got := c.Load(keyOf(name)); got != nil && !bytes.Equal(got, dataOf(name)) {
							t.Errorf("%s: other data was read", name)
						}
						c.Save(keyOf(name), dataOf(name))
					}
				}
			})
		}
	}
	all.Wait()
}

// TestVersion: the build ID is read from a program of Go, and is missing from other files.
func TestVersion(t *testing.T) {
	self, err := ReadVersion("/proc/self/exe")
	if err != nil || strings.Count(self, "/") != 3 {
		t.Errorf("the version of this program is %q, %v", self, err)
	}
	if v, err := ReadVersion("cache_test.go"); err == nil {
		t.Errorf("a text has version %q", v)
	}
	if v, err := ReadVersion("/bin/true"); !errors.Is(err, errNoBuild) {
		t.Errorf("/bin/true has version %q, %v", v, err)
	}
}
