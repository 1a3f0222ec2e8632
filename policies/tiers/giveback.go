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

// queue is how many waiting jobs are left their room before a job grows into it.
const queue = 200

// growShrunkJobs lets jobs that were shrunk grow to their requested size, on their nodes, into room that no job waits
// for.
func (d *decision) growShrunkJobs() {
	shrunk := d.shrunkJobs()
	if len(shrunk) == 0 {
		return
	}
	d.reserveQueueHead()
	for _, j := range shrunk {
		d.growJob(j)
	}
}

// shrunkJobs is the running jobs that have less than they asked for, the highest tier first.
func (d *decision) shrunkJobs() []*sdk.Job {
	var shrunk []*sdk.Job
	for i := range d.snapshot.Jobs {
		j := &d.snapshot.Jobs[i]
		if j.GPUs < min(j.Request, j.MaxGPUs) && j.Gang == 0 && !d.named[j.ID] && d.snapshot.MayDisturb(j) {
			shrunk = append(shrunk, j)
		}
	}
	slices.SortStableFunc(shrunk, func(a, b *sdk.Job) int {
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), cmp.Compare(a.Budget(d.snapshot.Rules), b.Budget(d.snapshot.Rules)), cmp.Compare(a.ID, b.ID))
	})
	return shrunk
}

// reserveQueueHead takes the room that Slurm will give to the first of its queue.
func (d *decision) reserveQueueHead() {
	var waiting []*sdk.Job
	for i := range d.snapshot.Jobs {
		if j := &d.snapshot.Jobs[i]; j.State == sdk.Waiting && j.Tier == sdk.Basic && j.Action == "" {
			waiting = append(waiting, j)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *sdk.Job) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	for _, j := range waiting[:min(len(waiting), queue)] {
		d.room.Take(d.room.Find(j, j.GPUs, nil))
	}
}

// growJob gives a job as many of its GPUs back as its nodes have, if the job wins by that.
func (d *decision) growJob(j *sdk.Job) {
	goal, nodes := min(j.Request, j.MaxGPUs), len(j.Shares)
	for each := goal / max(nodes, 1); each*nodes > j.GPUs; each-- {
		gpus := each * nodes
		if j.ResizePause(gpus).Seconds()*float64(j.GPUs) > time.Duration(d.settings.Payback).Seconds()*float64(gpus-j.GPUs) {
			return // fewer GPUs would take even longer to pay
		}
		where := make([]sdk.Spot, nodes)
		for i, share := range j.Shares {
			where[i] = sdk.Spot{Node: d.snapshot.Nodes[share.Node].Name, Capsules: int(share.Capsules), GPUs: each}
		}
		d.room.Give(j.Shares)
		shares, err := d.room.Seat(j, where)
		if err != nil {
			d.room.Take(j.Shares)
			continue
		}
		d.room.Take(shares)
		d.addIntent(sdk.Intent{
			Verb: sdk.Resize, Job: j.ID, GPUs: gpus, Where: where,
			Reason: fmt.Sprintf("its nodes have room again: from %d to %d of the %s that it asked for", j.GPUs, gpus, sdk.CountOf(j.Request, "GPU")),
		})
		return
	}
}
