//go:build packages

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// runRPM runs this machine's rpm on the host's files, because the host has no rpm; the host has a database of its own.
func (h *host) runRPM(args ...string) string {
	h.Helper()
	out, err := exec.CommandContext(h.Context(), "rpm", append([]string{"--root", h.root, "--dbpath", "/var/lib/rpm"}, args...)...).CombinedOutput()
	if err != nil {
		h.Fatalf("rpm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestRPM: the packages' requirements are names of a distribution with RPM, so the test reads the requirements, and
// does not have rpm check them (--nodeps).
func TestRPM(t *testing.T) {
	h := newHost(t, "forky")
	for _, path := range kept {
		h.writeFile("precious", path)
	}
	files := h.copyPackages("rpm")
	requires := ""
	for i := range files {
		files[i] = h.pathOn(files[i])
		requires += h.runRPM("-q", "--requires", "--package", files[i])
	}
	lines := strings.Split(requires, "\n")
	version := h.runRPM("-q", "--queryformat", "%{VERSION}", "--package", files[0])
	for _, want := range []string{"munge", "slurm >= 26.05", "slurm < 26.06", "singularity-slurm-client >= " + version} {
		if !slices.Contains(lines, want) {
			t.Errorf("nothing requires %s:\n%s", want, requires)
		}
	}
	if !strings.Contains(requires, "libc.so.6(GLIBC_") {
		t.Errorf("no C library is required:\n%s", requires)
	}
	h.runRPM(append([]string{"--install", "--nodeps"}, files...)...)
	h.runRPM("--verify", "--nodeps", "singularity-slurm-client", "singularity-slurm-node", "singularity-slurm-controller")
	if found := h.existingFiles(programs...); len(found) != len(programs) {
		t.Errorf("of the installed programs, only %q exist", found)
	}
	h.mustRun("preemptd", "config", "check")
	h.mustRun(programs[len(programs)-1], "--help")

	h.writeFile("shared: /shared/singularity\n", conf)
	h.runRPM("--upgrade", "--nodeps", "--replacepkgs", files[1])
	if got := h.readFile(conf); got != "shared: /shared/singularity\n" {
		t.Errorf("the configuration is now %q", got)
	}
	h.runRPM("--erase", "--nodeps", "singularity-slurm-client", "singularity-slurm-node", "singularity-slurm-controller")
	if left := h.existingFiles(append(programs, shim, conf)...); len(left) > 0 {
		t.Errorf("after rpm --erase, files %q are left", left)
	}
	if got := h.readFile(conf + ".rpmsave"); got != "shared: /shared/singularity\n" {
		t.Errorf("rpm saved the administrator's configuration as %q", got)
	}
	if found := h.existingFiles(kept...); len(found) != len(kept) {
		t.Errorf("of the files that are not the packages', rpm --erase left only %q, want %q", found, kept)
	}
}
