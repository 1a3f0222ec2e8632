// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import "testing"

// TestEven: whether the counts of the ranks on this server are even.
func TestEven(t *testing.T) {
	type pairs = map[[2]int]uint64
	for _, tc := range []struct {
		name string
		l    issuedOperations
		want bool
	}{
		{"nothing", issuedOperations{}, true},
		{"one rank", issuedOperations{map[int]uint64{3: 7}, nil, nil}, true},
		{"collectives", issuedOperations{map[int]uint64{0: 7, 1: 7}, nil, nil}, true},
		{"one is behind", issuedOperations{map[int]uint64{0: 7, 1: 6}, nil, nil}, false},
		{"one has begun", issuedOperations{map[int]uint64{0: 0, 1: 1}, nil, nil}, false},
		{"messages", issuedOperations{map[int]uint64{0: 0, 1: 0}, pairs{{0, 1}: 2}, pairs{{0, 1}: 2}}, true},
		{"sent", issuedOperations{map[int]uint64{0: 0, 1: 0}, pairs{{0, 1}: 2}, pairs{{0, 1}: 1}}, false},
		{"expected", issuedOperations{map[int]uint64{0: 0, 1: 0}, nil, pairs{{0, 1}: 1}}, false},
		{"to another server", issuedOperations{map[int]uint64{0: 0}, pairs{{0, 1}: 2}, nil}, true},
		{"from another server", issuedOperations{map[int]uint64{0: 0}, nil, pairs{{1, 0}: 2}}, true},
	} {
		if got := tc.l.isEven(); got != tc.want {
			t.Errorf("%s: isEven() = %v", tc.name, got)
		}
	}
}
