// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// WhyInfeasible says why no policy can keep the promise to a job: the usable nodes have no place for the job even if
// all other jobs were stopped, or the jobs of its tier and higher tiers are promised more GPUs than are there. It is
// empty if the promise can be kept, or the job has no promise. As that of Why, the text counts no seconds.
func WhyInfeasible(s *sdk.Snapshot, j *sdk.Job) string {
	if j.Promised <= 0 || j.Request < 1 {
		return ""
	}
	var parts []string
	if j.State == sdk.Waiting || j.State == sdk.Deferred {
		if why := whyNoPlace(s, j); why != "" {
			parts = append(parts, "its promise cannot be kept: "+why)
		}
	}
	if j.State == sdk.Waiting || j.State == sdk.Running {
		if unkept := s.PromisesByTier()[j.Tier].Unkept(); unkept != "" {
			parts = append(parts, "not all promises can be kept: "+unkept)
		}
	}
	return strings.Join(parts, "; ")
}

// whyNoPlace says why a job that waits has no place of the promised size on the usable nodes even if all other jobs
// were stopped; empty: it has a place.
func whyNoPlace(s *sdk.Snapshot, waiting *sdk.Job) string {
	empty, j := *s, *waiting
	empty.Jobs = nil
	isRoom := func(name string) bool { return strings.HasPrefix(name, sdk.RoomPrefix) }
	// Room that is kept for a job ends when that job has started.
	empty.Reservations = slices.DeleteFunc(slices.Clone(s.Reservations), func(r sdk.Reservation) bool { return isRoom(r.Name) })
	if isRoom(j.Reservation) {
		j.Reservation = ""
	}
	room := sdk.NewRoom(&empty)
	fits := func(gpus int) bool { return room.Find(&j, gpus, nil) != nil }
	least := min(j.Request, max(1, j.MinGPUs, int(math.Ceil(j.Promised*float64(j.Request)-1e-6))))
	for gpus := j.Request; gpus >= least; gpus-- {
		if fits(gpus) {
			return ""
		}
	}
	if least == j.Request {
		return whySizeNotThere(&empty, room, &j)
	}
	most := least - 1
	for most > 0 && !fits(most) {
		most--
	}
	return fmt.Sprintf("it needs %d of its %s for the promised %.0f %%, and the nodes that it may use have room for %d of them at most", least,
		gpusOfKind(j.Request, j.Kind), 100*j.Promised, most)
}

// whySizeNotThere says which resources the usable nodes lack for a job that does not fit on them, and cannot be
// shrunk.
func whySizeNotThere(s *sdk.Snapshot, room *sdk.Room, j *sdk.Job) string {
	each := (j.Request + j.Capsules - 1) / max(1, j.Capsules)
	allowed, there, largest, nodes := 0, 0, 0, 0
	for i := range s.Nodes {
		if room.Forbids(j, int32(i)) != "" { //nolint:gosec // a place in memory
			continue
		}
		n := countMatching(&s.Nodes[i], j.Kind)
		allowed++
		there += n
		largest = max(largest, n)
		if n >= each {
			nodes++
		}
	}
	asks := "it asks for " + gpusOfKind(j.Request, j.Kind)
	spread := fmt.Sprintf("it asks for %s on each of %s", gpusOfKind(each, j.Kind), sdk.CountOf(j.Capsules, "node"))
	if j.Capsules == 1 {
		spread = asks + " on one node"
	}
	switch {
	case allowed == 0:
		return asks + ", and it may use none of the nodes that are up"
	case there < j.Request:
		return fmt.Sprintf("%s, and the nodes that it may use have %d", asks, there)
	case largest < each:
		return fmt.Sprintf("%s, and no node that it may use has more than %d", spread, largest)
	case nodes < j.Capsules:
		return fmt.Sprintf("%s, and only %s that it may use can give so many", spread, sdk.CountOf(nodes, "node"))
	}
	return fmt.Sprintf("%s, beside %s and %d MiB of memory, and the nodes that it may use do not have that together", spread,
		sdk.CountOf(j.CPUs, "CPU"), j.Memory)
}

// countMatching counts the GPUs of a node on which a job that asks for a kind could start.
func countMatching(n *sdk.Node, kind string) int {
	count := 0
	for i := range n.GPUs {
		if n.Usable()&(1<<i) != 0 && (kind == "" || n.GPUs[i].Kind == kind) {
			count++
		}
	}
	return count
}

// gpusOfKind names GPUs as a job asks for them: "8 GPUs of kind a100".
func gpusOfKind(gpus int, kind string) string {
	text := sdk.CountOf(gpus, "GPU")
	if kind != "" {
		text += " of kind " + kind
	}
	return text
}
