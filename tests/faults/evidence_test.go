//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEvidence: kept of a trial that went wrong are the daemons' logs, the job's folder, and the logs of device
// servers.
func TestEvidence(t *testing.T) {
	program := filepath.Join(t.TempDir(), "minicluster")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(program, "#!/bin/sh\necho \"$*\"\n", 0o755)
	c := newCluster("faults-evidence-test")
	c.Program = program
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(c.Shared())) })
	write(c.Log("ctl", "slurmctld"), "Killing non-startable batch", 0o644)
	write(c.Shared("faults/one/log"), "begin", 0o644)
	kept := filepath.Join(t.TempDir(), "deep", "kept")
	if err := c.saveEvidence(t.Context(), kept, &job{c: c, folder: "faults/one"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"logs/ctl/slurmctld.log": "Killing non-startable batch", "one/log": "begin", "n2.devices.log": "/var/lib/singularity-slurm/devices/",
	} {
		if text, err := os.ReadFile(filepath.Join(kept, path)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}
