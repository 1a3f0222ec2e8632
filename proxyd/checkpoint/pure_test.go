// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"net/netip"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
)

// TestLostCheckpointsAreNotNamed: the comment of a job that is held because its checkpoints are gone names none of
// them, so that the job begins anew when it is released.
func TestLostCheckpointsAreNotNamed(t *testing.T) {
	if n := reports.NamedCheckpoint("singularity: " + reports.Held + errCheckpointsLost.Error()); n != 0 {
		t.Errorf("the comment names checkpoint %d", n)
	}
}

func TestRewriteHosts(t *testing.T) {
	rec := &records.Record{Nodes: []string{"n1", "n2"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1"), netip.MustParseAddr("100.64.0.2")}}
	got := rewriteHosts("127.0.0.1 localhost # n1\n10.0.0.1\tctl\n10.0.0.2 n1.site n1 login\n10.0.0.3 n2\n# nothing\n10.0.0.4 n12\n", rec)
	want := "100.64.0.1\tn1\n100.64.0.2\tn2\n127.0.0.1\tlocalhost\n10.0.0.1\tctl\n10.0.0.2\tlogin\n10.0.0.4\tn12\n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
