// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestUninstall: make uninstall removes what make install made, its folders if they are empty then, and no file of an
// administrator's.
func TestUninstall(t *testing.T) {
	installed := []string{
		"sbin/proxyd", "bin/singctl", "libexec/singularity-slurm/sing-warden", "libexec/singularity-slurm/sing-policies",
		"lib/singularity-slurm/libsingshim.so", "lib/singularity-slurm/spank_singularity.so", "lib/systemd/system/proxyd.service",
		"share/doc/singularity-slurm/install.md", "share/doc/singularity-slurm/decisions/README.md",
		"share/doc/singularity-slurm/proto/proxyd.proto", "share/doc/singularity-slurm/proxyd.yaml", "share/man/man1/singctl-top.1",
	}
	folders := []string{"libexec/singularity-slurm", "lib/singularity-slurm", "share/doc/singularity-slurm"}
	for name, own := range map[string][]string{
		"nothing of an administrator's": nil,
		"files of an administrator's": {
			"libexec/singularity-slurm/sing-policy-mine", "lib/singularity-slurm/mine.so", "share/doc/singularity-slurm/decisions/mine.txt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			in := func(path string) string { return filepath.Join(root, "usr", path) }
			for _, path := range append(own, installed...) {
				if err := os.MkdirAll(filepath.Dir(in(path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(in(path), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			link := "libexec/singularity-slurm/sing-policy-tiers"
			if err := os.Symlink("sing-policies", in(link)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time nothing is there
				if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../..", "uninstall", "PREFIX=/usr", "DESTDIR="+root).CombinedOutput(); err != nil {
					t.Fatalf("make uninstall: %v\n%s", err, out)
				}
			}
			for _, path := range append(installed, link) {
				if _, err := os.Lstat(in(path)); err == nil {
					t.Errorf("%s is still there", path)
				}
			}
			for _, path := range own {
				if _, err := os.Lstat(in(path)); err != nil {
					t.Errorf("a file of the administrator's is gone: %v", err)
				}
			}
			for _, path := range folders {
				if _, err := os.Lstat(in(path)); (err == nil) != (own != nil) {
					t.Errorf("the folder %s is there: %v, want %v", path, err == nil, own != nil)
				}
			}
		})
	}
}
