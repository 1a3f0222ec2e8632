// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"testing"
)

// BenchmarkCall measures the time that sing-srun and the runner add to an srun: /bin/true is the real srun here.
func BenchmarkCall(b *testing.B) {
	s := newServer(b, "/bin/true")
	for b.Loop() {
		c := caller{args: []string{"-n1", "true"}}
		if _, errs, how := c.runCall(b); exitCodeOf(how) != 0 {
			b.Fatal(errs)
		}
		r := s.expectRequest("srun").run
		s.mu.Lock()
		delete(s.sruns, r.Key())
		s.mu.Unlock()
		if err := r.Remove(testDeadline(b)); err != nil {
			b.Fatal(err)
		}
	}
}
