// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"testing"
)

// TestNothingHere: a job whose node has lost it is one to ask again; one that is not protected is not.
func TestNothingHere(t *testing.T) {
	c := conductorOn(t, "n1", t.TempDir())
	if err := c.records.save(recordOf(7)); err != nil {
		t.Fatal(err)
	}
	for job, passes := range map[string]bool{"7": true, "8": false} {
		_, err := c.TakeCheckpoint(t.Context(), job, "asked", false, nil)
		if !errors.Is(err, ErrNoJob) || IsTransient(err) != passes {
			t.Errorf("job %s: %v; it passes: %v", job, err, IsTransient(err))
		}
	}
}
