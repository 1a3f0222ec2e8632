// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/room"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// fillShares fills in the job's shares, and reports whether Slurm says which GPUs; if not, guessGPUs must be called
// once all that is certain has been given out.
func (b *builder) fillShares(j *slurmrest.Job, made *sdk.Job) bool {
	names := slurmrest.HostsOrNone(j.Nodes)
	made.Started = j.StartTime
	made.GPUs = 0
	var layout map[string]slurmrest.NodeLayout
	if len(j.Layout) > 0 {
		layout = make(map[string]slurmrest.NodeLayout, len(j.Layout))
	}
	for _, l := range j.Layout {
		layout[l.Node] = l
	}
	exact := true
	for i, name := range names {
		place, ok := b.places[name]
		if !ok {
			continue
		}
		share := sdk.Share{
			Node: place, Capsules: int32(evenShare(made.Capsules, len(names), i)),
			CPUs: int32(layout[name].CPUs), Memory: layout[name].Memory,
		}
		if i < len(j.GRESDetail) {
			set, _, known := gpuIndexes(j.GRESDetail[i])
			if known && set&^b.Nodes[place].All() == 0 && set&b.usedGPUs[place] == 0 {
				share.GPUs = set
				b.usedGPUs[place] |= set
			} else {
				exact = false
			}
		}
		made.Shares = append(made.Shares, share)
		made.GPUs += share.GPUs.Count()
	}
	slices.SortFunc(made.Shares, func(x, y sdk.Share) int { return cmp.Compare(x.Node, y.Node) })
	total := gpuTotal(j.TRESAllocated)
	if made.GPUs != total && total > 0 {
		exact = false
		made.GPUs = total
	}
	return exact
}

// evenShare is how many of n things place i gets when they are spread evenly over the places.
func evenShare(n, places, i int) int {
	each := n / places
	if i < n%places {
		each++
	}
	return max(each, 1)
}

// guessGPUs gives the job's missing GPUs out of the GPUs that no job has, evenly over its nodes.
func (b *builder) guessGPUs(j *sdk.Job) {
	missing := j.GPUs
	for _, s := range j.Shares {
		missing -= s.GPUs.Count()
	}
	for i := range j.Shares {
		if missing <= 0 {
			return
		}
		s := &j.Shares[i]
		free := b.Nodes[s.Node].All() &^ b.usedGPUs[s.Node]
		left := len(j.Shares) - i
		got := free.First((missing + left - 1) / left)
		s.GPUs |= got
		b.usedGPUs[s.Node] |= got
		missing -= bits.OnesCount64(uint64(got))
	}
	j.GPUs -= max(missing, 0) // Slurm says more than there are
}

// addReservations adds all lists that do not depend on jobs and nodes, but for their names.
func (b *builder) addReservations() {
	for _, p := range b.seen.Partitions {
		made := sdk.Partition{Name: p.Name, Up: p.State == "UP", Priority: p.PriorityTier}
		if !p.MaxTime.Infinite {
			made.MaxTime = p.MaxTime.Duration
		}
		b.Partitions = append(b.Partitions, made)
	}
	for _, q := range b.seen.QOS {
		b.QOS = append(b.QOS, sdk.QOS{Name: q.Name, Priority: q.Priority.Or(0), Tier: b.known.Tier(q.Name), MaxGPUs: gpuLimit(q.GroupTRES)})
	}
	accounts := map[string]bool{}
	for i := range b.Jobs {
		accounts[b.Jobs[i].Account] = true
	}
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		b.Accounts = append(b.Accounts, sdk.Account{Name: name, Fraction: b.known.Account(name)})
	}
	for _, r := range b.seen.Reservations {
		if _, ours := room.JobOf(r.Name); ours || r.Start.After(b.Time.Add(far)) {
			continue
		}
		b.Reservations = append(b.Reservations, sdk.Reservation{
			Name: r.Name, Start: r.Start, End: r.End, Nodes: b.nodePlaces(r.Nodes),
			Maintenance: slices.Contains(r.Flags, "MAINT"), Users: slurmrest.HostsOrNone(r.Users), Accounts: slurmrest.HostsOrNone(r.Accounts),
		})
	}
	// Slurm's list is asked for now and then, and these reservations are short.
	for _, job := range slices.Sorted(maps.Keys(b.known.Rooms)) {
		b.Reservations = append(b.Reservations, sdk.Reservation{
			Name: room.NameFor(job), Start: b.Time, Nodes: b.nodePlaces(strings.Join(b.known.Rooms[job], ",")),
		})
	}
}

// far is how long Slurm takes a job without a time limit to last: a reservation that begins later keeps no job off a
// node. The reservation by which preemptd shows that preemptd works begins later.
const far = 365 * 24 * time.Hour

func gpuLimit(all []slurmrest.TRES) int {
	for _, t := range all {
		if t.Type == "gres" && t.Name == "gpu" {
			return int(t.Count)
		}
	}
	return 0
}
