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

// actions is the package with live tests that run on the host ctl, where slurmrestd, munged
// and scontrol are.
const actions = "github.com/singularity-slurm/singularity-slurm/preemptd/action"

// TestActions runs the live tests of preemptd's actions against the Slurm of every suite;
// where there is proxyd, the jobs must come out right.
func TestActions(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "action.test")
	// As preemptd itself is built: the test program must run on every suite's libc, and contains C.
	build := exec.Command("go", "test", "-c", "-tags", "live,netgo,osusergo,sqlite_omit_load_extension",
		"-ldflags", "-linkmode=external -extldflags=-static", "-o", binary, actions)
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	code, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for suite, options := range map[string]struct{ up, test []string }{
		"forky":    {[]string{"--singularity"}, []string{"-proxyd"}},
		"trixie":   {},
		"bookworm": {},
	} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			c := raiseCluster(t, "t-act-"+suite, append([]string{"--suite", suite, "--nodes", "3", "--gpus", "2"}, options.up...)...)
			onCtl := "/root/action.test"
			runMiniclusterWith(t, string(code), "exec", "ctl", "--name", c.name, "--", "sh", "-c", "cat >"+onCtl+"; chmod +x "+onCtl).mustSucceed(t)
			ctx, cancel := context.WithTimeout(t.Context(), 11*time.Minute) // beyond the binary's own
			defer cancel()
			args := append([]string{"exec", "ctl", "--name", c.name, "--", onCtl, "-test.run=^TestLive", "-test.v", "-test.timeout=10m"}, options.test...)
			remote.RunTests(t, exec.CommandContext(ctx, program, args...))
		})
	}
}
