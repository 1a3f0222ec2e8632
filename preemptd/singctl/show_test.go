// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestSharingNotes: what capsules that share a GPU have in common is said once, with their names.
func TestSharingNotes(t *testing.T) {
	capsule := func(index uint32, node, server string, switches uint64) *rpc.Capsule {
		return &rpc.Capsule{Index: index, Node: node, Devices: &rpc.Devices{Server: server, Sharing: []*rpc.Sharing{{Devices: 1, Switches: switches}}}}
	}
	all := []*rpc.Capsule{
		capsule(0, "n1", "7.1.0", 5), capsule(1, "n1", "7.1.0", 5), capsule(2, "n1", "7.1.0", 5), capsule(3, "n2", "7.1.0", 9),
		capsule(4, "n2", "", 3), capsule(5, "n2", "", 0), {Index: 6, Node: "n3"},
		{Index: 7, Node: "n4", Devices: &rpc.Devices{Sharing: []*rpc.Sharing{{Devices: 2, Switches: 4}, {}, {Devices: 2, Switches: 6}}}},
	}
	var got []string
	for _, c := range all {
		got = append(got, sharingNotes(c, all)...)
	}
	want := []string{
		"capsules 0, 1 and 2: they share a GPU: 5 switches took 0s, 0 of them in the middle of work",
		"capsule 3: processes share a GPU: 9 switches took 0s, 0 of them in the middle of work",
		"capsule 4: processes share a GPU: 3 switches took 0s, 0 of them in the middle of work",
		"capsule 7, node's GPU 1 of 3: 2 GPUs share one of the node's: 4 switches took 0s, 0 of them in the middle of work",
		"capsule 7, node's GPU 3 of 3: 2 GPUs share one of the node's: 6 switches took 0s, 0 of them in the middle of work",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
