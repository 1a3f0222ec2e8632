// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestInPrivateFolder: criu as root makes files in a capsule's private folders alone, for any path that a program gave
// to its sockets, and any link that was left in these folders.
func TestInPrivateFolder(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "tmp/folder"), 0o755),
		os.MkdirAll(filepath.Join(dir, "home/alice"), 0o755),
		os.Symlink("/home/alice", filepath.Join(dir, "tmp/link")),
		os.Symlink("../../home/alice", filepath.Join(dir, "tmp/folder/link")),
		os.WriteFile(filepath.Join(dir, "tmp/file"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]bool{
		"/tmp/socket":                   true,
		"/tmp/folder/socket":            true,
		"/tmp/missing/too/socket":       true,
		"/tmp/link":                     true, // the link is removed, not followed
		"/tmp/link/socket":              false,
		"/tmp/link/missing/socket":      false,
		"/tmp/folder/link/socket":       false,
		"/tmp/file/socket":              false,
		"/tmp/../home/alice/socket":     false,
		"/tmp/folder/../../home/socket": false,
		"/tmp/./socket":                 false,
		"/tmp/":                         false,
		"/tmp":                          false,
		"/home/alice/socket":            false,
		"tmp/socket":                    false,
		"":                              false,
	} {
		if got := inPrivateFolder(root, name); got != want {
			t.Errorf("inPrivateFolder(%q) = %t, want %t", name, got, want)
		}
	}
}
