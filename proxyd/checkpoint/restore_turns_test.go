// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
)

// TestRestoreTurns: programs of a capsule are restored side by side, but a program that root restores
// for a user is alone.
func TestRestoreTurns(t *testing.T) {
	for name, c := range map[string]struct {
		uid   uint32
		image string
		alone bool
	}{
		"ordinary":             {1001, "files.img", false},
		"System V":             {1001, "ipcns-var-10.img", true},
		"System V, and root's": {0, "ipcns-var-10.img", false},
	} {
		t.Run(name, func(t *testing.T) {
			turns := &restoreTurns{}
			end := turns.takeTurn(&criu.Image{Program: criu.Program{UID: c.uid}, Files: []criu.File{{Name: c.image}}})
			if turns.programs.TryLock() {
				t.Error("a restore by root could begin meanwhile")
			}
			if turns.programs.TryRLock() == c.alone {
				t.Errorf("another restore could begin meanwhile: %v", !c.alone)
			} else if !c.alone {
				turns.programs.RUnlock()
			}
			end()
			if !turns.programs.TryLock() {
				t.Error("the turn has not ended")
			}
		})
	}
}
