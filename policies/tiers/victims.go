// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiers

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// victim is a job, or a whole gang, that may be disturbed.
type victim struct {
	leader    sdk.JobID
	jobs      []*sdk.Job
	tier      sdk.Tier      // the highest of them
	pause     time.Duration // for which they stand still when they are preempted: dump and restore
	least     time.Duration // for which they stand still at least, whatever they give: GPUs that were lent are given in place
	gpus      int           // that they hold
	mayReturn bool          // may start again on the same nodes

	keepsPromise bool // all of its jobs have their promise even after it was disturbed
	gone         bool // an intent names the job already
}

// costOfPause is the cost of having the job stand still, in microseconds of a GPU. No work is lost: a checkpoint is made
// before the job leaves its nodes.
func (v *victim) costOfPause(pause time.Duration) int64 {
	return int64(max(v.gpus, 1)) * max(pause, time.Millisecond).Microseconds()
}

// pauseText says for people for how long a job's GPUs stand still when the job is stopped and goes on later. Before
// the first checkpoint that is not known, and pause is 0.
func pauseText(pause time.Duration, gpus int) string {
	held := sdk.CountOf(gpus, "GPU")
	switch {
	case pause <= 0:
		return "how long a checkpoint and a restore take on its " + held + " is not known yet"
	case pause < time.Second:
		return "a checkpoint and a restore take less than a second on its " + held
	}
	return fmt.Sprintf("a checkpoint and a restore take %v on its %s", pause.Round(time.Second), held)
}

// leastGPUs is how many GPUs a shrunk job keeps on each of its nodes; the job stays on these nodes. A job that cannot
// be shrunk keeps all of its GPUs.
func (v *victim) leastGPUs() int {
	j := v.jobs[0]
	each := v.gpusPerNode()
	if len(v.jobs) > 1 || !v.mayReturn || each == 0 {
		return each
	}
	nodes := len(j.Shares)
	return min(each, max(1, (j.MinGPUs+nodes-1)/nodes))
}

// gpusPerNode is how many GPUs a job has on each of its nodes; 0 if not the same on all.
func (v *victim) gpusPerNode() int {
	shares := v.jobs[0].Shares
	each := 0
	for i, s := range shares {
		if i > 0 && s.GPUs.Count() != each {
			return 0
		}
		each = s.GPUs.Count()
	}
	return each
}

// victims are the jobs that may be disturbed.
type victims struct {
	byNode   [][]*victim // cheapest first
	byLeader map[sdk.JobID]*victim
}

// newVictims finds the victims: jobs of lower tiers than premium, that run long enough and were not disturbed lately.
func newVictims(s *sdk.Snapshot, room *sdk.Room) *victims {
	gangs := map[sdk.JobID]*victim{}
	var all []*victim
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Gang == 0 {
			if v := (&victim{leader: j.ID, jobs: []*sdk.Job{j}}); j.Holds() && v.sumUpJobs(s, room) {
				all = append(all, v)
			}
			continue
		}
		v := gangs[j.Gang]
		if v == nil {
			v = &victim{leader: j.Gang}
			gangs[j.Gang] = v
			all = append(all, v)
		}
		v.jobs = append(v.jobs, j)
	}
	all = slices.DeleteFunc(all, func(v *victim) bool { return len(v.jobs) > 1 && !v.sumUpJobs(s, room) })
	slices.SortStableFunc(all, func(a, b *victim) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.costOfPause(a.least), b.costOfPause(b.least)), cmp.Compare(a.leader, b.leader))
	})
	vs := &victims{byNode: make([][]*victim, len(s.Nodes)), byLeader: make(map[sdk.JobID]*victim, len(all))}
	for _, v := range all {
		vs.byLeader[v.leader] = v
		for _, j := range v.jobs {
			for _, share := range j.Shares {
				if on := vs.byNode[share.Node]; len(on) == 0 || on[len(on)-1] != v {
					vs.byNode[share.Node] = append(on, v)
				}
			}
		}
	}
	return vs
}

// sumUpJobs sets the fields of the victim from all of its jobs, and reports whether each of these jobs may be
// disturbed.
func (v *victim) sumUpJobs(s *sdk.Snapshot, room *sdk.Room) bool {
	v.mayReturn, v.keepsPromise = true, true
	for _, j := range v.jobs {
		if !s.MayDisturb(j) {
			return false
		}
		v.tier = max(v.tier, j.Tier)
		v.keepsPromise = v.keepsPromise && keepsPromise(j, s)
		v.pause = max(v.pause, j.Pause())
		for _, share := range j.Shares {
			v.gpus += share.GPUs.Count()
			v.mayReturn = v.mayReturn && room.Forbids(j, share.Node) == "" &&
				usableGPUs(j, &s.Nodes[share.Node], share.GPUs) == share.GPUs.Count()
		}
	}
	v.least = v.pause
	if j := v.jobs[0]; len(v.jobs) == 1 && j.Leased > 0 {
		v.least = min(v.pause, j.ResizePause(j.GPUs-j.Leased))
	}
	return v.tier < sdk.Premium
}

// keepsPromise reports whether a job is at its promise even after a dump and a restore.
func keepsPromise(j *sdk.Job, s *sdk.Snapshot) bool {
	return j.Budget(s.Rules) >= j.Pause()
}
