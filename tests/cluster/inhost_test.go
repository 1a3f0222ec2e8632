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

// hurtful is a test that kills CRIU itself in the middle of a dump, which a program may not survive
// (proxyd/criu/doc.go). How often the program dies depends on the machine's load.
const hurtful = "TestCRIUKilled"

// hostTests are the tests of a package that need a host: for a CRIU that works on this kernel, or for Slurm.
type hostTests struct {
	name, nodes string   // of the package below proxyd, and how many hosts there are
	make        string   // a folder with a Makefile; make builds into the test's folder
	target      string   // make's target; "": all
	args        []string // before the test
}

// TestCRIUInHost tests attacks on restores, and the confinement of criu.
func TestCRIUInHost(t *testing.T) {
	t.Parallel()
	hostTests{name: "criu", nodes: "1", make: "../../libsingshim", target: "libsingshim-criu.so"}.runTests(t)
}

func TestSrunInHost(t *testing.T) {
	t.Parallel()
	hostTests{name: "srun", nodes: "2", make: "../../slurm-spank/srun", args: []string{"SRUN_TOOLS=/shared/tools"}}.runTests(t)
}

// runTests raises a cluster, and runs the tests on its first host.
func (p hostTests) runTests(t *testing.T) {
	t.Helper()
	c := raiseCluster(t, "t-"+p.name, "--suite", "forky", "--nodes", p.nodes)
	tools := filepath.Join("/var/lib/minicluster", c.name, "shared/tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	// Static, because the host has another libc than this machine.
	build := exec.Command("go", "test", "-c", "-o", filepath.Join(tools, "test"), "github.com/singularity-slurm/singularity-slurm/proxyd/"+p.name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c failed: %v\n%s", err, out)
	}
	args := []string{"-s", "-C", p.make, "O=" + tools}
	if p.target != "" {
		args = append(args, filepath.Join(tools, p.target))
	}
	if out, err := exec.Command("make", args...).CombinedOutput(); err != nil {
		t.Fatalf("make failed: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 36*time.Minute) // beyond the binary's own
	defer cancel()
	args = append([]string{"exec", "n1", "--name", c.name, "--", "env", "-C", "/root"}, p.args...)
	remote.RunTests(t, exec.CommandContext(ctx, program, append(args, "/shared/tools/test", "-test.v", "-test.timeout=35m", "-test.skip="+hurtful)...))
}
