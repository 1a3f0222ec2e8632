// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestCompleteReachable: people are told of each port that clients are to reach, also if the relay has not reported it.
func TestCompleteReachable(t *testing.T) {
	all := completeReachable([]uint16{8888, 6006}, []*rpc.Reachable{{Port: 6006, At: "head1:7000"}})
	if len(all) != 2 || all[0].GetAt() != "head1:7000" || all[1].GetPort() != 8888 || all[1].GetAt() != "" || all[1].GetProblem() == "" {
		t.Errorf("reachable with a relay that reports one of two ports: %v", all)
	}
	if all := completeReachable(nil, nil); len(all) != 0 {
		t.Errorf("reachable without ports: %v", all)
	}
}
