// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "testing"

// TestRestoreTurns: programs of a capsule are restored side by side, but a program that root restores
// for a user is alone.
func TestRestoreTurns(t *testing.T) {
	for name, byRoot := range map[string]bool{"by the user": false, "by root": true} {
		t.Run(name, func(t *testing.T) {
			turns := &restoreTurns{}
			end := turns.waitForTurn(byRoot)
			if turns.programs.TryLock() {
				t.Error("a restore by root could begin meanwhile")
			}
			if turns.programs.TryRLock() == byRoot {
				t.Errorf("another restore could begin meanwhile: %v", !byRoot)
			} else if !byRoot {
				turns.programs.RUnlock()
			}
			end()
			if !turns.programs.TryLock() {
				t.Error("the turn has not ended")
			}
		})
	}
}
