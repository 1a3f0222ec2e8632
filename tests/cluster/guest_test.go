//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/guest"
)

// TestGuest runs the tests of capsules and of the conductor that need a node with cgroup v2 alone, in a virtual
// machine: this machine may have v1 controllers. The test takes a minute.
func TestGuest(t *testing.T) {
	guest.RunTests(t, guest.Machine{
		Tree:   forkyTree(t),
		Init:   "testdata/guest/run.sh",
		Within: 10 * time.Minute,
		FillFolder: func(folder string) {
			buildCapsuleTests(t, folder)
			guest.BuildTests(t, "proxyd/checkpoint", filepath.Join(folder, "checkpoint.test"))
		},
	})
}

// TestStoreOnNFS runs the store's tests on an NFS server, in a virtual machine with a kernel that has such a server.
// The random tests have writers and collectors on two mounts that share only the server, as two nodes do.
func TestStoreOnNFS(t *testing.T) {
	guest.RunTests(t, guest.Machine{
		Tree:    forkyTree(t),
		Init:    "testdata/guest/nfs.sh",
		Within:  40 * time.Minute,
		Modules: []string{"nfsv4", "nfsd"},
		FillFolder: func(folder string) {
			guest.BuildTests(t, "proxyd/store", filepath.Join(folder, "store", "store.test"))
			guest.BuildTests(t, "proxyd/store/posix", filepath.Join(folder, "store", "posix.test"))
		},
	})
}

// TestDeadNFS cuts an NFS server off, in a virtual machine that has its folder mounted: proxyd's
// looks at the shared folder end all the same. The test takes two minutes.
func TestDeadNFS(t *testing.T) {
	guest.RunTests(t, guest.Machine{
		Tree:    forkyTree(t),
		Init:    "testdata/guest/nfs.sh",
		Within:  20 * time.Minute,
		Modules: []string{"nfsv4", "nfsd"},
		FillFolder: func(folder string) {
			guest.BuildTests(t, "proxyd/shared", filepath.Join(folder, "dead", "shared.test"))
		},
	})
}

// forkyTree returns the root file system of the newest suite, in minicluster's cache.
func forkyTree(t *testing.T) string {
	t.Helper()
	raiseCluster(t, "t-guest", "--suite", "forky", "--nodes", "1") // builds a tree that is missing
	trees, err := filepath.Glob("/var/cache/minicluster/forky-[0-9a-f]*")
	if err != nil {
		t.Fatal(err)
	}
	var newest string
	var at time.Time
	for _, tree := range trees {
		if st, err := os.Lstat(filepath.Join(tree, "usr/sbin/slurmd")); err == nil && st.ModTime().After(at) {
			newest, at = tree, st.ModTime()
		}
	}
	if newest == "" {
		t.Fatalf("no root file system among %v", trees)
	}
	return newest
}
