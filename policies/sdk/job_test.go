// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import "testing"

// TestLeastSize: the smallest size at which the ranks on a GPU fit there, in whole GPUs of each
// node, or on fewer nodes.
func TestLeastSize(t *testing.T) {
	for _, c := range []struct{ least, wanted, nodes, from, want int }{
		{1, 8, 1, 1, 1}, {1, 8, 1, 3, 3}, {1, 8, 1, 9, 8}, {2, 8, 2, 4, 4}, {3, 8, 2, 2, 4}, {1, 8, 4, 1, 1}, {1, 8, 4, 3, 3}, {1, 8, 4, 5, 8}, {4, 4, 2, 18, 4},
	} {
		if got := LeastSize(c.least, c.wanted, c.nodes, func(gpus int) bool { return gpus >= c.from }); got != c.want {
			t.Errorf("%d to %d on %d nodes, from %d: %d, want %d", c.least, c.wanted, c.nodes, c.from, got, c.want)
		}
	}
}
