// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// never is when a job without a limit ends: later than any job with a limit.
const never = 1000 * time.Hour

// kept is why a node is kept.
type kept struct {
	tier  sdk.Tier      // of the job that will have the node
	until time.Duration // until then that job cannot start; 0: not known
}

// keepRoomFor keeps the nodes where a job could be soonest from other jobs of its tier: else small
// jobs behind it would take their room again and again, and a large job would wait for ever. Jobs of
// lower tiers may be there until the job can start, since they give way to the job then, and so may
// jobs that end before. Premium jobs are kept out for no longer than their own promise lets them
// wait; room kept for a lower tier is never kept from them, since they are served first. With the next snapshot the nodes are chosen anew, and are the same as long
// as nothing ends unexpectedly.
func (d *decision) keepRoomFor(j *sdk.Job) {
	until := d.busyTimes(j)
	var nodes []int32
	for n := range d.snapshot.Nodes {
		node := int32(n)
		if !d.isKeptFrom(j)(node) && d.room.Forbids(j, node) == "" && usableGPUs(j, &d.snapshot.Nodes[n], d.snapshot.Nodes[n].All()) >= j.GPUs/j.Capsules {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) < j.Capsules {
		return // not even if nothing else ran
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(until[a], until[b]) })
	k := kept{tier: j.Tier}
	if start := until[nodes[j.Capsules-1]]; start < never {
		k.until = start
	}
	for _, n := range nodes[:j.Capsules] {
		d.kept[n] = k
	}
}

// busyTimes is for each node how long jobs run there that the job cannot disturb.
func (d *decision) busyTimes(j *sdk.Job) []time.Duration {
	until := make([]time.Duration, len(d.snapshot.Nodes))
	for i := range d.snapshot.Jobs {
		o := &d.snapshot.Jobs[i]
		if o.Tier < j.Tier && mayStop(o, d.snapshot) && (keepsPromise(o, d.snapshot) || j.Budget(d.snapshot.Rules) < 0) {
			continue
		}
		left := never
		if o.Limit > 0 {
			left = o.Started.Add(o.Limit).Sub(d.snapshot.Time)
		}
		for _, share := range o.Shares {
			until[share.Node] = max(until[share.Node], left)
		}
	}
	return until
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
