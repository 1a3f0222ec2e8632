// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestFarReservation: a reservation that begins in many years keeps no job without a time limit off a node.
func TestFarReservation(t *testing.T) {
	now := time.Now()
	b := &builder{Snapshot: &sdk.Snapshot{Time: now}}
	for name, in := range map[string]time.Duration{"soon": time.Hour, "works": 3650 * 24 * time.Hour} {
		b.seen.Reservations = append(b.seen.Reservations, slurmrest.Reservation{Name: name, Start: now.Add(in), End: now.Add(in + time.Minute)})
	}
	b.addReservations()
	if len(b.Reservations) != 1 || b.Reservations[0].Name != "soon" {
		t.Errorf("reservations = %+v, want only \"soon\"", b.Reservations)
	}
}
