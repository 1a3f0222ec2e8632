// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tempdir

import (
	"os"
	"path/filepath"
	"testing"
)

// before is the value of TMPDIR before Main.
var before, beforeSet = os.LookupEnv("TMPDIR")

func TestMain(m *testing.M) { Main(m) }

// TestTempDir: short tests have their folders in memory, whole tests where the environment says.
func TestTempDir(t *testing.T) {
	want := "/tmp"
	if beforeSet {
		want = os.TempDir()
		if want != before && before != "" {
			t.Fatalf("TMPDIR was %q, and is %q", before, want)
		}
	} else if testing.Short() && isRoomy(memoryFolder) {
		want = memoryFolder
	}
	if dir := t.TempDir(); filepath.Dir(filepath.Dir(dir)) != want {
		t.Errorf("a test's folder is %s, want a folder in %s", dir, want)
	}
}

// TestRoom: a folder that does not exist, and a file system that is not in memory, have no room.
func TestRoom(t *testing.T) {
	for _, folder := range []string{"/nonexistent", "/proc"} {
		if isRoomy(folder) {
			t.Errorf("isRoomy(%s) = true", folder)
		}
	}
}
