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

// nodeClearing is a node that becomes free for a job when some jobs move to other nodes, and jobs of
// lower tiers leave that node.
type nodeClearing struct {
	node  int32
	moved []*sdk.Job
	cost  time.Duration // GPU time that the moves take
}

// moveOthers makes room for a job that needs more of a node than all lower tiers hold there: jobs of its own tier or
// higher go on elsewhere, on room that jobs of lower tiers leave if need be. A move costs a job the time of a dump
// and a restore, and no job is moved that would fall below its promise by that. moveOthers reports whether that was
// possible; if not, the decision is unchanged.
func (d *decision) moveOthers(j *sdk.Job) bool {
	if d.settings.Moves == 0 || j.GPUs%j.Capsules != 0 || len(j.Required) > 0 {
		return false
	}
	clearings := d.clearingsFor(j)
	for first := range clearings {
		if first == starts || first+j.Capsules > len(clearings) {
			return false
		}
		if d.carryOutMoves(j, clearings[first:first+j.Capsules]) {
			return true
		}
	}
	return false
}

// clearingsFor is the nodes that can be cleared for a job, the cheapest first.
func (d *decision) clearingsFor(j *sdk.Job) []nodeClearing {
	movable := make([][]*sdk.Job, len(d.snapshot.Nodes))
	for i := range d.snapshot.Jobs {
		if m := &d.snapshot.Jobs[i]; m.Tier >= j.Tier && d.isMovable(m) {
			movable[m.Shares[0].Node] = append(movable[m.Shares[0].Node], m)
		}
	}
	var all []nodeClearing
	for n := range d.snapshot.Nodes {
		node := int32(n)
		if d.isKeptFrom(j)(node) || d.room.Forbids(j, node) != "" {
			continue
		}
		need := d.computeMissing(j, node)
		for _, v := range d.victims.byNode[node] {
			if d.mayStopFor(v, j) {
				need = need.reducedBy(&d.gainsFrom(v, j, node, 0)[0])
			}
		}
		if moved, ok := d.leastMoved(j, node, need, movable[node]); ok {
			c := nodeClearing{node: node, moved: moved}
			for _, m := range moved {
				c.cost += time.Duration(m.GPUs) * m.Pause()
			}
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b nodeClearing) int { return cmp.Compare(a.cost, b.cost) })
	return all
}

// isMovable reports whether a job may go on at another node: a job of a single capsule that can
// stand still for a move.
func (d *decision) isMovable(m *sdk.Job) bool {
	return len(m.Shares) == 1 && m.Capsules == 1 && m.Gang == 0 && m.Tier > sdk.Basic && !d.named[m.ID] && d.snapshot.MayDisturb(m) && keepsPromise(m, d.snapshot)
}

// leastMoved chooses few jobs that together hold the needed part of a node: again and again the smallest job that is
// enough or, if no job is, the largest.
func (d *decision) leastMoved(j *sdk.Job, node int32, need missingResources, movable []*sdk.Job) ([]*sdk.Job, bool) {
	var moved []*sdk.Job
	rest := slices.Clone(movable)
	slices.SortStableFunc(rest, func(a, b *sdk.Job) int { return cmp.Compare(a.GPUs, b.GPUs) })
	for !need.isMet() {
		if len(rest) == 0 || len(moved) == d.settings.Moves {
			return nil, false
		}
		at := len(rest) - 1
		for i, m := range rest {
			if need.reducedBy(d.gainOf(m, j, node)).isMet() {
				at = i
				break
			}
		}
		moved = append(moved, rest[at])
		need = need.reducedBy(d.gainOf(rest[at], j, node))
		rest = slices.Delete(rest, at, at+1)
	}
	return moved, true
}

// gainOf is the part of its node that a job frees when it moves.
func (d *decision) gainOf(m, j *sdk.Job, node int32) *freedResources {
	share := m.Shares[0]
	return &freedResources{gpus: usableGPUs(j, &d.snapshot.Nodes[node], share.GPUs), cpus: int(share.CPUs), memory: share.Memory}
}

// carryOutMoves moves jobs off some nodes, stops other jobs that are in the way, and places the job there.
func (d *decision) carryOutMoves(j *sdk.Job, clearings []nodeClearing) bool {
	before := d.saveState()
	nodes := make([]int32, 0, len(clearings))
	var moved []*sdk.Job
	for _, c := range clearings {
		nodes = append(nodes, c.node)
		moved = append(moved, c.moved...)
		d.kept[c.node] = nodeReservation{} // no moved job goes to another of these nodes
	}
	slices.SortStableFunc(moved, func(a, b *sdk.Job) int { return cmp.Compare(b.GPUs, a.GPUs) })
	for _, m := range moved {
		if !d.moveJob(m, j) {
			d.restoreState(before)
			return false
		}
	}
	d.kept = before.kept
	chosen := map[*victim]int{}
	for _, n := range nodes {
		o, ok := d.offerOf(j, n, noLimit)
		if !ok {
			d.restoreState(before)
			return false
		}
		addSacrifices(chosen, o)
	}
	if !d.startAfterSacrifices(j, nodes, chosen) {
		d.restoreState(before)
		return false
	}
	return true
}

// moveJob has a job go on at another node for the sake of a job that waits.
func (d *decision) moveJob(m, waiting *sdk.Job) bool {
	shares := d.room.Find(m, m.GPUs, d.isKeptFrom(m))
	if shares == nil {
		like := *m // for the victims: they give way to the waiting job
		like.ID, like.Label, like.Tier, like.Promised = waiting.ID, waiting.Label, waiting.Tier, waiting.Promised
		like.Fraction, like.Counted = waiting.Fraction, waiting.Counted
		offers := d.offersFor(&like)
		if len(offers) == 0 {
			return false
		}
		chosen := map[*victim]int{}
		addSacrifices(chosen, offers[0])
		if shares = d.stopFor(&like, []int32{offers[0].node}, chosen); shares == nil {
			return false
		}
	}
	d.room.Take(shares)
	d.room.Give(m.Shares)
	d.addIntent(sdk.Intent{
		Verb: sdk.Migrate, Job: m.ID, For: waiting.ID, Where: d.snapshot.Spots(shares),
		Reason: fmt.Sprintf("%v job %s waits for %s on a node, and this %v job can go on elsewhere: %s",
			waiting.Tier, waiting.Label, sdk.CountOf(waiting.GPUs/waiting.Capsules, "GPU"), m.Tier, pauseText(m.Pause(), m.GPUs)),
	})
	return true
}
