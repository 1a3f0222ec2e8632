// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRootOnly: RootOnly finds every place on the way to the shared folder where a user could put a
// folder of his own.
func TestRootOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root, to be several users")
	}
	dir, err := os.MkdirTemp("/var/lib", "rootonly-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const alice = 1001
	mk := func(path string, owner int, mode os.FileMode) {
		t.Helper()
		full := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(full, 0o755), os.Chmod(full, mode), os.Lchown(full, owner, 0)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string, owner int) {
		t.Helper()
		full := filepath.Join(dir, path)
		if err := errors.Join(os.Symlink(to, full), os.Lchown(full, owner, 0)); err != nil {
			t.Fatal(err)
		}
	}
	mk("fine/shared", 0, 0o755)
	mk("private/shared", 0, 0o700)
	mk("sticky", 0, 0o777|os.ModeSticky)
	mk("sticky/shared", 0, 0o755)
	mk("sticky/hers", alice, 0o755)
	mk("sticky/below", 0, 0o755)
	mk("sticky/below/shared", 0, 0o755)
	mk("written", 0, 0o777)
	mk("written/shared", 0, 0o755)
	mk("group", 0, 0o775)
	mk("group/shared", 0, 0o755)
	mk("hers", alice, 0o755)
	mk("hers/shared", 0, 0o755)
	mk("open/shared", 0, 0o777|os.ModeSticky)
	mk("inner/shared/jobs", alice, 0o755)
	link("fine", "link", 0)
	link(filepath.Join(dir, "hers"), "tohers", 0)
	link(filepath.Join(dir, "fine"), "sticky/herlink", alice)
	link("../fine", "sticky/rootlink", 0)
	link("loop", "loop", 0)
	for path, want := range map[string]string{
		"fine/shared":            "",
		"private/shared":         "",
		"sticky/shared":          "",
		"sticky/below/shared":    "",
		"link/shared":            "",
		"sticky/rootlink/shared": "",
		"sticky/hers":            "/sticky/hers belongs to user 1001: chown root ",
		"sticky/herlink/shared":  "/sticky/herlink belongs to user 1001",
		"written/shared":         "/written has mode 0777, so other users can replace files in it: chmod go-w ",
		"group/shared":           "/group has mode 0775, so other users can replace",
		"hers/shared":            "/hers belongs to user 1001",
		"tohers/shared":          "/hers belongs to user 1001",
		"open/shared":            "/open/shared has mode 1777: chmod go-w ",
		"inner/shared":           "/inner/shared/jobs belongs to user 1001",
		"loop/shared":            "too many levels",
		"fine/missing":           "no such file",
	} {
		err := SharedIsRoots(filepath.Join(dir, path))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
