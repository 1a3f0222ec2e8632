// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import "testing"

// TestLeastSize: the smallest size at which the ranks on a GPU fit there, in whole GPUs of each node.
func TestLeastSize(t *testing.T) {
	from := func(each int) func(int) bool { return func(n int) bool { return n == 0 || n >= each } }
	for _, c := range []struct{ least, wanted, nodes, each, want int }{
		{1, 8, 1, 1, 1}, {1, 8, 1, 3, 3}, {1, 8, 1, 9, 8}, {2, 8, 2, 2, 4}, {3, 8, 2, 1, 4}, {1, 8, 4, 1, 1}, {4, 4, 2, 9, 4},
	} {
		if got := LeastSize(c.least, c.wanted, c.nodes, from(c.each)); got != c.want {
			t.Errorf("%d to %d on %d nodes, from %d on each: %d, want %d", c.least, c.wanted, c.nodes, c.each, got, c.want)
		}
	}
}
