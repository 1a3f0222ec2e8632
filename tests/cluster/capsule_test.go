//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/remote"
)

// TestCapsule runs the tests of capsules and wardens on a host, where CRIU works.
func TestCapsule(t *testing.T) {
	t.Parallel()
	c := raiseCluster(t, "t-capsule", "--suite", "forky", "--nodes", "1")
	tools := filepath.Join("/var/lib/minicluster", c.name, "shared/capsule")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	buildCapsuleTests(t, tools)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute) // beyond the binary's own
	defer cancel()
	remote.RunTests(t, exec.CommandContext(ctx, program, "exec", "n1", "--name", c.name, "--", "env", "-C", "/root", "CAPSULE_TOOLS=/shared/capsule",
		"/shared/capsule/capsule.test", "-test.v", "-test.timeout=5m"))
}

// buildCapsuleTests builds the tests of capsules, and the C programs that they find by CAPSULE_TOOLS, into a folder.
func buildCapsuleTests(t *testing.T, tools string) {
	t.Helper()
	// Static, because the host has another libc than this machine.
	for _, build := range [][]string{
		{"go", "test", "-c", "-o", filepath.Join(tools, "capsule.test"), "github.com/singularity-slurm/singularity-slurm/proxyd/capsule"},
		{"make", "-s", "-C", "../../slurm-spank/warden", "O=" + tools},
		{"cc", "-static", "-o", filepath.Join(tools, "enter"), "../../proxyd/capsule/testdata/enter.c"},
		{"cc", "-static", "-o", filepath.Join(tools, "vfork"), "../../proxyd/capsule/testdata/vfork.c"},
	} {
		cmd := exec.Command(build[0], build[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("command %v: %v\n%s", build, err, out)
		}
	}
}
