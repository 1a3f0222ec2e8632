// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiers

import (
	"cmp"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// never is when a job without a limit ends: later than any job with a limit.
const never = 1000 * time.Hour

// nodeReservation is for which job, and until when, a node is kept.
type nodeReservation struct {
	tier  sdk.Tier      // of the job that will have the node
	until time.Duration // until then that job cannot start; 0: not known
}

// delay is for how long, and for lack of how many GPUs, a job cannot have a node, once all jobs that the job may
// disturb have left that node.
type delay struct {
	left    time.Duration // until enough jobs have ended
	missing int           // GPUs, now
}

func compareDelays(a, b delay) int {
	return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.missing, b.missing))
}

// keepRoomFor keeps nodes for a job, for the rest of the decision: the nodes where the job could start soonest. Without
// that, small jobs of the same tier would take these nodes again and again, and a large job would never start.
// isKeptFrom says which jobs may use the nodes nevertheless: preemptable jobs of lower tiers, which give way when the
// job can start; jobs that end before; and premium jobs that have waited for longer than their promise allows. Jobs of
// higher tiers need no exception, since the decision serves them first. The next decision chooses the nodes anew, and
// chooses the same unless a job ends unexpectedly.
func (d *decision) keepRoomFor(j *sdk.Job) {
	delays := make([]delay, len(d.snapshot.Nodes))
	var nodes []int32
	for n := range d.snapshot.Nodes {
		node := int32(n)
		if !d.isKeptFrom(j)(node) && d.room.Forbids(j, node) == "" && usableGPUs(j, &d.snapshot.Nodes[n], d.snapshot.Nodes[n].All()) >= j.GPUs/j.Capsules {
			nodes = append(nodes, node)
			delays[n] = d.delayOn(j, node)
		}
	}
	if len(nodes) < j.Capsules {
		return // the job fits on too few nodes even if no other job ran
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return compareDelays(delays[a], delays[b]) })
	k := nodeReservation{tier: j.Tier}
	if start := delays[nodes[j.Capsules-1]].left; start < never {
		k.until = start
	}
	for _, n := range nodes[:j.Capsules] {
		d.kept[n] = k
	}
}

// jobOnNode is a job on a node.
type jobOnNode struct {
	job   *sdk.Job
	share *sdk.Share
	left  time.Duration // until its limit
}

// staysOn returns the jobs on a node, of which the first ends first.
func (d *decision) staysOn(node int32) []jobOnNode {
	if d.stays == nil {
		d.stays = listStays(d.snapshot)
	}
	return d.stays[node]
}

func listStays(s *sdk.Snapshot) [][]jobOnNode {
	stays := make([][]jobOnNode, len(s.Nodes))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		left := never
		if j.Limit > 0 {
			left = j.Started.Add(j.Limit).Sub(s.Time)
		}
		for k := range j.Shares {
			share := &j.Shares[k]
			stays[share.Node] = append(stays[share.Node], jobOnNode{j, share, left})
		}
	}
	for _, on := range stays {
		slices.SortStableFunc(on, func(a, b jobOnNode) int { return cmp.Compare(a.left, b.left) })
	}
	return stays
}

// delayOn finds how long jobs that the job cannot disturb hold the part of a node that the job needs.
func (d *decision) delayOn(j *sdk.Job, n int32) delay {
	node := &d.snapshot.Nodes[n]
	lacks := missingResources{
		gpus: j.GPUs/j.Capsules - usableGPUs(j, node, node.All()),
		cpus: j.CPUs - node.CPUs, memory: j.Memory - node.Memory,
	}
	heldBy := func(s jobOnNode) *freedResources {
		return &freedResources{gpus: usableGPUs(j, node, s.share.GPUs), cpus: int(s.share.CPUs), memory: s.share.Memory}
	}
	stays := d.staysOn(n)
	for _, s := range stays {
		if !d.givesWay(s.job, j) {
			lacks = lacks.raisedBy(heldBy(s))
		}
	}
	found := delay{missing: max(lacks.gpus, 0)}
	for _, s := range stays {
		if lacks.isMet() {
			break
		}
		if !d.givesWay(s.job, j) {
			lacks = lacks.reducedBy(heldBy(s))
			found.left = s.left
		}
	}
	return found
}

// givesWay reports whether a job has to leave a node as soon as a waiting job can have that node.
func (d *decision) givesWay(o, waiting *sdk.Job) bool {
	return o.Tier < waiting.Tier && d.snapshot.MayDisturb(o) && (keepsPromise(o, d.snapshot) || waiting.Budget(d.snapshot.Rules) < 0)
}

// isKeptFrom returns whether a node is kept for another job, to which a job would not give way.
func (d *decision) isKeptFrom(j *sdk.Job) func(node int32) bool {
	breaksPromise := d.breaksTopPromise(j)
	return func(node int32) bool {
		k, isKept := d.kept[node]
		givesWay := j.Tier < k.tier && j.Preemptable
		ends := j.Limit > 0 && j.Limit <= k.until
		pastBound := breaksPromise && k.tier == j.Tier
		return isKept && !givesWay && !ends && !pastBound
	}
}

// breaksTopPromise reports whether a job has waited for longer than the promise of the highest tier
// lets it. That bounds how long room is kept from the tier: no tier above takes these GPUs, so only
// lower tiers would work there until the large job can start, and that can take days. Standard has no
// such bound: premium jobs take these GPUs anyway, and seldom leave standard a whole node.
func (d *decision) breaksTopPromise(j *sdk.Job) bool {
	return j.Tier == sdk.Premium && j.Budget(d.snapshot.Rules) < 0
}
