// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"strings"
	"testing"
)

// TestStatesToRequeue: in which states of Slurm a job is requeued, because the job itself did not cause the end of its
// run.
func TestStatesToRequeue(t *testing.T) {
	for _, c := range []struct {
		name     string
		released bool
		had      Progress
		next     NextRun
		limit    string
		want     string
	}{
		{"ran", false, Ran, BeginsAnew, "requeue", ""},
		{"captured", true, Ran, Resumes, "requeue", "COMPLETED FAILED NODE_FAIL"},
		{"its handler failed", false, Ran, IsRequeued, "requeue", "FAILED"},
		{"not restored yet", false, Unrestored, Resumes, "requeue", "FAILED NODE_FAIL TIMEOUT"},
		{"not restored yet, and the limit ends jobs", false, Unrestored, Resumes, "end", "FAILED NODE_FAIL"},
		{"not started yet", false, Unstarted, Resumes, "hold", "TIMEOUT"},
		{"not started yet, and the limit ends jobs", false, Unstarted, Resumes, "end", ""},
	} {
		if got := strings.Join(StatesToRequeue(c.released, c.had, c.next, c.limit), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
