// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// removedWord is the text that the kernel appends to the name of a file that has lost that name.
const removedWord = " (deleted)"

// isRemovedAndLinked tells whether a descriptor of a process is of a file that has lost the name by which it was
// opened, and has another. CRIU captures no such file; a capsule's own folders, where the file gets a name for the time
// of the dump, are left out.
func isRemovedAndLinked(pid int, table *mounts.Table, path, link string) bool {
	inOwnFolder := func(dir string) bool { return strings.HasPrefix(link, dir) }
	if !strings.HasPrefix(link, "/") || !strings.HasSuffix(link, removedWord) || slices.ContainsFunc(coveredFolders, inOwnFolder) {
		return false
	}
	file, err := mounts.Stat(path)
	if err != nil || file.Links == 0 || file.Kind() != unix.S_IFREG || !table.IsServedBySystem(file) || table.IsServedByUser(link) {
		return false
	}
	return !hasName(pid, file, link)
}

// hasName tells whether a process sees a file at a path, on which no link leads: the file's name may really end in the kernel's
// word.
func hasName(pid int, file mounts.File, path string) bool {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, strings.TrimPrefix(path, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	named, err := mounts.Fstat(fd)
	return err == nil && named.Device == file.Device && named.Inode == file.Inode
}
