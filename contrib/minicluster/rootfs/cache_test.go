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

// makeTree makes a finished tree called name, with something in it.
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

// With the tree there, Ensure needs no rights, no programs, no network.
func TestEnsureWarm(t *testing.T) {
	cache := t.TempDir()
	want := makeTree(t, cache, newRecipe(Options{Suite: suites[0]}).treeName())
	t.Setenv("PATH", "")
	setEUID(t, 1000)
	best := time.Hour // of a few: other processes may be at work on this machine
	for range 5 {
		began := time.Now()
		dir, err := Ensure(context.Background(), Options{Suite: suites[0], CacheDir: cache, Progress: func(p Progress) {
			t.Errorf("told %v", p)
		}})
		if err != nil || dir != want {
			t.Fatalf("%s, %v; want %s", dir, err, want)
		}
		best = min(best, time.Since(began))
	}
	if best > 50*time.Millisecond {
		t.Errorf("took %v", best)
	}
	if got := listNames(t, cache); len(got) != 1 {
		t.Errorf("left %v", got)
	}
}

func TestEnsureColdNeedsRoot(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "new")
	setEUID(t, 1000)
	_, err := Ensure(context.Background(), Options{Suite: suites[0], Torch: true, CacheDir: cache})
	if !errors.Is(err, ErrNotRoot) || err.Error() != "forky-torch is not built yet: building a root file system needs root" {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(cache); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cache folder was made: %v", err)
	}
}

func TestEnsureUnknownSuite(t *testing.T) {
	_, err := Ensure(context.Background(), Options{Suite: Suite{Name: "sarge"}, CacheDir: t.TempDir()})
	if unknown := (*UnknownSuiteError)(nil); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
}

func TestEnsureNoCorpus(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "new")
	for _, s := range Suites() {
		if s.Corpus {
			continue
		}
		_, err := Ensure(context.Background(), Options{Suite: s, Corpus: true, CacheDir: cache})
		want := "suite " + s.Name + " has not all programs of the corpus: forky has"
		if no := (*NoCorpusError)(nil); !errors.As(err, &no) || err.Error() != want {
			t.Errorf("%s: %v", s.Name, err)
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
		t.Fatalf("left %v, want %v", got, want)
	}
	holds[0].Close()
	removeOldTrees(cache, r)
	if !isDir(filepath.Join(cache, held)) {
		t.Fatal("removed a tree that is still held")
	}
	holds[1].Close()
	removeOldTrees(cache, r)
	if isDir(filepath.Join(cache, held)) {
		t.Fatal("kept a tree that no process holds")
	}
}

func TestHoldOfRemovedTree(t *testing.T) {
	cache := t.TempDir()
	dir := makeTree(t, cache, "forky-000000000000")
	f, err := os.Open(dir) // a remover at work
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, err := tryLock(f); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := Hold(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("while it is removed: %v", err)
	}
	if _, err := Hold(filepath.Join(cache, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such tree: %v", err)
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
	if got := listNames(t, cache); !slices.Equal(got, []string{"building-forky-torch.123"}) {
		t.Errorf("left %v", got)
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
		t.Error("removed a build under way")
	}
	lock.Close()
	ensure()
	if isDir(filepath.Join(cache, "building-forky.123")) {
		t.Error("left what an interrupted build left")
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
		t.Errorf("wait ended with %v", err)
	}
	if p := <-heard; p.String() != "waiting for another build of forky" {
		t.Errorf("heard %q", p)
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
