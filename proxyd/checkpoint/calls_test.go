// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
)

// TestHandlers: a node carries out each call, by a single function.
func TestHandlers(t *testing.T) {
	for _, call := range calls.All() {
		_, ofNode := nodeHandlers[call]
		_, ofJob := jobHandlers[call]
		if ofNode == ofJob {
			t.Errorf("call %s: of the node: %t, of a job: %t; want one", call, ofNode, ofJob)
		}
	}
	if got, want := len(nodeHandlers)+len(jobHandlers), len(calls.All()); got != want {
		t.Errorf("%d functions carry out %d calls", got, want)
	}
}
