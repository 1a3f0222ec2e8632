// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/slurmconf"
)

// TestKnownNeighbors: in a large cluster each host has permanent entries for all hosts, and a small cluster uses ARP,
// which fails in a cut network.
func TestKnownNeighbors(t *testing.T) {
	if known := knownNeighbors(slurmconf.Cluster{Nodes: 8}, 0); known != nil {
		t.Errorf("knownNeighbors in a small cluster = %v, want none", known)
	}
	known := knownNeighbors(slurmconf.Cluster{Nodes: 64}, 3)
	if len(known) != 64 || slices.Contains(known, "10.77.0.4") || known[0] != "10.77.0.1" || known[63] != "10.77.0.65" {
		t.Errorf("knownNeighbors of n3 among 64 nodes = %v", known)
	}
}
