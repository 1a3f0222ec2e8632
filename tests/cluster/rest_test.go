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

// restClient is the package with live tests that run on the host ctl, where the
// sockets, the tokens and scontrol are.
const restClient = "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"

// TestRESTClient runs the client's live tests against the Slurm of every suite.
func TestRESTClient(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "slurmrest.test")
	build := exec.Command("go", "test", "-c", "-tags", "live", "-o", binary, restClient)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the program must run on every suite's libc
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	code, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, suite := range []string{"forky", "trixie", "bookworm"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			c := raiseCluster(t, "t-rest-"+suite, "--suite", suite, "--nodes", "2", "--gpus", "2")
			onCtl := "/root/slurmrest.test"
			runMiniclusterWith(t, string(code), "exec", "ctl", "--name", c.name, "--", "sh", "-c", "cat >"+onCtl+"; chmod +x "+onCtl).mustSucceed(t)
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute) // beyond the binary's own
			defer cancel()
			remote.RunTests(t, exec.CommandContext(ctx, program, "exec", "ctl", "--name", c.name, "--", onCtl, "-test.run=^TestLive", "-test.v", "-test.timeout=5m"))
		})
	}
}
