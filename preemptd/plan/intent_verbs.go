// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// verb has the conditions and the effect of a verb. check looks at each job of the gang; apply changes the trial, or
// says why that is impossible and leaves the trial unchanged.
type verb struct {
	check func(t *trial, j *sdk.Job, i sdk.Intent) *violation
	apply func(t *trial, jobs []*sdk.Job, i sdk.Intent) *violation
}

var verbs = [...]verb{
	sdk.Preempt: {checkPreempt, applyPreempt},
	sdk.Resume:  {checkRelease, applyResume},
	sdk.Migrate: {checkMigrate, applyMigrate},
	sdk.Resize:  {checkResize, applyResize},
	sdk.Hold:    {checkHold, applyHold},
	sdk.Release: {checkRelease, applyResume},
	sdk.Requeue: {checkRequeue, applyRequeue},
	sdk.Place:   {checkPlace, applyPlace},
}

func checkPreempt(t *trial, j *sdk.Job, i sdk.Intent) *violation {
	if b := firstBroken(mustRun(j), mustBeCapturable(j), sameTasks(j, i)); b != nil || t.isHardwareLeaving(j) {
		return b
	}
	return firstBroken(t.mustBeSettled(j), t.mustKeepPromise(j, i))
}

func applyPreempt(t *trial, jobs []*sdk.Job, i sdk.Intent) *violation {
	for _, j := range jobs {
		t.leaveNodes(j)
		j.State, j.Started, j.Acted = sdk.Waiting, time.Time{}, t.before.Time
		if i.Park {
			j.State, j.HeldBy = sdk.Held, sdk.HeldByPreemptd
		}
	}
	return nil
}

func checkRequeue(t *trial, j *sdk.Job, i sdk.Intent) *violation {
	qos, ok := t.after.FindQOS(i.QOS)
	switch {
	case !ok:
		return breakInvariant(QOS, "there is no QOS %q", i.QOS)
	case qos.Name == j.QOS:
		return breakInvariant(Change, "it has QOS %s already", j.QOS)
	case j.State == sdk.Running:
		return checkPreempt(t, j, i)
	case j.Holds():
		return mustRun(j)
	case i.Park && j.State == sdk.Held:
		return breakInvariant(Holder, "it is held already")
	}
	return firstBroken(sameTasks(j, i), t.mustKeepPromise(j, i))
}

func applyRequeue(t *trial, jobs []*sdk.Job, i sdk.Intent) *violation {
	qos, _ := t.after.FindQOS(i.QOS)
	for _, j := range jobs {
		if j.Holds() || i.Park {
			applyPreempt(t, []*sdk.Job{j}, i)
		}
		j.QOS, j.Tier, j.Promised = qos.Name, qos.Tier, t.after.Rules.Promised[qos.Tier]
	}
	return nil
}

func checkMigrate(t *trial, j *sdk.Job, i sdk.Intent) *violation {
	return checkPreempt(t, j, i)
}

func applyMigrate(t *trial, jobs []*sdk.Job, i sdk.Intent) *violation {
	return t.moveJob(jobs[0], jobs[0].GPUs, i)
}

func checkResize(t *trial, j *sdk.Job, i sdk.Intent) *violation {
	switch {
	case i.GPUs < j.MinGPUs || i.GPUs > j.MaxGPUs || i.GPUs <= 0:
		return breakInvariant(Size, "%s; it runs on %d to %d", sdk.CountOf(i.GPUs, "GPU"), j.MinGPUs, j.MaxGPUs)
	case i.GPUs == j.GPUs:
		return breakInvariant(Change, "it has %s already", sdk.CountOf(j.GPUs, "GPU"))
	case i.GPUs < j.GPUs && i.GPUs != j.Request && j.Swaps(i.GPUs):
		return breakInvariant(Size, "its ranks would be swapped on %s, by its newest checkpoint", sdk.CountOf(i.GPUs, "GPU"))
	case !j.Holds():
		if len(i.Where) > 0 {
			return breakInvariant(State, "it does not run: place or resume it")
		}
		return firstBroken(sameTasks(j, i), t.mustFitEmptyNodes(j, i.GPUs), t.mustKeepPromise(j, i))
	}
	if b := firstBroken(mustRun(j), mustBeCapturable(j), sameTasks(j, i)); b != nil || t.isHardwareLeaving(j) {
		return b
	}
	if i.GPUs > j.GPUs {
		return t.mustBeSettled(j) // more GPUs can only help to keep the job's promise
	}
	return firstBroken(t.mustBeSettled(j), t.mustKeepPromise(j, i))
}

func applyResize(t *trial, jobs []*sdk.Job, i sdk.Intent) *violation {
	j := jobs[0]
	if j.Holds() {
		return t.moveJob(j, i.GPUs, i)
	}
	j.GPUs, j.Leased = i.GPUs, min(j.Leased, i.GPUs)
	return nil
}

func checkHold(t *trial, j *sdk.Job, i sdk.Intent) *violation {
	switch {
	case j.State == sdk.Held:
		return breakInvariant(Change, "it is held already")
	case j.Holds():
		return breakInvariant(State, "it runs: preempt and park it (singctl preempt --hold)")
	}
	return t.mustKeepPromise(j, i)
}

func applyHold(_ *trial, jobs []*sdk.Job, _ sdk.Intent) *violation {
	for _, j := range jobs {
		j.State, j.HeldBy = sdk.Held, sdk.HeldByPreemptd
	}
	return nil
}

func checkRelease(_ *trial, j *sdk.Job, i sdk.Intent) *violation {
	switch {
	case j.State != sdk.Held:
		return breakInvariant(State, "it is not held")
	case j.HeldBy != sdk.HeldByPreemptd:
		return breakInvariant(Holder, "a person holds it")
	case i.Verb == sdk.Release && len(i.Where) > 0:
		return breakInvariant(Sense, "release gives no places: resume does")
	}
	return sameTasks(j, i)
}

func applyResume(t *trial, jobs []*sdk.Job, i sdk.Intent) *violation {
	if len(i.Where) > 0 {
		return t.startJob(jobs[0], i)
	}
	for _, j := range jobs {
		j.State, j.HeldBy = sdk.Waiting, sdk.HeldByNobody
	}
	return nil
}

func checkPlace(_ *trial, j *sdk.Job, i sdk.Intent) *violation {
	switch {
	case j.State != sdk.Waiting:
		return breakInvariant(State, "it does not wait for room")
	case len(i.Where) == 0:
		return breakInvariant(Sense, "there are no places")
	}
	return sameTasks(j, i)
}

func applyPlace(t *trial, jobs []*sdk.Job, i sdk.Intent) *violation { return t.startJob(jobs[0], i) }

// startJob puts a job that does not run where the intent says.
func (t *trial) startJob(j *sdk.Job, i sdk.Intent) *violation {
	if b := mustBeWhole(j, j.GPUs, i.Where); b != nil {
		return b
	}
	if b := t.used.allowGPUs(j, j.GPUs); b != nil {
		return b
	}
	shares, err := t.room.Seat(j, i.Where)
	if err != nil {
		return breakInvariant(Room, "%v", err)
	}
	t.occupyNodes(j, shares)
	return nil
}

// moveJob takes a running job from its place to where the intent says, or to any place that the
// job could have, with so many GPUs.
func (t *trial) moveJob(j *sdk.Job, gpus int, i sdk.Intent) *violation {
	if len(i.Where) > 0 {
		if b := mustBeWhole(j, gpus, i.Where); b != nil {
			return b
		}
	}
	if b := t.used.allowGPUs(j, gpus-gpusHeld(j)); b != nil {
		return b
	}
	t.room.Give(j.Shares)
	shares, b := t.sharesFor(j, gpus, i)
	t.room.Take(j.Shares)
	switch {
	case b != nil:
		return b
	case gpus == j.GPUs && sameShares(shares, j.Shares):
		return breakInvariant(Change, "it is there already")
	}
	t.leaveNodes(j)
	t.occupyNodes(j, shares)
	j.GPUs, j.Acted = gpus, t.before.Time
	return nil
}

// sharesFor returns where a job would be, if its present shares were free.
func (t *trial) sharesFor(j *sdk.Job, gpus int, i sdk.Intent) ([]sdk.Share, *violation) {
	avoid := make([]int32, 0, len(i.Avoid))
	for _, name := range i.Avoid {
		node, ok := t.after.Node(name)
		if !ok {
			return nil, breakInvariant(Room, "there is no node %q", name)
		}
		avoid = append(avoid, node)
	}
	if len(i.Where) == 0 {
		shares := t.room.Find(j, gpus, func(n int32) bool { return slices.Contains(avoid, n) })
		if shares == nil {
			return nil, breakInvariant(Room, "elsewhere there is no room for its %s", sdk.CountOf(gpus, "GPU"))
		}
		return shares, nil
	}
	shares, err := t.room.Seat(j, i.Where)
	if err != nil {
		return nil, breakInvariant(Room, "%v", err)
	}
	for _, s := range shares {
		if slices.Contains(avoid, s.Node) {
			return nil, breakInvariant(Sense, "node %s is both wanted and avoided", t.after.Nodes[s.Node].Name)
		}
	}
	return shares, nil
}
