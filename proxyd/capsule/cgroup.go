// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ownCgroups is the mount point of the hierarchy on a node that has not mounted the hierarchy
// elsewhere.
const ownCgroups = "/run/singularity-slurm/cgroup"

// CgroupRoot returns the mount point of the node's cgroup v2 hierarchy, for Spec.Cgroups. On a node with v1 only,
// CgroupRoot mounts the hierarchy at /run/singularity-slurm/cgroup and leaves it there: without controllers the mount
// has no effect on v1. CgroupRoot needs root and may be called again; two first calls must not run at once.
func CgroupRoot(ctx context.Context) (string, error) {
	for _, path := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", ownCgroups} {
		if usableCgroups(path) == nil {
			return path, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(ownCgroups, 0o755); err != nil {
		return "", fmt.Errorf("cgroup v2: %w", err)
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("cgroup2", ownCgroups, "cgroup2", quiet, ""); err != nil {
		return "", fmt.Errorf("cgroup v2: mount at %s: %w", ownCgroups, err)
	}
	return ownCgroups, usableCgroups(ownCgroups)
}

// usableCgroups returns nil if a v2 hierarchy is mounted at path and can be written to.
func usableCgroups(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case st.Type != unix.CGROUP2_SUPER_MAGIC:
		return fmt.Errorf("%s: not a cgroup v2 hierarchy", path)
	case st.Flags&unix.ST_RDONLY != 0:
		return fmt.Errorf("%s: %w", path, unix.EROFS)
	}
	return nil
}

// cgroupIn returns the path in the v2 line of a /proc/PID/cgroup.
func cgroupIn(b []byte) (string, error) {
	for line := range strings.Lines(string(b)) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		if !filepath.IsAbs(path) || strings.HasPrefix(path, "/..") || strings.HasSuffix(path, " (deleted)") {
			return "", fmt.Errorf("cgroup %q: %w", path, unix.ENOENT)
		}
		return filepath.Clean(path), nil
	}
	return "", errors.New("no cgroup v2")
}

// groupPrefix begins the names of all groups of the capsule with this ID. Hosts that share a
// kernel share the hierarchy; the ID distinguishes their capsules.
func groupPrefix(id string) string { return "sing-" + id + "-" }

// removeGroups kills the processes in the groups of a capsule with a dead init, and removes the groups.
// Init's list was in memory only, so the groups are searched.
func removeGroups(ctx context.Context, root, id string) error {
	if root == "" || id == "" {
		return nil
	}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		switch {
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV):
			return nil // other groups come and go meanwhile
		case err != nil:
			return err
		case !e.IsDir():
			return nil
		case !strings.HasPrefix(e.Name(), groupPrefix(id)):
			return nil
		}
		if err := group(path).clearAndRemove(ctx); err != nil {
			return err
		}
		return filepath.SkipDir
	})
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	return nil
}
