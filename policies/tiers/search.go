// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiers

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// sacrifice is the part that a victim gives for a job: all of its GPUs, or some of each of its nodes.
type sacrifice struct {
	victim *victim
	keep   int           // GPUs on each of its nodes; 0: the victim is preempted
	pause  time.Duration // for which it stands still
	// lost is the work that a shrunk victim loses beyond the GPUs that are given up on a node, because its ranks share the
	// rest and because as many are given up on its other nodes: in microseconds of a GPU, for as long as payback is.
	lost int64
	// unlike is which part of their memory the ranks that will share a GPU do not hold alike, from 0 to 1.
	unlike float64
}

// offer is a node, with the sacrifices that make room there.
type offer struct {
	node       int32
	sacrifices []sacrifice
	cost       cost
}

// cost is the cost of some sacrifices. The fields are compared in this order: any number of shrunk jobs is cheaper than
// a preempted job, any number of basic jobs than a standard job, and any number of jobs that keep their promises than a
// job that does not.
type cost struct {
	brokenPromises int     // victims that do not keep their promises
	standard       int     // victims of the tier standard
	preempted      int     // victims that are not shrunk
	gpuTime        int64   // microseconds of GPUs, of pauses and of sharing
	unlike         float64 // of jobs that lose the same, the job is shrunk of which kernels may run once for several ranks
}

// noLimit is a cost above all costs.
var noLimit = cost{brokenPromises: math.MaxInt}

func (c cost) compareTo(other cost) int {
	return cmp.Or(
		cmp.Compare(c.brokenPromises, other.brokenPromises), cmp.Compare(c.standard, other.standard),
		cmp.Compare(c.preempted, other.preempted), cmp.Compare(c.gpuTime, other.gpuTime), cmp.Compare(c.unlike, other.unlike),
	)
}

func (c cost) isBelow(limit cost) bool { return c.compareTo(limit) < 0 }

func (c cost) addCost(more cost) cost {
	return cost{
		c.brokenPromises + more.brokenPromises, c.standard + more.standard, c.preempted + more.preempted,
		c.gpuTime + more.gpuTime, c.unlike + more.unlike,
	}
}

func (s sacrifice) totalCost() cost {
	c := cost{gpuTime: s.victim.costOfPause(s.pause) + s.lost, unlike: s.unlike}
	if s.keep == 0 {
		c.preempted = 1
	}
	if s.victim.tier > sdk.Basic {
		c.standard = 1
	}
	if !s.victim.keepsPromise {
		c.brokenPromises = 1
	}
	return c
}

// makeRoom disturbs other jobs so that a job has a place, and places the job. It reports whether that was possible;
// if not, the decision is unchanged.
func (d *decision) makeRoom(j *sdk.Job) bool {
	if j.GPUs%max(1, j.Capsules) != 0 || len(j.Required) > j.Capsules {
		return false
	}
	offers := d.offersFor(j)
	if len(offers) < j.Capsules {
		return false
	}
	chosen := map[*victim]int{}
	nodes := make([]int32, 0, j.Capsules)
	for _, o := range chooseOffers(j, offers) {
		nodes = append(nodes, o.node)
		addSacrifices(chosen, o)
	}
	return d.startAfterSacrifices(j, nodes, chosen)
}

// addSacrifices adds the sacrifices of an offer to those chosen. A victim on several nodes makes its largest
// sacrifice.
func addSacrifices(chosen map[*victim]int, o offer) {
	for _, s := range o.sacrifices {
		if keep, ok := chosen[s.victim]; !ok || s.keep < keep {
			chosen[s.victim] = s.keep
		}
	}
}

// offersFor returns the nodes on which the job could be, with the cheapest way to make room on each: the cheapest
// first, and more nodes than the job needs, because victims that are on several nodes are paid for once.
func (d *decision) offersFor(j *sdk.Job) []offer {
	most := 4 * j.Capsules
	if len(j.Required) > 0 {
		most = len(d.snapshot.Nodes)
	} else if j.Capsules == 1 {
		most = 1
	}
	var offers []offer
	limit := noLimit // the cost from which an offer is not wanted
	for n := range d.snapshot.Nodes {
		node := int32(n)
		if d.isKeptFrom(j)(node) || !d.canBeatLimit(j, node, limit) || d.room.Forbids(j, node) != "" {
			continue
		}
		o, ok := d.offerOf(j, node, limit)
		if !ok {
			continue
		}
		at, _ := slices.BinarySearchFunc(offers, o.cost, func(o offer, dearer cost) int {
			if dearer.isBelow(o.cost) {
				return 1
			}
			return -1
		})
		offers = slices.Insert(offers, at, o)
		if len(offers) > most {
			offers = offers[:most]
		}
		if len(offers) == most {
			limit = offers[most-1].cost
		}
	}
	return offers
}

// canBeatLimit reports whether a node can be an offer below the limit, at a glance: most of a
// large cluster cannot.
func (d *decision) canBeatLimit(j *sdk.Job, node int32, limit cost) bool {
	if d.room.Free(node).GPUs.Count() >= j.GPUs/j.Capsules {
		return true
	}
	on := d.victims.byNode[node]
	if len(on) == 0 || on[0].tier >= j.Tier {
		return false
	}
	least := sacrifice{victim: on[0], keep: 1, pause: on[0].least}.totalCost()
	least.brokenPromises = 0 // another victim on the node may keep its promise: the order of byNode does not know promises
	return least.isBelow(limit)
}

// starts is how many offers are tried as the first of a choice for several nodes.
const starts = 8

// chooseOffers takes the cheapest offers that are enough. Victims that are on several nodes are
// paid for once, so the cheapest offer is not always a part of the cheapest choice: further
// offers are tried as the first, too.
func chooseOffers(j *sdk.Job, offers []offer) []offer {
	var best []offer
	least := noLimit
	for first := range offers[:min(len(offers), starts)] {
		if chosen, sum := chooseFrom(j, offers, first); sum.isBelow(least) {
			best, least = chosen, sum
		}
	}
	return best
}

// chooseFrom begins with an offer, and goes on with the offers that add least. Nodes that the job
// must have come first of all.
func chooseFrom(j *sdk.Job, offers []offer, first int) ([]offer, cost) {
	rest := slices.Clone(offers)
	chosen := make([]offer, 0, j.Capsules)
	paid := map[*victim]bool{}
	var sum cost
	next := first
	if len(j.Required) > 0 {
		next = leastAdded(j, rest, paid)
	}
	for {
		sum = sum.addCost(addedCost(rest[next], paid))
		for _, s := range rest[next].sacrifices {
			paid[s.victim] = paid[s.victim] || s.keep == 0
		}
		chosen = append(chosen, rest[next])
		if len(chosen) == j.Capsules {
			return chosen, sum
		}
		rest = slices.Delete(rest, next, next+1)
		next = leastAdded(j, rest, paid)
	}
}

// leastAdded is the offer of a node that the job must have, or else the offer of the least cost, beyond the victims that
// are paid for.
func leastAdded(j *sdk.Job, offers []offer, paid map[*victim]bool) int {
	at, least := 0, noLimit
	for i, o := range offers {
		if slices.Contains(j.Required, o.node) {
			return i
		}
		if added := addedCost(o, paid); added.isBelow(least) {
			at, least = i, added
		}
	}
	return at
}

// addedCost is the cost of an offer without the victims that are paid for.
func addedCost(o offer, paid map[*victim]bool) cost {
	var sum cost
	for _, s := range o.sacrifices {
		if !paid[s.victim] {
			sum = sum.addCost(s.totalCost())
		}
	}
	return sum
}

// offerOf is the cheapest way to have room for a capsule of the job on a node, if there is a way
// below the limit.
func (d *decision) offerOf(j *sdk.Job, node int32, limit cost) (offer, bool) {
	s := search{need: d.computeMissing(j, node), least: limit}
	if s.need.isMet() {
		return offer{node: node}, cost{}.isBelow(limit)
	}
	for _, v := range d.victims.byNode[node] {
		if d.mayStopFor(v, j) && len(s.options) < maxOptions {
			s.options = append(s.options, d.gainsFrom(v, j, node, s.need.gpus)...)
		}
	}
	s.tryFrom(0, s.need, cost{})
	return offer{node, s.best, s.least}, s.best != nil
}

// missingResources is the part that a node lacks for a job.
type missingResources struct {
	gpus, cpus int
	memory     int64
}

func (n missingResources) isMet() bool { return n.gpus <= 0 && n.cpus <= 0 && n.memory <= 0 }

// reducedBy is the need that remains after a gain.
func (n missingResources) reducedBy(g *freedResources) missingResources {
	return missingResources{n.gpus - g.gpus, n.cpus - g.cpus, n.memory - g.memory}
}

// raisedBy is the need while a job holds so much.
func (n missingResources) raisedBy(g *freedResources) missingResources {
	return missingResources{n.gpus + g.gpus, n.cpus + g.cpus, n.memory + g.memory}
}

func (d *decision) computeMissing(j *sdk.Job, node int32) missingResources {
	free := d.room.Free(node)
	return missingResources{
		gpus: j.GPUs/j.Capsules - usableGPUs(j, &d.snapshot.Nodes[node], free.GPUs),
		cpus: j.CPUs - free.CPUs, memory: j.Memory - free.Memory,
	}
}

// usableGPUs is how many of some GPUs of a node a job can use.
func usableGPUs(j *sdk.Job, node *sdk.Node, set sdk.GPUSet) int {
	gpus := node.GPUs
	n := 0
	for rest := uint64(set & node.Usable()); rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros64(rest); j.Kind == "" || gpus[i].Kind == j.Kind {
			n++
		}
	}
	return n
}

// freedResources is the part of a node that a sacrifice frees.
type freedResources struct {
	sacrifice
	gpus, cpus int
	memory     int64
}

// gainsFrom are the gains that a victim can give on a node: some of its GPUs, if it can be shrunk, or all.
func (d *decision) gainsFrom(v *victim, j *sdk.Job, node int32, need int) []freedResources {
	all := freedResources{sacrifice: d.shrinkTo(v, 0)}
	for _, member := range v.jobs {
		for _, s := range member.Shares {
			if s.Node == node {
				all.gpus += usableGPUs(j, &d.snapshot.Nodes[node], s.GPUs)
				all.cpus += int(s.CPUs)
				all.memory += s.Memory
			}
		}
	}
	each, least := v.gpusPerNode(), v.leastGPUs()
	if least >= each || all.gpus < each || need <= 0 {
		return []freedResources{all}
	}
	keep := v.jobs[0].SizeWithoutSwapping(len(v.jobs[0].Shares), max(least, each-need), least, each)
	if keep >= each {
		return []freedResources{all}
	}
	return []freedResources{{sacrifice: d.shrinkTo(v, keep), gpus: each - keep}, all}
}

// shrinkTo is the sacrifice of a victim that keeps so many GPUs on each of its nodes; 0: the victim is preempted.
func (d *decision) shrinkTo(v *victim, keep int) sacrifice {
	if keep == 0 {
		return sacrifice{victim: v, pause: v.pause}
	}
	j, gpus := v.jobs[0], keep*len(v.jobs[0].Shares)
	lost := max(0, j.WorkLost(gpus)-float64(v.gpusPerNode()-keep)) * time.Duration(d.settings.Payback).Seconds()
	return sacrifice{victim: v, keep: keep, pause: j.ResizePause(gpus), lost: int64(lost * 1e6), unlike: 1 - j.Sharing().Alike(gpus)}
}

// maxOptions bounds how many gains are tried on a node: the cheapest.
const maxOptions = 16

// search looks for the cheapest set of gains that is enough: it tries all sets, except sets that
// cannot be cheaper than the best so far.
type search struct {
	need    missingResources
	options []freedResources // gains from the same victim are neighbours
	least   cost
	best    []sacrifice // costs least; nil: no set is cheaper than least

	taken []sacrifice
}

// tryFrom tries the options from a place on, with so much still needed and so much already paid.
func (s *search) tryFrom(option int, need missingResources, paid cost) {
	if !paid.isBelow(s.least) {
		return
	}
	if need.isMet() {
		s.least, s.best = paid, slices.Clone(s.taken)
		return
	}
	if option == len(s.options) || !s.canSuffice(option, need) {
		return
	}
	g := &s.options[option]
	next := option + 1
	for next < len(s.options) && s.options[next].victim == g.victim {
		next++
	}
	for o := option; o < next; o++ {
		s.taken = append(s.taken, s.options[o].sacrifice)
		s.tryFrom(next, need.reducedBy(&s.options[o]), paid.addCost(s.options[o].totalCost()))
		s.taken = s.taken[:len(s.taken)-1]
	}
	s.tryFrom(next, need, paid)
}

// canSuffice reports whether all options that are left would together meet the need.
func (s *search) canSuffice(option int, need missingResources) bool {
	for o := option; o < len(s.options); o++ {
		if s.options[o].keep == 0 {
			need = need.reducedBy(&s.options[o])
		}
	}
	return need.isMet()
}
