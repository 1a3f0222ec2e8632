// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Why says what stands in the way of a job that waits: which jobs of a lower tier could give way, and which not. The
// text stays the same for as long as the state does: it counts no seconds. It says as well when the promise to the
// job cannot be kept at all.
func Why(s *sdk.Snapshot, j *sdk.Job) string {
	why := whyWaits(s, j)
	if infeasible := WhyInfeasible(s, j); infeasible != "" {
		why += "; " + infeasible
	}
	return why
}

// whyWaits says which jobs and rules keep a job waiting.
func whyWaits(s *sdk.Snapshot, j *sdk.Job) string {
	if why := whyRequiredNotUp(s, j); why != "" {
		return why
	}
	t := &trial{before: s, after: s, room: sdk.NewRoom(s)}
	if t.room.Find(j, j.GPUs, nil) != nil {
		return "there is room for it: Slurm is to start it"
	}
	var could []string
	not := map[string][]string{}
	for i := range s.Jobs {
		o := &s.Jobs[i]
		if o.Tier >= j.Tier || !o.Holds() {
			continue
		}
		why := t.whyNotPreempted(o, j)
		if why != "" {
			not[why] = append(not[why], o.Label)
			continue
		}
		could = append(could, o.Label)
		t.room.Give(o.Shares)
	}
	var parts []string
	switch fits := t.room.Find(j, j.GPUs, nil) != nil; {
	case fits:
		return "no policy makes room for it; it would fit if these gave way: " + nameSome(could)
	case len(could) > 0:
		parts = append(parts, "it would not fit even if these gave way: "+nameSome(could))
	case len(not) == 0:
		return "there is no room, and no job of a lower tier holds any"
	}
	for _, why := range slices.Sorted(maps.Keys(not)) {
		parts = append(parts, nameSome(not[why])+": "+why)
	}
	return strings.Join(parts, "; ")
}

// whyRequiredNotUp names the nodes that a job must have and on which no job can start; empty: there are none.
func whyRequiredNotUp(s *sdk.Snapshot, j *sdk.Job) string {
	var parts []string
	for _, place := range j.Required {
		n := &s.Nodes[place]
		if n.State == sdk.NodeUp {
			continue
		}
		part := fmt.Sprintf("it must have node %s, which is %s", n.Name, n.State)
		if n.Reason != "" {
			part += ": " + n.Reason
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// whyNotPreempted says why a job cannot be preempted now for another job; empty: it can.
func (t *trial) whyNotPreempted(o, j *sdk.Job) string {
	if o.Action != "" {
		return o.Action + " is in progress"
	}
	b := checkPreempt(t, o, sdk.Intent{Verb: sdk.Preempt, Job: o.ID, For: j.ID})
	if b == nil {
		return ""
	}
	rules := t.before.Rules
	switch b.invariant {
	case Preemptable:
		return "not to be checkpointed, " + b.detail
	case MinRun:
		return fmt.Sprintf("running for less than %v", rules.MinRun)
	case CoolDown:
		return fmt.Sprintf("disturbed less than %v ago", rules.CoolDown)
	case Guarantee:
		return fmt.Sprintf("less than the promised %.0f %% would be left", 100*o.Promised)
	}
	return "not running"
}

// shown is how many jobs are named; of further jobs the text has only the number.
const shown = 5

// nameSome names jobs.
func nameSome(labels []string) string {
	noun := "job "
	if len(labels) > 1 {
		noun = "jobs "
	}
	if more := len(labels) - shown; more > 0 {
		return fmt.Sprintf("%s%s and %d more", noun, strings.Join(labels[:shown], ", "), more)
	}
	return noun + strings.Join(labels, ", ")
}
