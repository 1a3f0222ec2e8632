// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Cause is why GPUs that a job asked for do no work for that job at a moment.
type Cause uint8

// The causes, in the order in which they are tried: of those that hold at a moment, the first counts. Each moment is
// judged by itself: a job that missed its room in the morning waits for higher tiers at noon, by this count.
const (
	Moving    Cause = iota // the job stands still for a dump or a restore
	Shrunk                 // the job runs on fewer GPUs than it asked for; less than zero where it has more
	Parked                 // a policy holds the job
	Clearing               // the job's place is chosen, and other jobs are leaving that place
	Higher                 // higher tiers leave fewer GPUs than the job needs
	Scattered              // higher tiers leave enough GPUs, but not together on as many nodes as the job needs
	Own                    // jobs of the same tier hold the GPUs that higher tiers leave
	Protected              // jobs of lower tiers have the room, and may not be disturbed now
	Undecided              // jobs of lower tiers have the room, and no policy has them give way
	Idle                   // there is room, and neither Slurm nor a policy has put the job there
	Causes    = 10         // how many there are
)

var causeNames = [Causes]string{
	"dump and restore", "fewer GPUs than asked for", "held by a policy", "its room is being made",
	"higher tiers have the GPUs", "higher tiers leave no node", "own tier has the GPUs",
	"lower tiers, not to be disturbed", "lower tiers, no policy acted", "there is room",
}

var causeKeys = [Causes]string{
	"dump_restore", "shrunk", "parked", "clearing", "higher", "scattered", "own", "protected", "undecided", "idle",
}

func (c Cause) String() string { return causeNames[c] }

// JobLoss is how the time of a job was used and lost, in GPU-hours.
type JobLoss struct {
	Job   sdk.JobID
	Tier  sdk.Tier
	GPUs  int
	Asked float64 // GPUs asked for, from submission to end
	Work  float64
	Least float64 // Asked cannot be less beside the jobs of higher tiers as they ran, had the job's tier no other job
	Lost  [Causes]float64
}

// Late is how much longer the job was there than it had to be.
func (l *JobLoss) Late() float64 { return l.Asked - l.Least }

// countLosses adds each job's losses from now until a moment, up to which the cluster does not change.
func (r *run) countLosses(until int64) {
	ms := float64(until - r.now)
	if !r.config.Losses || ms <= 0 {
		return
	}
	var v *view
	for i := range r.jobs[:r.next] {
		j := &r.jobs[i]
		if j.done > 0 {
			continue
		}
		if j.lost == nil {
			j.lost = new([Causes]float64)
		}
		asked := ms * float64(j.GPUs)
		switch {
		case j.computes:
			j.lost[Shrunk] += asked - ms*float64(j.holding)*float64(j.paceOn(j.holding))/fullPace
		case j.state == sdk.Running:
			j.lost[Moving] += asked
		default:
			if v == nil {
				v = r.makeView()
			}
			j.lost[v.causeOf(j)] += asked
		}
	}
}

// view is how many GPUs of each node are free at a moment, and would be if some jobs were not there.
type view struct {
	free      []int
	beside    [sdk.Tiers][]int // if there were only jobs of tiers that are higher
	besideOwn [sdk.Tiers][]int // and of this tier
	steady    [sdk.Tiers][]int // and jobs of lower tiers that may not be disturbed
}

func (r *run) makeView() *view {
	v := &view{free: r.freeNodes()}
	for t := range sdk.Tiers {
		v.beside[t], v.besideOwn[t], v.steady[t] = r.freeNodes(), r.freeNodes(), r.freeNodes()
	}
	for _, j := range r.running {
		v.subtractShares(j.born, j.shares, r.mayDisturb(j))
	}
	for _, c := range r.claims {
		v.subtractShares(c.job.born, c.got, false)
	}
	return v
}

// freeNodes returns the GPUs of each node.
func (r *run) freeNodes() []int { return slices.Repeat([]int{r.config.GPUs}, r.config.Nodes) }

// mayDisturb reports whether the rules let policies disturb a running job now.
func (r *run) mayDisturb(j *job) bool {
	since := func(ms int64) time.Duration { return time.Duration(r.now-ms) * time.Millisecond }
	return !j.Rigid && j.action == "" && since(j.started) >= r.config.Rules.MinRun && (j.acted < 0 || since(j.acted) >= r.config.Rules.CoolDown)
}

// subtractShares takes the shares of a tier's job from the GPUs that would be free.
func (v *view) subtractShares(of sdk.Tier, shares []sdk.Share, disturbable bool) {
	for _, s := range shares {
		n := s.GPUs.Count()
		v.free[s.Node] -= n
		for t := range sdk.Tier(sdk.Tiers) {
			if of > t {
				v.beside[t][s.Node] -= n
			}
			if of >= t {
				v.besideOwn[t][s.Node] -= n
			}
			if of >= t || !disturbable {
				v.steady[t][s.Node] -= n
			}
		}
	}
}

// causeOf is why a job without nodes does not run.
func (v *view) causeOf(j *job) Cause {
	left := 0
	for _, n := range v.beside[j.born] {
		left += n
	}
	switch {
	case j.state == sdk.Held:
		return Parked
	case j.claim != nil:
		return Clearing
	case left < j.gpus:
		return Higher
	case !hasRoom(j, v.beside[j.born]):
		return Scattered
	case !hasRoom(j, v.besideOwn[j.born]):
		return Own
	case !hasRoom(j, v.steady[j.born]):
		return Protected
	case !hasRoom(j, v.free):
		return Undecided
	}
	return Idle
}

// hasRoom reports whether as many nodes as a job needs have so many free GPUs.
func hasRoom(j *job, free []int) bool {
	nodes := 0
	for _, n := range free {
		if n >= j.gpus/j.Nodes {
			nodes++
		}
	}
	return nodes >= j.Nodes
}

// makeLosses returns the losses of all jobs, and of the latest first.
func (r *run) makeLosses() []JobLoss {
	if !r.config.Losses {
		return nil
	}
	var free [sdk.Tiers][]freeTime
	for t := range sdk.Tier(sdk.Tiers) {
		free[t] = freeBeside(r.holdings, t, r.config.Nodes*r.config.GPUs)
	}
	all := make([]JobLoss, 0, len(r.jobs))
	for i := range r.jobs {
		j := &r.jobs[i]
		l := JobLoss{
			Job: j.ID, Tier: j.born, GPUs: j.GPUs,
			Asked: hoursOf(float64(j.done-j.Submit.Milliseconds()) * float64(j.GPUs)), Work: hoursOf(float64(workOf(j.Job))),
			Least: hoursOf(float64(j.GPUs) * leastTime(j.Job, free[j.born])),
		}
		if j.lost != nil {
			for c, lost := range j.lost {
				l.Lost[c] = hoursOf(lost)
			}
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b JobLoss) int { return cmp.Compare(b.Late(), a.Late()) })
	return all
}

func hoursOf(ms float64) float64 { return ms / 3_600_000 }

// sumLosses adds up the losses of the jobs of a tier.
func sumLosses(jobs []JobLoss, t sdk.Tier) JobLoss {
	sum := JobLoss{Tier: t}
	for i := range jobs {
		l := &jobs[i]
		if l.Tier != t {
			continue
		}
		sum.Asked += l.Asked
		sum.Work += l.Work
		sum.Least += l.Least
		for c, lost := range l.Lost {
			sum.Lost[c] += lost
		}
	}
	return sum
}
