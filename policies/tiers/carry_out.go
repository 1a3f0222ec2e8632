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

// mayStopFor reports whether a victim may be stopped for a job: the victim is of a lower tier, and has its promise
// even after that, unless the job's own promise is broken.
func (d *decision) mayStopFor(v *victim, j *sdk.Job) bool {
	return !v.gone && v.tier < j.Tier && (v.keepsPromise || j.Budget(d.snapshot.Rules) < 0)
}

// startAfterSacrifices makes intents of the chosen sacrifices. It reports false, and leaves the decision unchanged,
// if the job has no room then.
func (d *decision) startAfterSacrifices(j *sdk.Job, nodes []int32, chosen map[*victim]int) bool {
	shares := d.stopFor(j, nodes, chosen)
	if shares == nil {
		return false
	}
	d.room.Take(shares)
	d.placeJob(j, shares, fmt.Sprintf("%v job %s has waited for %v", j.Tier, j.Label, d.snapshot.Time.Sub(j.Eligible).Round(time.Second)))
	return true
}

// stopFor makes intents of the sacrifices that were chosen to make room for a job, and returns the room, which is not
// taken yet. It returns nil, and leaves the decision unchanged, if the job has no room then.
func (d *decision) stopFor(j *sdk.Job, nodes []int32, chosen map[*victim]int) []sdk.Share {
	order := make([]sacrifice, 0, len(chosen))
	for v, keep := range chosen {
		order = append(order, d.shrinkTo(v, keep))
	}
	slices.SortFunc(order, func(a, b sacrifice) int {
		return cmp.Or(a.totalCost().compareTo(b.totalCost()), cmp.Compare(a.victim.leader, b.victim.leader))
	})
	for _, s := range order {
		d.room.Give(s.freedShares())
	}
	spots := make([]sdk.Spot, len(nodes))
	for i, n := range nodes {
		spots[i] = sdk.Spot{Node: d.snapshot.Nodes[n].Name, Capsules: 1, GPUs: j.GPUs / j.Capsules}
	}
	order = d.dropSuperfluous(j, spots, order)
	shares, err := d.room.Seat(j, spots)
	if err != nil {
		for _, s := range order {
			d.room.Take(s.freedShares())
		}
		return nil
	}
	for _, s := range order {
		d.addIntent(d.intentFor(j, s))
		s.victim.gone = true
	}
	return shares
}

// dropSuperfluous takes back the sacrifices that the job can do without, the dearest first: a victim on two nodes may
// have made another superfluous.
func (d *decision) dropSuperfluous(j *sdk.Job, spots []sdk.Spot, order []sacrifice) []sacrifice {
	for i := len(order) - 1; i >= 0; i-- {
		d.room.Take(order[i].freedShares())
		if _, err := d.room.Seat(j, spots); err == nil {
			order = slices.Delete(order, i, i+1)
			continue
		}
		d.room.Give(order[i].freedShares())
	}
	return order
}

// freedShares are the shares that a sacrifice frees.
func (s sacrifice) freedShares() []sdk.Share {
	var freed []sdk.Share
	for _, m := range s.victim.jobs {
		for _, share := range m.Shares {
			if s.keep > 0 {
				share = sdk.Share{Node: share.Node, GPUs: share.GPUs &^ share.GPUs.First(s.keep)}
			}
			freed = append(freed, share)
		}
	}
	return freed
}

// intentFor returns the intent that carries out a sacrifice.
func (d *decision) intentFor(j *sdk.Job, s sacrifice) sdk.Intent {
	v := s.victim
	if s.keep == 0 {
		return sdk.Intent{Verb: sdk.Preempt, Job: v.leader, For: j.ID, Reason: fmt.Sprintf(
			"%v job %s waits for %s; this %v job is the cheapest to stop: %s",
			j.Tier, j.Label, sdk.CountOf(j.GPUs, "GPU"), v.tier, pauseText(v.pause, v.gpus))}
	}
	job := v.jobs[0]
	where := make([]sdk.Spot, len(job.Shares))
	for i, share := range job.Shares {
		where[i] = sdk.Spot{Node: d.snapshot.Nodes[share.Node].Name, Capsules: int(share.Capsules), GPUs: s.keep}
	}
	return sdk.Intent{Verb: sdk.Resize, Job: v.leader, For: j.ID, GPUs: s.keep * len(job.Shares), Where: where, Reason: fmt.Sprintf(
		"%v job %s waits for %s; this %v job goes on with %d of its %d",
		j.Tier, j.Label, sdk.CountOf(j.GPUs, "GPU"), v.tier, s.keep*len(job.Shares), v.gpus)}
}
