//go:build packages

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/guest"
)

//go:embed systemd/debs.sh
var fetchDebs string

// dbusPackages are the packages by which systemd and Slurm talk to each other; no root file system of a test cluster
// has them.
var dbusPackages = []string{
	"dbus", "dbus-bin", "dbus-daemon", "dbus-system-bus-common", "dbus-session-bus-common", "libdbus-1-3", "libexpat1", "libapparmor1",
}

// TestUnderSystemd is the life of an installation on a machine with systemd as its first process, with cgroups of
// version 2, in which Slurm constrains cores, memory and devices: the tests of tests/packages/systemd, in a virtual
// machine.
func TestUnderSystemd(t *testing.T) {
	h := newHost(t, "forky")
	guest.RunTests(t, guest.Machine{
		Tree:   newestTree(t, "forky"),
		Init:   "systemd/init.sh",
		Within: 25 * time.Minute,
		Memory: 2560,
		FillFolder: func(folder string) {
			guest.BuildTests(t, "tests/packages/systemd", filepath.Join(folder, "systemd.test"), "-tags", "guest")
			debs := filepath.Join(guest.CacheDir(t), "guest-dbus")
			guest.RunScript(t, fetchDebs, append([]string{debs, "forky"}, dbusPackages...)...)
			copyFiles(t, filepath.Join(debs, "*.deb"), filepath.Join(folder, "debs"))
			copyFiles(t, "/bin/busybox", folder)
			h.copyPackages("deb")
			copyFiles(t, h.pathOn("packages", "*.deb"), filepath.Join(folder, "packages"))
			copyFiles(t, h.pathOn(h.nextRelease()), filepath.Join(folder, "next"))
		},
	})
}

// copyFiles copies the files that a pattern names into a folder, which is made.
func copyFiles(t *testing.T, pattern, folder string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(path)), raw, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
