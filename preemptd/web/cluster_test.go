// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// TestNodesInNaturalOrder: n2 comes before n10, and jobs stay on their nodes.
func TestNodesInNaturalOrder(t *testing.T) {
	s := &sdk.Snapshot{Nodes: []sdk.Node{{Name: "gpu1"}, {Name: "n1"}, {Name: "n10"}, {Name: "n10a"}, {Name: "n2"}, {Name: "rack02-n3"}, {Name: "rack2-n1"}, {Name: "rack2-n20"}}}
	for i := range s.Nodes {
		s.Jobs = append(s.Jobs, sdk.Job{ID: sdk.JobID(i + 1), Name: s.Nodes[i].Name, Shares: []sdk.Share{{Node: int32(i)}}})
	}
	s.Jobs = append(s.Jobs, sdk.Job{ID: 100, Shares: []sdk.Share{{Node: 2}, {Node: 4}}})
	got := clusterOf(s, nil)
	var names []string
	for _, n := range got.Nodes {
		names = append(names, n.Name)
	}
	if want := []string{"gpu1", "n1", "n2", "n10", "n10a", "rack2-n1", "rack02-n3", "rack2-n20"}; !slices.Equal(names, want) {
		t.Errorf("nodes %v, want %v", names, want)
	}
	for _, j := range got.Jobs[:len(s.Nodes)] {
		if at := names[j.Shares[0].Node]; at != j.Name {
			t.Errorf("the job on %s is shown on %s", j.Name, at)
		}
	}
	if both := fmt.Sprint(got.Jobs[len(s.Nodes)].Shares); both != "[{2 []} {3 []}]" {
		t.Errorf("the job on n2 and n10 holds %s", both)
	}
}
