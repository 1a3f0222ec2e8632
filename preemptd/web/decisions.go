// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import "time"

// Decision is an intent of a policy, and its result.
type Decision struct {
	Policy    string
	Job       int64
	What      string // "preempt job 812"
	Reason    string // the policy's
	Rejected  bool
	Outcome   string // "begun", "waits for job 12"; for a rejection, why
	Invariant string // that a rejected intent would have broken
}

// repeatedDecision is a decision that was made in several ticks in a row.
type repeatedDecision struct {
	Decision
	first, last time.Time
	times       int
	tick        uint64 // of the last time
}

// maxDecisions is how many decisions are shown; older decisions are in the log.
const maxDecisions = 200

// decisions are the latest, oldest first.
type decisions []*repeatedDecision

// addTick notes the decisions of a tick. An intent that a policy repeats, tick after tick, stays a single entry, with
// the result of the last time.
func (all *decisions) addTick(tick uint64, at time.Time, made []Decision) {
	for _, d := range made {
		if again := all.findDecided(tick-1, &d); again != nil {
			again.Decision, again.last, again.tick = d, at, tick
			again.times++
			continue
		}
		*all = append(*all, &repeatedDecision{d, at, at, 1, tick})
	}
	if over := len(*all) - maxDecisions; over > 0 {
		*all = append(decisions(nil), (*all)[over:]...)
	}
}

func (all *decisions) findDecided(tick uint64, d *Decision) *repeatedDecision {
	for _, one := range *all {
		if one.tick == tick && one.Policy == d.Policy && one.What == d.What && one.Rejected == d.Rejected && one.Invariant == d.Invariant {
			return one
		}
	}
	return nil
}

// decisionJSON is a decision in /api/v1/state.
type decisionJSON struct {
	First     int64  `json:"first"`
	Last      int64  `json:"last"`
	Times     int    `json:"times"`
	Policy    string `json:"policy,omitempty"`
	Job       int64  `json:"job"`
	What      string `json:"what"`
	Reason    string `json:"reason"`
	Rejected  bool   `json:"rejected"`
	Outcome   string `json:"outcome"`
	Invariant string `json:"invariant,omitempty"`
}

// newestFirst returns all decisions as they are sent.
func (all decisions) newestFirst() []decisionJSON {
	sent := make([]decisionJSON, 0, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		d := all[i]
		sent = append(sent, decisionJSON{
			d.first.Unix(), d.last.Unix(), d.times, d.Policy, d.Job, d.What, d.Reason, d.Rejected, d.Outcome, d.Invariant,
		})
	}
	return sent
}
