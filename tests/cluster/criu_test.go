//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"strings"
	"testing"
)

// TestCRIU: CRIU works on a host of a test cluster, also with the overlay file system that is its root. All else
// depends on CRIU.
func TestCRIU(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("testdata/criu.sh")
	if err != nil {
		t.Fatal(err)
	}
	c := raiseCluster(t, "t-criu", "--nodes", "1")
	out := runMiniclusterWith(t, string(script), "exec", "n1", "--name", c.name, "--", "bash", "-s").mustSucceed(t)
	if !strings.HasPrefix(out, "counted on from ") {
		t.Errorf("said %q", out)
	}
}
