// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// maxExecutables bounds the files that are compared for a capsule. Programs map some hundred at
// most.
const maxExecutables = 4096

// SystemExecutables returns the system files with the code that the programs of a capsule run, by their paths in the
// capsule, which has this init. Unchanged pages of them are in no image, so a node with another build of such a file
// would restore other code. Files of users are not included: they are on shared file systems or travel with the
// capsule. Neither are files of a file system that a user's process serves: that process can name any owner for them.
// Files of the kit are the same on every node.
func SystemExecutables(init int, programs []capsule.Program, ours func(path string) bool) []string {
	table, err := mounts.Of(init)
	if err != nil {
		return nil // the capsule has ended
	}
	var paths []string
	seen := map[string]bool{}
	for _, p := range programs {
		for _, pid := range InCgroup(p.Cgroup) {
			mapped := mappedExecutables(pid)
			for _, path := range slices.Sorted(maps.Keys(mapped)) {
				if seen[path] || ours(path) || len(paths) >= maxExecutables {
					continue
				}
				seen[path] = true
				if isRootFile(table, fmt.Sprintf("/proc/%d/map_files/%s", pid, mapped[path])) {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths
}

// mappedExecutables returns the files that a process has mapped as executable, each with the name of such a
// mapping in map_files, except deleted or replaced files, which CRIU dumps.
func mappedExecutables(pid int) map[string]string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil // the process has ended
	}
	defer f.Close()
	files := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		// address perms offset dev inode path
		span, rest, _ := strings.Cut(s.Text(), " ")
		perms, _, _ := strings.Cut(rest, " ")
		at := strings.IndexByte(rest, '/')
		if !strings.Contains(perms, "x") || at < 0 || strings.HasSuffix(rest, " (deleted)") {
			continue
		}
		from, to, _ := strings.Cut(span, "-")
		files[rest[at:]] = strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0")
	}
	return files
}

// isRootFile tells whether a link of map_files leads to a regular file of root's.
func isRootFile(table *mounts.Table, link string) bool {
	st, err := mounts.Stat(link)
	return err == nil && st.UID == 0 && st.Kind() == unix.S_IFREG && table.IsServedBySystem(st)
}
