// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "testing"

// TestCheckerCatchesWrongRules: simpler rules than ours are wrong, and the checker, which finds no error in ours, finds
// an error in each. A rule that comes to its end only by nudges counts as wrong: a checkpoint would take as long as a timer.
func TestCheckerCatchesWrongRules(t *testing.T) {
	tests := []struct {
		name  string
		rule  wrong
		on    string
		rules rules
		want  verdict
	}{
		{"exactly to the maximum", exactly, overlap, rules{noTicks: true}, stuck},
		{"exactly to the maximum, blocking", exactly, overlapWait, rules{noTicks: true}, stuck},
		{"exactly to the maximum, pipeline", exactly, shifted, rules{noTicks: true}, stuck},
		{"compare when all stand: a sync", standing, peerSync, rules{}, stuck},
		{"compare when all stand: host work", standing, rankZero, rules{}, stuck},
		{"rounds", rounds, overlapWait, rules{noTicks: true}, stuck},
		{"completed counts", completed, overlap, rules{}, unsafe},
		{"completed counts, one communicator", completed, peerSync, rules{}, unsafe},
		{"point-to-point not counted", noPairs, eagerSend, rules{}, unsafe},
		{"only arrived ones compared at creation", arrivedOnly, creation, rules{}, unsafe},
		{"grants not withdrawn", keepGrants, hostFirst, rules{}, refused},
		{"grants not withdrawn, spurious tick", keepGrants, shifted, rules{spurious: 1}, refused},
	}
	caught := map[wrong]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := caseWorld(tt.on)
			checkProgram(t, w, tt.rules)
			twisted := tt.rules
			twisted.wrong = tt.rule
			got := exploreAll(w, twisted, largestProgram())
			if got.verdict != tt.want {
				t.Errorf("verdict %s, want %s, after\n%s", got.verdict, tt.want, traceText(got.trace))
			}
			caught[tt.rule] = true
		})
	}
	for rule := exactly; rule <= keepGrants; rule++ {
		if !caught[rule] {
			t.Errorf("rule %d was not tried", rule)
		}
	}
}

// TestNudgeIsNeeded: programs whose ranks wait for each other in ways that are not counted come to a cut only by the
// nudge. TestEveryInterleaving shows that all other programs need no nudge.
func TestNudgeIsNeeded(t *testing.T) {
	for _, p := range cases {
		if !p.waits {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			if got := exploreAll(newWorld(p), rules{noTicks: true}, largestProgram()); got.verdict != stuck {
				t.Errorf("verdict without nudges = %s, want %s", got.verdict, stuck)
			}
		})
	}
}
