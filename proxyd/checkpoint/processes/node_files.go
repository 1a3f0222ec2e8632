// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"os"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// Slurm opens the files that --output, --error and --input name on the node, before the task is in its capsule. In folders
// that a capsule has for itself these are the node's files: no path of the capsule leads to them, so CRIU cannot dump the
// descriptor, and on another node they would not be there.

// coveredFolders are the node's folders that a capsule does not show.
var coveredFolders = []string{"/tmp/", "/var/tmp/", "/dev/shm/"}

const nodeFileCure = "name another folder in --output, --error and --input: /tmp, /var/tmp and /dev/shm of the job are its own, and Slurm opens these files on the node"

// nodeFiles tells the node's files from a capsule's. It is made once for each look.
type nodeFiles struct{ capsule, node *mounts.Table }

// nodeFilesOf returns the mounts that FindObstacles needs to find the node's files. If the node's mounts cannot be
// read, no file is found.
func nodeFilesOf(capsule *mounts.Table) nodeFiles {
	node, err := mounts.Of(os.Getpid())
	if err != nil {
		node = &mounts.Table{}
	}
	return nodeFiles{capsule, node}
}

// isNodeFile tells whether a descriptor of a process, of which the link is given, is a file of the node that the capsule does not
// show.
func (f nodeFiles) isNodeFile(d procfs.Descriptor, link string) bool {
	if !slices.ContainsFunc(coveredFolders, func(dir string) bool { return strings.HasPrefix(link, dir) }) {
		return false
	}
	info, err := os.ReadFile(d.InfoPath())
	if err != nil {
		return false // closed meanwhile
	}
	number := mountOfDescriptor(string(info))
	_, shown := f.capsule.ByNumber(number)
	_, here := f.node.ByNumber(number)
	return here && !shown
}
