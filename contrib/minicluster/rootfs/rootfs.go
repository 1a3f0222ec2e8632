// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package rootfs builds the Debian trees that test clusters run in, a tree per suite, and keeps the
// trees in a cache folder.
//
// The cache folder holds, per variant ("forky", "forky-torch", "forky-corpus"):
//
//	forky-0123456789ab/   a finished tree, named after its recipe; never changed again
//	forky.lock            held (flock) by the process that builds, removes or replaces a tree of the variant
//	forky.log             mmdebstrap's output of the last time
//	building-forky.*/     a build under way, or the rest of a killed build; Ensure removes the rest
//	criu-trixie-…/        the package of CRIU that is compiled for a suite: a variant like the others
//
// A tree is a lower layer for overlays and must not be written. A cluster that uses a tree keeps
// the tree with Hold: the lock lies on the tree's folder itself.
//
// # Lock order
//
//	trixie.lock              exclusive: building and removing
//	├── criu-trixie.lock     the same
//	└── the tree             shared: in use; exclusive and only ever tried: about to be removed
//
// # The builder
//
// The build runs in a process of its own: this program again (/proc/self/exe) with BuilderArg as
// its first argument, as first process of a new PID and mount namespace. The process reads a pipe
// whose other end only the parent has, and ends when the parent ends, for any reason; with the
// process the kernel ends every process of the build and every mount that they made. See Main for
// the duty of the program.
package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// DefaultCacheDir is the cache folder if Options has none.
const DefaultCacheDir = "/var/cache/minicluster"

// ErrNotRoot is returned when a tree must be built and the caller is not root. All users can find a
// finished tree.
var ErrNotRoot = errors.New("building a root file system needs root")

// Options describe the tree that is wanted.
type Options struct {
	Suite    Suite
	Torch    bool   // with PyTorch
	Corpus   bool   // with PyTorch and the programs that tests/corpus runs; only where Suite.Corpus
	CacheDir string // "" is DefaultCacheDir; made when missing
	Mirror   string // URI of a Debian archive; "" is the archive that the host's apt uses

	// Progress, if set, is called with the state of a build, at every change and at least once a
	// second. The calls come from a single goroutine at a time and never after Ensure has returned.
	// Progress is not called when the tree is there already.
	Progress func(Progress)

	// skipSpaceCheck lets tests run out of space in the middle.
	skipSpaceCheck bool
}

// Ensure returns the folder of the tree that o asks for. A missing tree is built, which needs root,
// a network and half a minute to two, and as long again where CRIU has to be compiled. When the tree is there, Ensure
// returns at once and starts no process.
//
// Any number of processes may call Ensure at once: a single process builds, all others wait and
// report that through Progress. Cancelling ctx ends a build or a wait promptly.
//
// When Ensure fails, or is killed at any moment, no process and no mount is left; a killed process
// leaves a partial folder, which the next Ensure removes. Errors are a single line. Errors worth
// telling apart are *UnknownSuiteError, *NoCorpusError, ErrNotRoot, *MissingToolError, *SpaceError,
// *BuildError, ErrNoMirror and ctx's own.
func Ensure(ctx context.Context, o Options) (dir string, err error) {
	s, err := Lookup(o.Suite.Name)
	if err != nil {
		return "", err
	}
	if o.CacheDir == "" {
		o.CacheDir = DefaultCacheDir
	}
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return "", fmt.Errorf("cache %s: %w", o.CacheDir, err)
	}
	if o.Suite = s; o.Corpus && !s.Corpus {
		return "", &NoCorpusError{Suite: s.Name}
	}
	r := newRecipe(o)
	dir = filepath.Join(o.CacheDir, r.treeName())
	if isDir(dir) {
		sweepPartials(o.CacheDir, r.variantName())
		return dir, nil
	}
	if euid() != 0 {
		return "", fmt.Errorf("%s is not built yet: %w", r.variantName(), ErrNotRoot)
	}
	if err := buildMissing(ctx, o, r, dir); err != nil {
		return "", err
	}
	return dir, nil
}

// buildMissing builds a missing tree: it has the steps in their order.
func buildMissing(ctx context.Context, o Options, r recipe, dir string) error {
	report := newReporter(o.Progress, time.Second)
	defer report.stopReporting()

	src, err := findSource(ctx, o.Mirror)
	if err != nil {
		return err
	}
	tool, err := findTool()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		return describeError(o.CacheDir, r, err)
	}
	return buildLocked(ctx, o, buildJob{cache: o.CacheDir, dir: dir, recipe: r, source: src, tool: tool, report: report})
}

// buildLocked takes the lock of the job's variant and builds, unless another process has built meanwhile.
func buildLocked(ctx context.Context, o Options, j buildJob) (err error) {
	r := j.recipe
	if j.lock, err = lockVariant(ctx, j.cache, r.variantName(), j.report); err != nil {
		return describeError(j.cache, r, err)
	}
	defer j.lock.Close()
	if isDir(j.dir) { // built while we waited
		return nil
	}
	if err := removePartials(j.cache, r.variantName(), j.report); err != nil {
		return describeError(j.cache, r, err)
	}
	if !o.skipSpaceCheck {
		if err := checkSpace(j.cache, r); err != nil {
			return err
		}
	}
	if r.suite.CompilesCRIU && !r.forCRIU {
		hold, err := ensureCRIU(ctx, o, &j)
		if err != nil {
			return err
		}
		defer hold.Close()
	}
	if err := buildTree(ctx, j); err != nil {
		return describeError(j.cache, r, err)
	}
	removeOldTrees(j.cache, r)
	return nil
}

// ensureCRIU has the package of CRIU made for the suite of a tree that is about to be built, if the
// package is missing, gives the job the package's path, and returns the hold on the package's folder.
func ensureCRIU(ctx context.Context, o Options, j *buildJob) (hold *os.File, err error) {
	r := newCRIURecipe(j.recipe.suite)
	dir := filepath.Join(j.cache, r.treeName())
	if !isDir(dir) {
		of := *j
		of.recipe, of.dir = r, dir
		if err := buildLocked(ctx, o, of); err != nil {
			return nil, err
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "criu_*.deb"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("cache %s: %s has %d packages of CRIU: remove that folder", j.cache, dir, len(found))
	}
	if err != nil {
		return nil, err
	}
	j.criu = found[0]
	return Hold(dir)
}

// euid is a variable for tests.
var euid = os.Geteuid

func isDir(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}
