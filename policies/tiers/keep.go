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

// keepRoomFor keeps the nodes where a job could be soonest for that job alone: else small jobs
// behind it would take their room again and again, and a large job would wait for ever. With the
// next snapshot the nodes are chosen anew, and are the same as long as nothing ends unexpectedly.
func (d *decision) keepRoomFor(j *sdk.Job) {
	until := d.busyTimes(j)
	var nodes []int32
	for n := range d.snapshot.Nodes {
		node := int32(n)
		if !d.kept[node] && d.room.Forbids(j, node) == "" && usableGPUs(j, &d.snapshot.Nodes[n], d.snapshot.Nodes[n].All()) >= j.GPUs/j.Capsules {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) < j.Capsules {
		return // not even if nothing else ran
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(until[a], until[b]) })
	for _, n := range nodes[:j.Capsules] {
		d.kept[n] = true
	}
}

// busyTimes is for each node how long jobs run there that the job cannot disturb.
func (d *decision) busyTimes(j *sdk.Job) []time.Duration {
	until := make([]time.Duration, len(d.snapshot.Nodes))
	for i := range d.snapshot.Jobs {
		o := &d.snapshot.Jobs[i]
		if o.Tier < j.Tier && mayStop(o, d.snapshot) {
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

func (d *decision) isKept(node int32) bool { return d.kept[node] }
