// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Plan is the result of a list of intents.
type Plan struct {
	Steps    []Step // accepted, in the order in which they must be carried out
	Rejected []Rejection
	// Snapshot is the cluster when all steps are done, as far as that is known: the given
	// snapshot if there are no steps. Jobs of steps have their Action set, so that the next
	// policy leaves them alone.
	Snapshot *sdk.Snapshot
}

// Step is an accepted intent.
type Step struct {
	Intent sdk.Intent
	Jobs   []sdk.JobID // the job and the rest of its gang, ascending
	// After are the jobs that must have left their nodes by steps of their own before, because this step takes the room
	// that they had. Ascending.
	After []sdk.JobID
}

// Try applies the intents to the snapshot, which is not changed.
func Try(s *sdk.Snapshot, intents []sdk.Intent) *Plan {
	p := &Plan{Snapshot: s}
	if len(intents) == 0 {
		return p
	}
	t := newTrial(s)
	for _, intent := range intents {
		if b := t.tryIntent(intent); b != nil {
			p.Rejected = append(p.Rejected, Rejection{intent, b.invariant, b.detail})
			continue
		}
		p.Steps = append(p.Steps, t.step)
	}
	if len(p.Steps) > 0 {
		p.Snapshot = t.after
	}
	return p
}

// trial is the cluster after the steps so far.
type trial struct {
	before *sdk.Snapshot
	after  *sdk.Snapshot // its Jobs are the trial's own, the rest is shared with before
	room   *sdk.Room
	gangs  map[sdk.JobID][]*sdk.Job // by leader, of jobs that are not alone
	taken  map[sdk.JobID]bool       // jobs that have a step
	freed  map[int32][]sdk.JobID    // by node: the jobs with places that are free for later steps
	used   limits
	step   Step // that is being tried
}

func newTrial(s *sdk.Snapshot) *trial {
	after := *s
	after.Jobs = slices.Clone(s.Jobs)
	t := &trial{
		before: s, after: &after, room: sdk.NewRoom(s),
		gangs: map[sdk.JobID][]*sdk.Job{}, taken: map[sdk.JobID]bool{}, freed: map[int32][]sdk.JobID{},
		used: newLimits(s),
	}
	for i := range after.Jobs {
		if j := &after.Jobs[i]; j.Gang != 0 {
			t.gangs[j.Gang] = append(t.gangs[j.Gang], j)
		}
	}
	return t
}

// tryIntent makes an intent a step, or says which invariant forbids it; then the trial is unchanged.
func (t *trial) tryIntent(i sdk.Intent) *violation {
	jobs, b := t.jobsNamed(i)
	if b != nil {
		return b
	}
	t.step = Step{Intent: i}
	verb := verbs[i.Verb]
	for _, j := range jobs {
		if b := verb.check(t, j, i); b != nil {
			return b
		}
	}
	if b := verb.apply(t, jobs, i); b != nil {
		return b
	}
	for _, j := range jobs {
		j.Action = i.Verb.String()
		t.taken[j.ID] = true
		t.step.Jobs = append(t.step.Jobs, j.ID)
	}
	slices.Sort(t.step.After)
	t.step.After = slices.Compact(t.step.After)
	return nil
}

// jobsNamed is the jobs that an intent means: its job and the rest of the gang.
func (t *trial) jobsNamed(i sdk.Intent) ([]*sdk.Job, *violation) {
	switch {
	case i.Verb < sdk.Preempt || i.Verb > sdk.Place:
		return nil, breakInvariant(Sense, "there is no %v", i.Verb)
	case i.Reason == "":
		return nil, breakInvariant(Sense, "there is no reason")
	}
	j, ok := t.after.Job(i.Job)
	switch {
	case !ok:
		return nil, breakInvariant(Known, "there is no such job")
	case t.taken[j.ID]:
		return nil, breakInvariant(Once, "the job has an intent already")
	case j.Action != "":
		return nil, breakInvariant(Idle, "%s is in progress", j.Action)
	case j.Gang == 0:
		return []*sdk.Job{j}, nil
	case j.Gang != j.ID:
		return nil, breakInvariant(Gang, "it is a component of job %d, which must be named", j.Gang)
	case len(i.Where) > 0 || i.Verb == sdk.Resize || i.Verb == sdk.Migrate:
		return nil, breakInvariant(Gang, "its components cannot be given places of their own")
	}
	for _, m := range t.gangs[j.ID] {
		if m.Action != "" {
			return nil, breakInvariant(Idle, "%s of component %d is in progress", m.Action, m.ID)
		}
	}
	return t.gangs[j.ID], nil
}

// leaveNodes takes the job off its nodes, for later steps to use.
func (t *trial) leaveNodes(j *sdk.Job) {
	t.room.Give(j.Shares)
	for _, s := range j.Shares {
		t.freed[s.Node] = append(t.freed[s.Node], j.ID)
	}
	t.used.addGPUs(j, -gpusHeld(j))
	j.Shares = nil
}

// occupyNodes puts the job on nodes. The job must wait for all jobs that leave them: which GPUs
// of a node a job gets is Slurm's choice.
func (t *trial) occupyNodes(j *sdk.Job, shares []sdk.Share) {
	t.room.Take(shares)
	for _, s := range shares {
		for _, left := range t.freed[s.Node] {
			if left != j.ID {
				t.step.After = append(t.step.After, left)
			}
		}
	}
	j.Shares = shares
	j.State, j.HeldBy, j.Started = sdk.Running, sdk.HeldByNobody, t.before.Time
	t.used.addGPUs(j, gpusHeld(j))
}

// gpusHeld is how many GPUs a job holds.
func gpusHeld(j *sdk.Job) int {
	n := 0
	for _, s := range j.Shares {
		n += s.GPUs.Count()
	}
	return n
}

// sameShares reports whether a job would stay on its nodes with its GPUs.
func sameShares(a, b []sdk.Share) bool {
	return slices.EqualFunc(a, b, func(x, y sdk.Share) bool {
		return cmp.Compare(x.Node, y.Node) == 0 && x.Capsules == y.Capsules && x.GPUs.Count() == y.GPUs.Count()
	})
}
