// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestUpgradeBehindLink: a policy whose program is a link gets another process when the linked file is replaced.
func TestUpgradeBehindLink(t *testing.T) {
	p, _ := startPolicy(t, "well")
	content, err := os.ReadFile(p.config.Path)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "program")
	p.config.Path = filepath.Join(folder, "sing-policy-well")
	if err := os.Symlink("program", p.config.Path); err != nil {
		t.Fatal(err)
	}
	var processes []string
	for range 2 { // the second release has the same content
		if err := errors.Join(os.WriteFile(program+".new", content, 0o700), os.Rename(program+".new", program)); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		for range 2 {
			if _, err := p.Ask(t.Context(), newSnapshot()); err != nil {
				t.Fatal(err)
			}
			processes = append(processes, p.Status().PID)
		}
	}
	if processes[0] != processes[1] || processes[1] == processes[2] || processes[2] != processes[3] {
		t.Errorf("the processes were %q: one for each release is right", processes)
	}
}
