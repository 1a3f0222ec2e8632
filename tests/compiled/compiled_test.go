// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package compiled

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newTree makes a module with a source, and makes its folder the working folder.
func newTree(t *testing.T) (source string) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("SKIP: no C compiler")
	}
	root := t.TempDir()
	source = filepath.Join(root, "libsingshim", "a.c")
	if err := errors.Join(
		os.Mkdir(filepath.Dir(source), 0o755),
		os.WriteFile(filepath.Join(root, "go.mod"), nil, 0o600),
		os.WriteFile(source, []byte("first"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(source))
	return source
}

// copySource is a command that makes a file of the source, and fails if the source is "wrong".
func copySource(folder, more string) []string {
	return []string{"sh", "-c", `! grep wrong a.c && echo ` + more + ` >>runs && cp a.c "$0/out" && chmod 700 "$0/out"`, folder}
}

// TestMakeFiles: the command runs once for the same sources, also in another clone, and again for other sources and for
// another command. What a failed command leaves is not kept.
func TestMakeFiles(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	first := newTree(t)
	runs := func() int {
		all, _ := os.ReadFile("runs")
		return strings.Count(string(all), "\n")
	}
	check := func(what, more, want string, wantRuns int) {
		t.Helper()
		folder := t.TempDir()
		if err := MakeFiles(folder, []string{"out"}, copySource(folder, more)...); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got, err := os.ReadFile(filepath.Join(folder, "out"))
		info, _ := os.Stat(filepath.Join(folder, "out"))
		if err != nil || string(got) != want || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: the file has %q, %v, want %q and mode 0700", what, got, err, want)
		}
		if n := runs(); n != wantRuns {
			t.Errorf("%s: the command has run %d times, want %d", what, n, wantRuns)
		}
	}
	write := func(source, text string) {
		t.Helper()
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check("no entry", "x", "first", 1)
	check("the same", "x", "first", 1)
	check("another command", "y", "first", 2)
	t.Setenv("CFLAGS", "-O3")
	check("other flags", "x", "first", 3)
	t.Setenv("CFLAGS", "")
	write(first, "wrong")
	for range 2 {
		if err := MakeFiles(t.TempDir(), []string{"out"}, copySource(t.TempDir(), "x")...); err == nil || !strings.Contains(err.Error(), "wrong") {
			t.Errorf("a command that fails: %v, want its output", err)
		}
	}
	write(first, "second")
	check("another source", "x", "second", 4)
	second := newTree(t)
	check("a clone", "x", "first", 0)
	write(second, "third")
	check("a clone with another source", "x", "third", 1)
}

// TestUnused: an entry that no test has used for a week is removed when another entry is made; an entry in use is not.
func TestUnused(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	newTree(t)
	cache := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "singularity-slurm", "compiled")
	var names []string
	for _, more := range []string{"a", "b", "c"} {
		folder := t.TempDir()
		if err := MakeFiles(folder, []string{"out"}, copySource(folder, more)...); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(cache)
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if more != "b" {
			continue
		}
		weekAgo := time.Now().Add(-7 * 24 * time.Hour)
		for _, name := range names {
			if err := os.Chtimes(filepath.Join(cache, name), weekAgo, weekAgo); err != nil {
				t.Fatal(err)
			}
		}
		used := t.TempDir()
		if err := MakeFiles(used, []string{"out"}, copySource(used, "b")...); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) != 2 {
		t.Errorf("the cache has %d entries, want the used one and the new one", len(names))
	}
}
