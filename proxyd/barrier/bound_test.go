// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "testing"

// worstIssues returns how many operations each rank issues through its shut gate at most, on any
// path.
func worstIssues(w *world, r rules) [maxRanks]int {
	known := make(map[string][maxRanks]int)
	var from func(s *state) [maxRanks]int
	from = func(s *state) (most [maxRanks]int) {
		key := string(s.encodeState(w, nil))
		if most, ok := known[key]; ok {
			return most
		}
		for _, m := range s.nextMoves(w) {
			n := from(m.to)
			if r := m.which; m.what == "issue" && s.gates[r].shut {
				n[r]++
			}
			for i := range most {
				most[i] = max(most[i], n[i])
			}
		}
		known[key] = most
		return most
	}
	return from(newState(w, r))
}

// TestBound: the numbers of operations that a cut costs at most, as they can be told in docs and to
// users.
func TestBound(t *testing.T) {
	tests := []struct {
		name  string
		ranks []string
		comms string
		want  [maxRanks]int
	}{
		{"all-reduces, blocking: at most one", []string{"A! A! A!", "A! A! A!"}, "A=0,1", [maxRanks]int{1, 1}},
		{"all-reduces, 4 ahead of the host", []string{"A A A A W", "A A A A W"}, "A=0,1", [maxRanks]int{4, 4}},
		{"the same between three", []string{"A A W", "A A W", "A A W"}, "A=0,1,2", [maxRanks]int{2, 2, 2}},
		{"overlap", []string{"A", "B A", "B"}, "A=0,1 B=1,2", [maxRanks]int{1, 2, 1}},
		{"shifted groups: the whole block", []string{">1 (>1 <1) (>1 <1) <1!", "(<0 >0) (<0 >0) (<0 >0) W"}, "", [maxRanks]int{4, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := worstIssues(newWorld(program{comms: tt.comms, ranks: tt.ranks}), rules{}); got != tt.want {
				t.Errorf("operations issued through shut gates = %v, want %v", got, tt.want)
			}
		})
	}
}
