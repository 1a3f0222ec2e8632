// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// maxExecutables bounds what is compared of one capsule; programs map some hundred at most.
const maxExecutables = 4096

// systemExecutables returns the files of the system that programs of a capsule run code of, by their
// paths in root, the capsule's: pages of them that were not changed are in no image, and a
// node with another build has other ones. What belongs to a user is on a file system that
// all nodes share, or travels with the capsule; what is ours is the job's kit, on every node.
func systemExecutables(root string, programs []capsule.Program, ours func(path string) bool) []string {
	var paths []string
	seen := map[string]bool{}
	for _, p := range programs {
		for _, pid := range cgroupProcesses(p.Cgroup) {
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

// mappedExecutables lists the files that a process has mapped to be executed, but those that were
// deleted or replaced since: CRIU keeps these.
func mappedExecutables(pid int) []string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil // it has ended
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

// isRootFile says whether a file is root's.
func isRootFile(path string) bool {
	var st syscall.Stat_t
	return syscall.Stat(path, &st) == nil && st.Uid == 0 && st.Mode&syscall.S_IFMT == syscall.S_IFREG
}
