// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package tempdir puts the temporary folders of short tests into memory: on a disk, tests of files that are made durable
// spend most of their processor time, and nearly all of their waits, in the disk's file system. The whole tests, without
// -short, use the disk.
package tempdir

import (
	"flag"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// memoryFolder is a file system in memory on every Linux machine. Containers may have a small file system there.
const memoryFolder = "/dev/shm"

// leastFree is the space, in bytes, that a file system needs for the temporary folders of a package's tests.
const leastFree = 1 << 30

// Main runs a package's tests and exits: call Main in TestMain. With -short, the tests and their child processes make
// their temporary folders in memory, unless TMPDIR is set or the memory's file system has little space.
func Main(m *testing.M) {
	flag.Parse()
	if _, set := os.LookupEnv("TMPDIR"); !set && testing.Short() && isRoomy(memoryFolder) {
		if err := os.Setenv("TMPDIR", memoryFolder); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// isRoomy tells whether a folder is in a file system in memory with enough space, and can be written.
func isRoomy(folder string) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return false
	}
	return fs.Type == unix.TMPFS_MAGIC && fs.Bavail*uint64(fs.Bsize) >= leastFree && unix.Access(folder, unix.W_OK|unix.X_OK) == nil
}
