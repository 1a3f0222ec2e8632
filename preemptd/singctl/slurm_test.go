// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
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

// TestSlurmReasons: the reasons are read from the messages of Slurm's commands, and the message is shown as it was.
func TestSlurmReasons(t *testing.T) {
	all := []error{errSlurmSilent, errUnknownJob, errUnknownNode, errNoAdministrator, errNodeState}
	for said, want := range map[string]error{
		"slurm_load_jobs error: Unable to contact slurm controller (connect failure)": errSlurmSilent,
		"slurm_load_jobs error: Invalid job id specified":                             errUnknownJob,
		"Job 812_7 not found":                              errUnknownJob,
		"Node n9 not found":                                errUnknownNode,
		"slurm_update error: Invalid node name specified":  errUnknownNode,
		"slurm_update error: Invalid user id":              errNoAdministrator,
		"slurm_update error: Access/permission denied":     errNoAdministrator,
		"slurm_update error: Invalid node state specified": errNodeState,
		"error: plugin cred/munge not found":               nil,
	} {
		err := readSlurmError("scontrol", said)
		for _, reason := range all {
			if got := errors.Is(err, reason); got != errors.Is(want, reason) {
				t.Errorf("%q: errors.Is with %q = %t", said, reason, got)
			}
		}
		kind, shown := rpc.ErrInternal, "scontrol: "+said
		if errors.Is(want, errSlurmSilent) {
			kind, shown = rpc.ErrUnreachable, "slurmctld does not answer: "+shown
		}
		if !errors.Is(err, kind) || err.Error() != shown {
			t.Errorf("%q is shown as %q, kind %v; want %q, kind %v", said, err, errors.Is(err, kind), shown, kind)
		}
	}
}
