// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// makeTree makes a finished tree called name, with a folder in it.
func makeTree(t *testing.T, cache, name string) string {
	t.Helper()
	dir := filepath.Join(cache, name)
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func listNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func silentReporter(t *testing.T) *reporter {
	r := newReporter(nil, time.Hour)
	t.Cleanup(r.stopReporting)
	return r
}

// If the tree exists, Ensure needs no rights, no programs and no network.
func TestEnsureWarm(t *testing.T) {
	cache := t.TempDir()
	want := makeTree(t, cache, newRecipe(Options{Suite: suites[0]}).treeName())
	t.Setenv("PATH", "")
	setEUID(t, 1000)
	best := time.Hour // the shortest of several times: other processes may use this machine
	for range 5 {
		began := time.Now()
		dir, err := Ensure(context.Background(), Options{Suite: suites[0], CacheDir: cache, Progress: func(p Progress) {
			t.Errorf("progress %q is reported, want none: the tree is there", p)
		}})
		if err != nil || dir != want {
			t.Fatalf("%s, %v; want %s", dir, err, want)
		}
		best = min(best, time.Since(began))
	}
	if best > 50*time.Millisecond {
		t.Errorf("Ensure took %v with the tree there, want at most 50 ms", best)
	}
	if got := listNames(t, cache); len(got) != 1 {
		t.Errorf("the cache has %v, want the tree alone", got)
	}
}

func TestEnsureColdNeedsRoot(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "new")
	setEUID(t, 1000)
	_, err := Ensure(context.Background(), Options{Suite: suites[0], Torch: true, CacheDir: cache})
	if !errors.Is(err, ErrNotRoot) || err.Error() != "forky-torch is not built yet: building a root file system needs root" {
		t.Errorf("error %v, want that the build needs root", err)
	}
	if _, err := os.Stat(cache); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cache folder was made: %v", err)
	}
}

func TestEnsureUnknownSuite(t *testing.T) {
	_, err := Ensure(context.Background(), Options{Suite: Suite{Name: "sarge"}, CacheDir: t.TempDir()})
	if unknown := (*UnknownSuiteError)(nil); !errors.As(err, &unknown) {
		t.Errorf("error %v, want an UnknownSuiteError", err)
	}
}

func TestEnsureNoCorpus(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "new")
	for _, s := range suites {
		if s.Corpus {
			continue
		}
		_, err := Ensure(context.Background(), Options{Suite: s, Corpus: true, CacheDir: cache})
		want := "suite " + s.Name + " has not all programs of the corpus: forky has"
		if no := (*NoCorpusError)(nil); !errors.As(err, &no) || err.Error() != want {
			t.Errorf("%s: error %v, want %q", s.Name, err, want)
		}
	}
	if _, err := os.Stat(cache); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cache folder was made: %v", err)
	}
}

func setEUID(t *testing.T, id int) {
	old := euid
	euid = func() int { return id }
	t.Cleanup(func() { euid = old })
}

func TestHoldKeepsOldTree(t *testing.T) {
	cache := t.TempDir()
	r := newRecipe(Options{Suite: suites[0]})
	free := "forky-000000000000"
	held := "forky-111111111111"
	other := "forky-torch-000000000000"
	for _, name := range []string{free, held, other, r.treeName()} {
		makeTree(t, cache, name)
	}
	var holds []*os.File
	for range 2 { // any number may hold
		f, err := Hold(filepath.Join(cache, held))
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, f)
	}
	removeOldTrees(cache, r)
	want := []string{held, r.treeName(), other}
	slices.Sort(want)
	if got := listNames(t, cache); !slices.Equal(got, want) {
		t.Fatalf("the cache has %v, want %v", got, want)
	}
	holds[0].Close()
	removeOldTrees(cache, r)
	if !isDir(filepath.Join(cache, held)) {
		t.Fatalf("the tree %s was removed while it is held", held)
	}
	holds[1].Close()
	removeOldTrees(cache, r)
	if isDir(filepath.Join(cache, held)) {
		t.Fatalf("the tree %s was kept, which no process holds", held)
	}
}

func TestHoldOfRemovedTree(t *testing.T) {
	cache := t.TempDir()
	dir := makeTree(t, cache, "forky-000000000000")
	f, err := os.Open(dir) // as a process that removes the tree
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, err := tryLock(f); !ok || err != nil {
		t.Fatalf("tryLock of a tree = %v, %v; want the lock", ok, err)
	}
	if _, err := Hold(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Hold of a tree that is being removed: error %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := Hold(filepath.Join(cache, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Hold of a tree that is not there: error %v, want %v", err, fs.ErrNotExist)
	}
}

func TestPartialsOfTheVariantOnly(t *testing.T) {
	cache := t.TempDir()
	makeTree(t, cache, "building-forky.123")
	makeTree(t, cache, "building-forky.forky-000000000000")
	makeTree(t, cache, "building-forky-torch.123")
	if err := removePartials(cache, "forky", silentReporter(t)); err != nil {
		t.Fatal(err)
	}
	want := []string{"building-forky-torch.123"}
	if got := listNames(t, cache); !slices.Equal(got, want) {
		t.Errorf("the cache has %v, want %v", got, want)
	}
}

// A warm Ensure tidies up, too, unless a build is under way.
func TestSweep(t *testing.T) {
	cache := t.TempDir()
	r := newRecipe(Options{Suite: suites[0]})
	makeTree(t, cache, r.treeName())
	makeTree(t, cache, "building-forky.123")
	lock, err := lockVariant(context.Background(), cache, "forky", silentReporter(t))
	if err != nil {
		t.Fatal(err)
	}
	ensure := func() {
		if _, err := Ensure(context.Background(), Options{Suite: suites[0], CacheDir: cache}); err != nil {
			t.Fatal(err)
		}
	}
	ensure()
	if !isDir(filepath.Join(cache, "building-forky.123")) {
		t.Error("Ensure removed the folder of a build that is under way")
	}
	lock.Close()
	ensure()
	if isDir(filepath.Join(cache, "building-forky.123")) {
		t.Error("Ensure left the folder of a build that was interrupted")
	}
}

func TestLockWait(t *testing.T) {
	cache := t.TempDir()
	first, err := lockVariant(context.Background(), cache, "forky", silentReporter(t))
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan Progress, 100)
	report := newReporter(func(p Progress) { heard <- p }, time.Hour)
	defer report.stopReporting()

	ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	if _, err := lockVariant(ctx, cache, "forky", report); err == nil || err.Error() != "enough" {
		t.Errorf("lockVariant: error %v, want %q", err, "enough")
	}
	if p, want := <-heard, "waiting for another build of forky"; p.String() != want {
		t.Errorf("progress %q, want %q", p, want)
	}
	if other, err := lockVariant(context.Background(), cache, "forky-torch", report); err != nil {
		t.Error(err)
	} else {
		other.Close()
	}
	first.Close()
	again, err := lockVariant(context.Background(), cache, "forky", report)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
