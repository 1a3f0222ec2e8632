// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// SpaceError is a cache folder too small for the build, found before the build starts or, with Full
// set, in the middle.
type SpaceError struct {
	Dir     string
	Variant string
	Free    uint64 // bytes, or inodes when Inodes is set
	Needed  uint64
	Inodes  bool
	Full    bool
}

func (e *SpaceError) Error() string {
	need := fmt.Sprintf("about %s needed to build %s", humanBytes(e.Needed), e.Variant)
	switch {
	case e.Full:
		return fmt.Sprintf("cache %s: disk full, %s", e.Dir, need)
	case e.Inodes:
		return fmt.Sprintf("cache %s: %d inodes free, about %d needed to build %s", e.Dir, e.Free, e.Needed, e.Variant)
	}
	return fmt.Sprintf("cache %s: %s free, %s", e.Dir, humanBytes(e.Free), need)
}

// neededSpace is the space that a build takes at its peak: the tree, the packages from which the
// tree is unpacked, and the package lists, measured and rounded up.
func (r recipe) neededSpace() (bytes, inodes uint64) {
	switch {
	case r.forCRIU:
		return 900 << 20, 30_000
	case r.corpus:
		return 11_000 << 20, 260_000
	case r.torch:
		return 2200 << 20, 40_000
	}
	return 750 << 20, 15_000
}

// checkSpace returns a *SpaceError if dir's file system cannot hold the build.
func checkSpace(dir string, r recipe) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("cache %s: %w", dir, err)
	}
	return spaceSuffices(dir, r, st)
}

// spaceSuffices decides by the result of statfs. A file system without a fixed number of inodes
// (btrfs) reports no inodes at all.
func spaceSuffices(dir string, r recipe, st unix.Statfs_t) error {
	bytes, inodes := r.neededSpace()
	free := st.Bavail * uint64(st.Bsize)
	if free < bytes {
		return &SpaceError{Dir: dir, Variant: r.variantName(), Free: free, Needed: bytes}
	}
	if st.Files > 0 && st.Ffree < inodes {
		return &SpaceError{Dir: dir, Variant: r.variantName(), Free: st.Ffree, Needed: inodes, Inodes: true}
	}
	return nil
}

// humanBytes writes n for a person: "412 MiB", "1.2 GiB".
func humanBytes(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
