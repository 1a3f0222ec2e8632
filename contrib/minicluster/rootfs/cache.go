// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const buildingPrefix = "building-"

// lockPoll is the interval at which a waiting Ensure tries the lock: a wait in flock could not be
// ended by a context.
const lockPoll = 100 * time.Millisecond

// Hold marks the tree at dir as in use until the returned file, and every copy of the file that
// other processes inherited, is closed: no Ensure removes the tree meanwhile. Any number may hold a
// tree. A tree that has been removed since Ensure returned is fs.ErrNotExist: call Ensure again.
func Hold(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("hold tree: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) { // only a remover locks exclusively
			err = fs.ErrNotExist
		}
		return nil, fmt.Errorf("hold tree %s: %w", dir, err)
	}
	// The folder may have been moved away between the open and the lock.
	if !sameFile(f, dir) {
		f.Close()
		return nil, fmt.Errorf("hold tree %s: %w", dir, fs.ErrNotExist)
	}
	return f, nil
}

// lockVariant takes the variant's lock, waiting until ctx ends.
func lockVariant(ctx context.Context, cache, variant string, report *reporter) (*os.File, error) {
	path := filepath.Join(cache, variant+".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		free, err := tryLock(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if free {
			return f, nil
		}
		report.setState(Progress{Stage: "waiting for another build of " + variant})
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// tryLock takes f's exclusive lock if the lock is free.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// listPartials lists the folders of unfinished builds of the variant.
func listPartials(cache, variant string) []string {
	entries, _ := os.ReadDir(cache)
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), buildingPrefix+variant+".") {
			out = append(out, filepath.Join(cache, e.Name()))
		}
	}
	return out
}

// removePartials removes the folders that killed builders of the variant left. The caller holds the
// variant's lock, so no builder uses them.
func removePartials(cache, variant string, report *reporter) error {
	for _, dir := range listPartials(cache, variant) {
		report.setState(Progress{Stage: "removing what an interrupted build left"})
		if err := removeAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// sweepPartials does the same for a caller that has its tree and will not wait for the lock;
// usually no folder is left. Folders that cannot be removed stay.
func sweepPartials(cache, variant string) {
	if len(listPartials(cache, variant)) == 0 {
		return
	}
	f, err := os.OpenFile(filepath.Join(cache, variant+".lock"), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if free, err := tryLock(f); err == nil && free {
		for _, dir := range listPartials(cache, variant) {
			_ = removeAll(dir)
		}
	}
}

// removeOldTrees removes the variant's trees of other recipes, except trees in use. A tree that
// cannot be removed only costs space, and is no error. The caller holds the variant's lock.
func removeOldTrees(cache string, r recipe) {
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		if e.IsDir() && e.Name() != r.treeName() && isTreeOf(r.variantName(), e.Name()) {
			_ = removeTree(cache, r.variantName(), e.Name())
		}
	}
}

// removeTree removes a tree unless the tree is held. The tree gets a partial's name first: no
// Ensure finds a tree half removed, and a later Ensure finishes an interrupted removal.
func removeTree(cache, variant, name string) error {
	dir := filepath.Join(cache, name)
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if free, err := tryLock(f); err != nil || !free {
		return err // not free: in use
	}
	trash := filepath.Join(cache, buildingPrefix+variant+"."+name)
	if err := os.Rename(dir, trash); err != nil {
		return err
	}
	return removeAll(trash)
}

// removeAll is os.RemoveAll for a folder that dying processes may still write
// to: if parent and builder are killed at the same moment, the lock is free a
// little before the last process of the build is gone, and we are not told when.
func removeAll(dir string) error {
	var err error
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
	return err
}

// sameFile reports whether path still names the open file f.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}
