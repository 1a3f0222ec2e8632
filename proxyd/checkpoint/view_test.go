// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"testing"
)

// TestNothingHere: the error for a protected job without programs is transient; for another job it is not.
func TestNothingHere(t *testing.T) {
	c := conductorOn(t, "n1", t.TempDir())
	if err := c.records.Save(recordOf(7)); err != nil {
		t.Fatal(err)
	}
	for job, passes := range map[string]bool{"7": true, "8": false} {
		_, err := c.TakeCheckpoint(t.Context(), job, "asked", false, nil)
		if !errors.Is(err, ErrNoJob) || IsTransient(err) != passes {
			t.Errorf("job %s: %v; transient: %v", job, err, IsTransient(err))
		}
	}
}
