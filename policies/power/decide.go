// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package power

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// decision is the state of a decision on a snapshot.
type decision struct {
	snapshot *sdk.Snapshot
	settings Settings
	room     *sdk.Room
	saved    []float64 // watts that the choices so far save, by node
	choices  []*choice
	of       map[sdk.JobID]*choice
	intents  []sdk.Intent
}

// choice is a job that is to go slower or to be parked, with the cap that needs this.
type choice struct {
	job  *sdk.Job
	keep int // GPUs on each of its nodes; 0: the job is parked
	cap  string
	over float64 // watts that were too much
}

// decideOn sheds the watts above each cap; if all caps are kept, parked jobs go on.
func decideOn(s *sdk.Snapshot, set Settings) []sdk.Intent {
	d := &decision{snapshot: s, settings: set, room: sdk.NewRoom(s), saved: make([]float64, len(s.Nodes)), of: map[sdk.JobID]*choice{}}
	d.addExpected()
	caps := d.bindingCaps()
	over := false
	for _, c := range caps {
		over = d.shedWatts(c) || over
	}
	for _, c := range d.choices {
		d.intents = append(d.intents, d.intentFor(c))
	}
	if !over {
		d.resumeParked(caps)
	}
	return d.intents
}

// limit is a cap with the nodes that the cap binds.
type limit struct {
	sdk.Cap
	binds func(node int32) bool
}

// bindingCaps is the caps that bind now, or will very soon.
func (d *decision) bindingCaps() []limit {
	var caps []limit
	for _, c := range d.snapshot.Power.Caps {
		soon := d.snapshot.Time.Add(time.Duration(d.settings.Lead))
		if c.Start.After(soon) || !c.End.IsZero() && !c.End.After(d.snapshot.Time) {
			continue
		}
		binds := func(node int32) bool { return len(c.Nodes) == 0 || slices.Contains(c.Nodes, node) }
		caps = append(caps, limit{c, binds})
	}
	return caps
}

// addExpected counts the power of jobs that are about to start: no reading contains that power
// yet.
func (d *decision) addExpected() {
	for i := range d.snapshot.Jobs {
		if j := &d.snapshot.Jobs[i]; j.Action != "" && j.State == sdk.Running && j.Started.Equal(d.snapshot.Time) {
			for _, share := range j.Shares {
				d.saved[share.Node] -= d.wattsMore(share.Node, share.GPUs)
			}
		}
	}
}

// wattsMore is how much more GPUs will draw at work than they draw now.
func (d *decision) wattsMore(node int32, set sdk.GPUSet) float64 {
	sum := 0.0
	for i, g := range d.snapshot.Nodes[node].GPUs {
		if set>>i&1 == 1 {
			sum += max(0, cmp.Or(float64(g.Limit), d.settings.Busy)-float64(g.Watts))
		}
	}
	return sum
}

// wattsLess is how much less GPUs will draw when no job runs on them.
func (d *decision) wattsLess(node int32, set sdk.GPUSet) float64 {
	sum := 0.0
	for i, g := range d.snapshot.Nodes[node].GPUs {
		if set>>i&1 == 1 {
			sum += max(0, float64(g.Watts)-d.settings.Idle)
		}
	}
	return sum
}

// wattsUnder is the power that the nodes of a cap will draw when the intents so far are done.
func (d *decision) wattsUnder(c limit) float64 {
	sum := 0.0
	for i := range d.snapshot.Nodes {
		if c.binds(int32(i)) {
			sum += d.snapshot.Nodes[i].Watts - d.saved[i]
		}
	}
	return sum
}

// shedWatts slows and parks jobs until a cap is kept, and reports whether the cap was broken
// before. A job of a higher tier goes slower only when all jobs of the lower tiers are parked.
func (d *decision) shedWatts(c limit) bool {
	over := d.wattsUnder(c) - c.Watts
	if over <= 0 {
		return false
	}
	jobs := d.movableJobs(c)
	for _, tier := range []sdk.Tier{sdk.Basic, sdk.Standard} {
		for _, park := range []bool{false, true} {
			for _, j := range jobs {
				if over <= 0 {
					return true
				}
				if j.Tier == tier {
					over -= d.chooseFor(j, c, park, over)
				}
			}
		}
	}
	return true
}

// chooseFor makes a job go on with as few GPUs as needed, or parks the job. It returns the watts that this saves
// under the cap beyond the watts saved by an earlier choice for the job.
func (d *decision) chooseFor(j *sdk.Job, c limit, park bool, over float64) float64 {
	was := d.wattsSaved(j, c, j.GPUs)
	keep := 0
	if old := d.of[j.ID]; old != nil {
		was = d.wattsSaved(j, c, old.keep)
	}
	if !park {
		each, least := d.sizesOf(j)
		if least >= each || d.of[j.ID] != nil {
			return 0
		}
		for keep = each - 1; keep > least && d.wattsSaved(j, c, keep) < over; {
			keep--
		}
		if keep = j.SizeWithoutSwapping(len(j.Shares), keep, least, each); keep == each {
			return 0
		}
	}
	d.addChoice(&choice{j, keep, c.Name, over})
	return d.wattsSaved(j, c, keep) - was
}

// sizesOf is how many GPUs a job has on each of its nodes, and how many it needs there; the same
// if the job cannot go slower on its nodes.
func (d *decision) sizesOf(j *sdk.Job) (each, least int) {
	nodes := len(j.Shares)
	each = j.GPUs / max(nodes, 1)
	least = max(1, (j.MinGPUs+nodes-1)/max(nodes, 1))
	if each*nodes != j.GPUs || least >= each {
		return each, each
	}
	d.room.Give(j.Shares)
	defer d.room.Take(j.Shares)
	if _, err := d.room.Seat(j, d.spotsOf(j, each)); err != nil {
		return each, each // the job could not start there again
	}
	return each, least
}

// spotsOf is a job's nodes, with so many GPUs on each.
func (d *decision) spotsOf(j *sdk.Job, each int) []sdk.Spot {
	spots := make([]sdk.Spot, len(j.Shares))
	for i, share := range j.Shares {
		spots[i] = sdk.Spot{Node: d.snapshot.Nodes[share.Node].Name, Capsules: int(share.Capsules), GPUs: each}
	}
	return spots
}

// addChoice counts a choice, in the place of an older choice for the same job.
func (d *decision) addChoice(c *choice) {
	keeps := c.job.GPUs
	if old := d.of[c.job.ID]; old != nil {
		keeps = old.keep
		*old = *c
	} else {
		d.of[c.job.ID] = c
		d.choices = append(d.choices, c)
	}
	for _, share := range c.job.Shares {
		d.saved[share.Node] += d.wattsLess(share.Node, share.GPUs.First(keeps)&^share.GPUs.First(c.keep))
	}
}

// wattsSaved is the power that is saved under a cap if a job keeps only so many GPUs on each of its nodes.
func (d *decision) wattsSaved(j *sdk.Job, c limit, keep int) float64 {
	sum := 0.0
	for _, share := range j.Shares {
		if c.binds(share.Node) {
			sum += d.wattsLess(share.Node, share.GPUs&^share.GPUs.First(keep))
		}
	}
	return sum
}

// intentFor returns the intent that carries out a choice.
func (d *decision) intentFor(c *choice) sdk.Intent {
	if c.keep == 0 {
		return sdk.Intent{Verb: sdk.Preempt, Job: c.job.ID, Park: true, Reason: fmt.Sprintf(
			"power cap %s: %.0f W too much; the job is parked until there is power", c.cap, c.over)}
	}
	where := d.spotsOf(c.job, c.keep)
	return sdk.Intent{Verb: sdk.Resize, Job: c.job.ID, GPUs: c.keep * len(where), Where: where, Reason: fmt.Sprintf(
		"power cap %s: %.0f W too much; the job goes on with %d of its %s", c.cap, c.over, c.keep*len(where), sdk.CountOf(c.job.GPUs, "GPU"))}
}

// movableJobs are the jobs that a cap can slow, the lowest tier first, and of a tier first the jobs
// that lose least time.
func (d *decision) movableJobs(c limit) []*sdk.Job {
	s := d.snapshot
	var jobs []*sdk.Job
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if s.MayDisturb(j) && j.Gang == 0 && j.Tier < sdk.Premium && j.Budget(s.Rules) >= j.Pause() &&
			slices.ContainsFunc(j.Shares, func(x sdk.Share) bool { return c.binds(x.Node) }) {
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *sdk.Job) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Pause(), b.Pause()), cmp.Compare(a.ID, b.ID))
	})
	return jobs
}

// resumeParked resumes parked jobs as far as there is power, without regard to the nodes that they will get: the
// highest tier first, then the job that has waited for longest.
func (d *decision) resumeParked(caps []limit) {
	var parked []*sdk.Job
	for i := range d.snapshot.Jobs {
		if j := &d.snapshot.Jobs[i]; j.State == sdk.Held && j.HeldBy == sdk.HeldByPreemptd && j.Action == "" && j.Gang == 0 {
			parked = append(parked, j)
		}
	}
	slices.SortStableFunc(parked, func(a, b *sdk.Job) int {
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), a.Acted.Compare(b.Acted), cmp.Compare(a.ID, b.ID))
	})
	free := -1.0 // no cap
	for _, c := range caps {
		if left := c.Watts*(1-d.settings.Margin) - d.wattsUnder(c); free < 0 || left < free {
			free = max(0, left)
		}
	}
	for _, j := range parked {
		needs := float64(j.GPUs) * (d.settings.Busy - d.settings.Idle)
		if free >= 0 && needs > free {
			continue
		}
		if free >= 0 {
			free -= needs
		}
		d.intents = append(d.intents, sdk.Intent{Verb: sdk.Resume, Job: j.ID, Reason: "there is power for it"})
	}
}
