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

// rpm runs this machine's rpm on the host, which has none; a database of its own is there.
func (h *host) rpm(args ...string) string {
	h.Helper()
	out, err := exec.CommandContext(h.Context(), "rpm", append([]string{"--root", h.root, "--dbpath", "/var/lib/rpm"}, args...)...).CombinedOutput()
	if err != nil {
		h.Fatalf("rpm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestRPM: what is needed is of other packages of that world, so it is looked at and not
// asked for (--nodeps).
func TestRPM(t *testing.T) {
	h := newHost(t, "forky")
	for _, path := range kept {
		h.write("precious", path)
	}
	files := h.packages("rpm")
	requires := ""
	for i := range files {
		files[i] = h.path(files[i])
		requires += h.rpm("-q", "--requires", "--package", files[i])
	}
	lines := strings.Split(requires, "\n")
	version := h.rpm("-q", "--queryformat", "%{VERSION}", "--package", files[0])
	for _, want := range []string{"munge", "slurm >= 26.05", "slurm < 26.06", "singularity-slurm-client >= " + version} {
		if !slices.Contains(lines, want) {
			t.Errorf("nothing requires %s:\n%s", want, requires)
		}
	}
	if !strings.Contains(requires, "libc.so.6(GLIBC_") {
		t.Errorf("no C library is required:\n%s", requires)
	}
	h.rpm(append([]string{"--install", "--nodeps"}, files...)...)
	h.rpm("--verify", "--nodeps", "singularity-slurm-client", "singularity-slurm-node", "singularity-slurm-controller")
	if found := h.there(programs...); len(found) != len(programs) {
		t.Errorf("only %q are there", found)
	}
	h.must("preemptd", "config", "check")

	h.write("shared: /shared/singularity\n", conf)
	h.rpm("--upgrade", "--nodeps", "--replacepkgs", files[1])
	if got := h.read(conf); got != "shared: /shared/singularity\n" {
		t.Errorf("the configuration is now %q", got)
	}
	h.rpm("--erase", "--nodeps", "singularity-slurm-client", "singularity-slurm-node", "singularity-slurm-controller")
	if left := h.there(append(programs, shim, conf)...); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if got := h.read(conf + ".rpmsave"); got != "shared: /shared/singularity\n" {
		t.Errorf("what the administrator wrote was saved as %q", got)
	}
	if found := h.there(kept...); len(found) != len(kept) {
		t.Errorf("of what is not the package's, only %q is there", found)
	}
}
