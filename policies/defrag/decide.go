// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// tries is for how many waiting jobs, the first of the queue, defrag looks for room.
const tries = 20

// decideOn makes room for the first waiting job for which that can be done and pays. A decision helps a single job:
// the next snapshot shows the cluster after the moves.
func decideOn(s *sdk.Snapshot, set Settings) []sdk.Intent {
	room := sdk.NewRoom(s)
	for _, j := range waitingJobs(s, set) {
		if room.Find(j, j.GPUs, nil) != nil {
			continue // Slurm starts the job
		}
		if intents := makeRoom(s, set, j); intents != nil {
			return intents
		}
	}
	return nil
}

// waitingJobs is the first jobs of the queue that have waited for long enough.
func waitingJobs(s *sdk.Snapshot, set Settings) []*sdk.Job {
	var jobs []*sdk.Job
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State == sdk.Waiting && j.Action == "" && j.Gang == 0 && j.GPUs > 0 && j.GPUs%j.Capsules == 0 &&
			len(j.Required) <= j.Capsules && s.Time.Sub(j.Eligible) >= time.Duration(set.Patience) {
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *sdk.Job) int {
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	return jobs[:min(len(jobs), tries)]
}

// trialPlan is a plan that makes room for a job, while the plan is tried, with a room of its own.
type trialPlan struct {
	snapshot *sdk.Snapshot
	room     *sdk.Room
	job      *sdk.Job
	closed   map[int32]bool // nodes that are kept for the job
	moves    []sdk.Intent
	cost     float64 // GPU-seconds
}

// makeRoom clears the nodes that take least to clear. The result is nil if the job cannot have room or the moves do
// not pay.
func makeRoom(s *sdk.Snapshot, set Settings, j *sdk.Job) []sdk.Intent {
	plan := &trialPlan{snapshot: s, room: sdk.NewRoom(s), job: j, closed: map[int32]bool{}}
	for _, c := range candidateNodes(s, plan.room, j) {
		if len(plan.closed) == j.Capsules {
			break
		}
		if !plan.closed[c.node] {
			plan.clearNode(c, set.Most)
		}
	}
	if len(plan.closed) < j.Capsules || len(plan.moves) == 0 || !isMoveWorthwhile(s, set, j, plan.cost) {
		return nil
	}
	spots := make([]sdk.Spot, 0, j.Capsules)
	for node := range plan.closed {
		spots = append(spots, sdk.Spot{Node: s.Nodes[node].Name, Capsules: 1, GPUs: j.GPUs / j.Capsules})
	}
	slices.SortFunc(spots, func(x, y sdk.Spot) int { return cmp.Compare(x.Node, y.Node) })
	if _, err := plan.room.Seat(j, spots); err != nil {
		return nil
	}
	return append(plan.moves, sdk.Intent{Verb: sdk.Place, Job: j.ID, Where: spots, Reason: fmt.Sprintf(
		"%d small jobs have moved together for it; their checkpoints and restores took %.0f GPU-seconds", len(plan.moves), plan.cost)})
}

// isMoveWorthwhile reports whether the job would wait for longer than the moves are worth: until the first
// running job that could make as much room ends by its time limit.
func isMoveWorthwhile(s *sdk.Snapshot, set Settings, j *sdk.Job, cost float64) bool {
	wait := time.Hour // when the wait is not known
	for i := range s.Jobs {
		o := &s.Jobs[i]
		if o.State == sdk.Running && o.Limit > 0 && o.GPUs >= j.GPUs/j.Capsules {
			wait = min(wait, o.Started.Add(o.Limit).Sub(s.Time))
		}
	}
	return wait.Seconds()*float64(j.GPUs) >= set.Pays*cost
}

// candidate is a node that may be cleared, with the jobs that would have to move.
type candidate struct {
	node   int32
	movers []*sdk.Job
	cost   float64
}

// candidateNodes is the nodes where the job would fit if some small jobs moved, the cheapest first.
func candidateNodes(s *sdk.Snapshot, room *sdk.Room, j *sdk.Job) []candidate {
	movable := make([][]*sdk.Job, len(s.Nodes))
	for i := range s.Jobs {
		if o := &s.Jobs[i]; mayMove(s, o, j) {
			movable[o.Shares[0].Node] = append(movable[o.Shares[0].Node], o)
		}
	}
	var all []candidate
	for n := range s.Nodes {
		node := int32(n)
		if room.Forbids(j, node) != "" {
			continue
		}
		if c, ok := chooseMoves(room, j, node, movable[n]); ok {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	return all
}

// mayMove reports whether a job is small, and may be disturbed.
func mayMove(s *sdk.Snapshot, o, j *sdk.Job) bool {
	return s.MayDisturb(o) && o.Gang == 0 && len(o.Shares) == 1 && o.GPUs > 0 && o.GPUs < j.GPUs && o.Budget(s.Rules) >= o.Pause()
}

func moveCost(o *sdk.Job) float64 { return o.Pause().Seconds() * float64(o.GPUs) }

// chooseMoves returns which jobs leave a node so that the waiting job has room there: the
// cheapest first, until there is room enough.
func chooseMoves(room *sdk.Room, j *sdk.Job, node int32, movable []*sdk.Job) (candidate, bool) {
	c := candidate{node: node}
	fits := func() bool {
		f := room.Free(node)
		return f.GPUs.Count() >= j.GPUs/j.Capsules && f.CPUs >= j.CPUs && f.Memory >= j.Memory
	}
	slices.SortStableFunc(movable, func(a, b *sdk.Job) int { return cmp.Compare(moveCost(a), moveCost(b)) })
	for _, o := range movable {
		if fits() {
			break
		}
		room.Give(o.Shares)
		c.movers = append(c.movers, o)
		c.cost += moveCost(o)
	}
	ok := fits()
	for _, o := range c.movers {
		room.Take(o.Shares)
	}
	return c, ok
}

// clearNode moves the jobs that are in the way on a node to other nodes, and keeps the node. The plan stays as before
// if a job finds no place, or if there would be too many moves.
func (p *trialPlan) clearNode(c candidate, most int) {
	if len(p.moves)+len(c.movers) > most {
		return
	}
	var done [][2][]sdk.Share
	var moves []sdk.Intent
	for _, o := range c.movers {
		leaveOut := func(n int32) bool { return n == c.node || p.closed[n] }
		shares := p.room.Find(o, o.GPUs, leaveOut)
		if shares == nil || slices.ContainsFunc(p.moves, func(i sdk.Intent) bool { return i.Job == o.ID }) {
			for _, d := range done {
				p.room.Give(d[1])
				p.room.Take(d[0])
			}
			return
		}
		p.room.Give(o.Shares)
		p.room.Take(shares)
		done = append(done, [2][]sdk.Share{o.Shares, shares})
		moves = append(moves, sdk.Intent{Verb: sdk.Migrate, Job: o.ID, For: p.job.ID, Where: p.snapshot.Spots(shares), Reason: fmt.Sprintf(
			"moves together with others, so that job %s has %s on one node", p.job.Label, sdk.CountOf(p.job.GPUs/p.job.Capsules, "GPU"))})
	}
	p.moves = append(p.moves, moves...)
	p.cost += c.cost
	p.closed[c.node] = true
}
