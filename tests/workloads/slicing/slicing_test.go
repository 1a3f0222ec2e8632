// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slicing

import (
	"math"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// TestOverhead: each count of the model costs time, and the counts add up.
func TestOverhead(t *testing.T) {
	const memory = 1 << 30
	c := Case{Steps: 10}
	alone := Run{SharingStatus: server.SharingStatus{Instructions: 1000, Peak: memory}}
	ideal := 2 * 10 * modelBatch.Seconds() / 100 // of two ranks, a percent
	for _, tt := range []struct {
		name   string
		change func(*server.SharingStatus)
		want   float64 // seconds
	}{
		{"ideal", func(*server.SharingStatus) {}, 0},
		{"switches", func(s *server.SharingStatus) { s.Switches = 20 }, 20 * modelSwitch.Seconds()},
		{"swapped", func(s *server.SharingStatus) { s.SwappedOut, s.SwappedIn = memory, memory/2 }, 1.5 * modelSwap.Seconds()},
		{"compared: it is read", func(s *server.SharingStatus) { s.Compared = memory }, modelRead.Seconds()},
		{"results taken: they are read and written", func(s *server.SharingStatus) { s.Taken = memory }, 2 * modelRead.Seconds()},
		{"common memory written: it is copied", func(s *server.SharingStatus) { s.Unshared = memory / 2 }, modelRead.Seconds()},
		{"kernels that did not run", func(s *server.SharingStatus) { s.Instructions = 900 }, -0.1 * 100 * ideal},
		{"all", func(s *server.SharingStatus) {
			s.Switches, s.SwappedIn, s.Compared, s.Taken, s.Unshared = 1, memory, memory, memory, memory
		}, modelSwitch.Seconds() + modelSwap.Seconds() + 5*modelRead.Seconds()},
	} {
		shared := alone
		tt.change(&shared.SharingStatus)
		if got := c.Overhead(2, alone, shared); math.Abs(got-tt.want/ideal) > 1e-9 {
			t.Errorf("%s: %+.4f %%, want %+.4f %%", tt.name, got, tt.want/ideal)
		}
	}
}
