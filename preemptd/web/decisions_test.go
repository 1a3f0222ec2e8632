// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"testing"
	"time"
)

// TestDecisions: a decision that is repeated tick after tick is a single entry, with its last outcome, and a decision
// after a pause is another entry.
func TestDecisions(t *testing.T) {
	var all decisions
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	d := func(what, outcome string) Decision { return Decision{Policy: "tiers", What: what, Outcome: outcome} }
	all.addTick(1, at(1), []Decision{d("preempt job 1", "waits for job 2")})
	all.addTick(2, at(2), []Decision{d("preempt job 1", "begun"), d("preempt job 3", "begun")})
	all.addTick(4, at(4), []Decision{d("preempt job 1", "begun")})
	sent := all.newestFirst()
	if len(sent) != 3 || sent[0].Last != 4 || sent[0].Times != 1 || sent[2].First != 1 || sent[2].Last != 2 || sent[2].Times != 2 || sent[2].Outcome != "begun" {
		t.Errorf("newestFirst = %+v", sent)
	}
	for i := range uint64(2 * maxDecisions) {
		all.addTick(2*i+10, at(9), []Decision{d("preempt job 5", "")})
	}
	if len(all) != maxDecisions {
		t.Errorf("%d decisions are kept, want maxDecisions", len(all))
	}
}
