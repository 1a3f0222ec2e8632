// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// maxExecutables bounds the files that are compared for a capsule. Programs map some hundred at
// most.
const maxExecutables = 4096

// SystemExecutables returns the system files with the code that the programs of a capsule run, by
// their paths in root, the capsule's. Unchanged pages of them are in no image, so a node with
// another build of such a file would restore other code. Files of users are not included: they
// are on shared file systems or travel with the capsule. Files of the kit are the same on every
// node.
func SystemExecutables(root string, programs []capsule.Program, ours func(path string) bool) []string {
	var paths []string
	seen := map[string]bool{}
	for _, p := range programs {
		for _, pid := range InCgroup(p.Cgroup) {
			for _, path := range mappedExecutables(pid) {
				if seen[path] || ours(path) || len(paths) >= maxExecutables {
					continue
				}
				seen[path] = true
				if isRootFile(filepath.Join(root, path)) {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths
}

// mappedExecutables returns the files that a process has mapped as executable, except deleted or
// replaced files, which CRIU dumps.
func mappedExecutables(pid int) []string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil // the process has ended
	}
	defer f.Close()
	var paths []string
	for s := bufio.NewScanner(f); s.Scan(); {
		// address perms offset dev inode path
		_, rest, _ := strings.Cut(s.Text(), " ")
		perms, _, _ := strings.Cut(rest, " ")
		at := strings.IndexByte(rest, '/')
		if !strings.Contains(perms, "x") || at < 0 || strings.HasSuffix(rest, " (deleted)") {
			continue
		}
		paths = append(paths, rest[at:])
	}
	return paths
}

// isRootFile tells whether a path is a regular file of root's.
func isRootFile(path string) bool {
	var st syscall.Stat_t
	return syscall.Stat(path, &st) == nil && st.Uid == 0 && st.Mode&syscall.S_IFMT == syscall.S_IFREG
}
