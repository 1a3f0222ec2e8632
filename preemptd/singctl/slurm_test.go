// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSilentSlurmctld: a checkpoint waits for slurmctld, and says so; other commands say that slurmctld
// does not answer.
func TestSilentSlurmctld(t *testing.T) {
	c := newCluster(t)
	away := filepath.Join(t.TempDir(), "away")
	t.Setenv("AWAY", away)
	for _, tt := range []struct{ command, want string }{
		{"checkpoint 812 -q", "checkpoint mini/812/3: 4.0 GiB captured, 700 MiB stored, in 0s\n"},
		{"checkpoint 812", "! slurmctld does not answer; waiting for it\n"},
		{"show 812", "! singctl: slurmctld does not answer: scontrol: slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n" +
			"! hint: scontrol ping says where it should run\nexit 6\n"},
	} {
		if err := os.WriteFile(away, []byte("1\n2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := c.runLine(t.Context(), "alice", strings.Fields(tt.command)...); !strings.Contains(got, tt.want) {
			t.Errorf("singctl %s prints\n%s\nwant\n%s", tt.command, got, tt.want)
		}
	}
}
