// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// firstBroken returns the first broken invariant of the results of several checks, or nil if all of them hold.
func firstBroken(all ...*violation) *violation {
	for _, b := range all {
		if b != nil {
			return b
		}
	}
	return nil
}

func mustRun(j *sdk.Job) *violation {
	if j.State != sdk.Running {
		return breakInvariant(State, "it does not run")
	}
	return nil
}

func mustBeCapturable(j *sdk.Job) *violation {
	if !j.Preemptable {
		return breakInvariant(Preemptable, "%s", j.Obstacle)
	}
	return nil
}

func sameTasks(j *sdk.Job, i sdk.Intent) *violation {
	if i.Tasks != 0 && i.Tasks != j.Tasks {
		return breakInvariant(Tasks, "%s; it has %d", sdk.CountOf(i.Tasks, "task"), j.Tasks)
	}
	return nil
}

// isHardwareLeaving reports whether a job is on hardware that is going: then the job is moved without regard to the
// other rules, because staying would cost the job more.
func (t *trial) isHardwareLeaving(j *sdk.Job) bool {
	for _, s := range j.Shares {
		n := &t.after.Nodes[s.Node]
		if n.State != sdk.NodeUp || s.GPUs&^n.Usable() != 0 || t.closesBefore(s.Node, j) {
			return true
		}
	}
	return false
}

// closesBefore reports whether a node is kept for maintenance while the job could still be there.
func (t *trial) closesBefore(node int32, j *sdk.Job) bool {
	now := t.before.Time
	for _, r := range t.before.Reservations {
		if r.Maintenance && (r.End.IsZero() || r.End.After(now)) && slices.Contains(r.Nodes, node) &&
			(j.Limit == 0 || r.Start.Before(j.Started.Add(j.Limit))) {
			return true
		}
	}
	return false
}

// mustBeSettled says whether a running job has been let alone for long enough.
func (t *trial) mustBeSettled(j *sdk.Job) *violation {
	now, rules := t.before.Time, t.before.Rules
	if ran := now.Sub(j.Started); ran < rules.MinRun {
		return breakInvariant(MinRun, "it has run for %v of at least %v", ran.Round(time.Second), rules.MinRun)
	}
	if !j.Acted.IsZero() && now.Sub(j.Acted) < rules.CoolDown {
		return breakInvariant(CoolDown, "it was disturbed %v ago; %v must pass", now.Sub(j.Acted).Round(time.Second), rules.CoolDown)
	}
	return nil
}

// mustKeepPromise says whether the job keeps the promise of its tier if it now stands still: for a dump and a restore,
// or in place while leases change its size.
// The promise may be broken only for the sake of a job of a higher tier with a broken promise of its own.
func (t *trial) mustKeepPromise(j *sdk.Job, i sdk.Intent) *violation {
	var cost time.Duration
	if j.Holds() {
		cost = j.Pause()
		if i.Verb == sdk.Resize && t.staysOn(j, i.Where) {
			cost = j.ResizePause(i.GPUs)
		}
	}
	budget := j.Budget(t.before.Rules)
	if budget >= cost {
		return nil
	}
	if other, ok := t.before.Job(i.For); ok && other.Tier > j.Tier && other.Budget(t.before.Rules) < 0 {
		return nil
	}
	return breakInvariant(Guarantee, "it is promised %.0f %% and has %.1f %%: it can stand still for %v more, and this takes %v",
		100*j.Promised, 100*j.Fraction, max(0, budget).Round(time.Second), cost.Round(time.Second))
}

// staysOn tells whether the places of an intent are on the nodes that the job has.
func (t *trial) staysOn(j *sdk.Job, where []sdk.Spot) bool {
	if len(where) != len(j.Shares) {
		return false
	}
	for _, spot := range where {
		if !slices.ContainsFunc(j.Shares, func(s sdk.Share) bool { return t.before.Nodes[s.Node].Name == spot.Node }) {
			return false
		}
	}
	return true
}

// mustFitEmptyNodes says whether nodes could have a waiting job that grows, if no other job ran: Slurm holds a job
// for which there are no nodes, until a person releases it.
func (t *trial) mustFitEmptyNodes(j *sdk.Job, gpus int) *violation {
	if gpus <= j.GPUs {
		return nil
	}
	empty := *t.before
	empty.Jobs = nil
	if sdk.NewRoom(&empty).Find(j, gpus, nil) == nil {
		return breakInvariant(Room, "no nodes have %s for it, however empty they are", sdk.CountOf(gpus, "GPU"))
	}
	return nil
}

// mustBeWhole says whether the places hold the whole job: all capsules, all GPUs, and as many GPUs
// on each node as on every other.
func mustBeWhole(j *sdk.Job, gpus int, where []sdk.Spot) *violation {
	capsules, total := 0, 0
	for _, w := range where {
		if w.Capsules < 1 || w.GPUs < 0 {
			return breakInvariant(Sense, "%s and %s on node %s", sdk.CountOf(w.Capsules, "capsule"), sdk.CountOf(w.GPUs, "GPU"), w.Node)
		}
		if w.GPUs != where[0].GPUs {
			return breakInvariant(Whole, "%s on node %s and %d on %s", sdk.CountOf(where[0].GPUs, "GPU"), where[0].Node, w.GPUs, w.Node)
		}
		capsules += w.Capsules
		total += w.GPUs
		if capsules > j.Capsules || total > gpus {
			break // before a sum overflows
		}
	}
	if capsules != j.Capsules || total != gpus {
		return breakInvariant(Whole, "places for %s and %s; it has %d and %d", sdk.CountOf(capsules, "capsule"), sdk.CountOf(total, "GPU"), j.Capsules, gpus)
	}
	return nil
}
