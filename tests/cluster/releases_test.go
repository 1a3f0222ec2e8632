//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

// TestReleases: on each Slurm older than the newest, with the CRIU that is compiled for its suite, a
// job of two nodes is requeued and goes on. `make test-releases` runs all of TestProtected there.
func TestReleases(t *testing.T) {
	t.Parallel()
	for _, suite := range []string{"trixie", "bookworm"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			raiseProtectedOf(t, suite, "t-release", "--nodes", "3").requeueSteps(t)
		})
	}
}
