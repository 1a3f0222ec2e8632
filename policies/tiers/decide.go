// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// decision is the state of a decision on a snapshot.
type decision struct {
	snapshot *sdk.Snapshot
	settings Settings
	room     *sdk.Room // after the intents so far
	victims  *victims
	stays    [][]jobOnNode             // of each node; nil: not listed yet
	kept     map[int32]nodeReservation // nodes that are left to jobs which have no room yet
	named    map[sdk.JobID]bool        // by an intent
	intents  []sdk.Intent
}

// decisionSnapshot is a decision's state, to return to.
type decisionSnapshot struct {
	room    *sdk.Room
	kept    map[int32]nodeReservation
	intents int
}

// decideOn is the order of events: jobs that wait and have a promise get their places, highest tier first; then the
// room that is left is given back.
func decideOn(s *sdk.Snapshot, set Settings) []sdk.Intent {
	d := &decision{snapshot: s, settings: set, room: sdk.NewRoom(s), kept: map[int32]nodeReservation{}, named: map[sdk.JobID]bool{}}
	unserved := d.serveDemands(d.servedJobs())
	if !unserved && !s.Placing() {
		d.growShrunkJobs()
	}
	return d.intents
}

// servedJobs are the waiting jobs of tiers that promise something, in the order in which they are
// served: the highest tier first, then the job that can wait for the shortest time.
func (d *decision) servedJobs() []*sdk.Job {
	var demands []*sdk.Job
	for i := range d.snapshot.Jobs {
		j := &d.snapshot.Jobs[i]
		// The components of a gang cannot be placed singly: Slurm does that.
		if j.State == sdk.Waiting && j.Tier > sdk.Basic && j.Action == "" && j.Gang == 0 {
			demands = append(demands, j)
		}
	}
	slices.SortStableFunc(demands, func(a, b *sdk.Job) int {
		return cmp.Or(
			cmp.Compare(b.Tier, a.Tier),
			cmp.Compare(a.Budget(d.snapshot.Rules), b.Budget(d.snapshot.Rules)),
			cmp.Compare(b.Priority, a.Priority),
			a.Eligible.Compare(b.Eligible),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return demands
}

// shape is the part of a job's needs that decides whether there is room.
type shape struct {
	tier                    sdk.Tier
	capsules, gpus, cpus    int
	memory                  int64
	kind, partition, places string
}

func shapeOf(j *sdk.Job) shape {
	return shape{j.Tier, j.Capsules, j.GPUs, j.CPUs, j.Memory, j.Kind, j.Partition, fmt.Sprint(j.Features, j.Required, j.Excluded, j.Reservation, j.Limit)}
}

// serveDemands makes room for the demands, and reports whether an urgent demand got no room.
func (d *decision) serveDemands(demands []*sdk.Job) (unserved bool) {
	full := map[shape]bool{} // there is no room for these, nor will be
	served := 0
	for _, j := range demands {
		if served == d.settings.Most {
			return true
		}
		key := shapeOf(j)
		if full[key] {
			unserved = unserved || d.isUrgent(j)
			continue
		}
		if shares := d.room.Find(j, j.GPUs, d.isKeptFrom(j)); shares != nil {
			d.room.Take(shares)
			if d.couldHaveStarted(j) {
				d.placeJob(j, shares, "there is room, and Slurm has left it waiting")
				served++
			}
			continue
		}
		if !d.isUrgent(j) {
			continue
		}
		if d.victims == nil {
			d.victims = newVictims(d.snapshot, d.room)
		}
		if d.makeRoom(j) || d.moveOthers(j) {
			served++
			continue
		}
		full[key], unserved = true, true
		d.keepRoomFor(j)
	}
	return unserved
}

// isUrgent reports whether other jobs may be disturbed for a job: because it has less than it is
// promised of the time in which it could have run so far, or has waited for long enough.
func (d *decision) isUrgent(j *sdk.Job) bool {
	if j.Fraction < j.Promised {
		return true
	}
	part := d.settings.Hurry.Standard
	if j.Tier == sdk.Premium {
		part = d.settings.Hurry.Premium
	}
	all := (1 - j.Promised) * float64(d.snapshot.Rules.Window)
	return float64(j.Budget(d.snapshot.Rules)) <= part*all
}

// couldHaveStarted reports whether a job waits though Slurm could have started it long ago.
func (d *decision) couldHaveStarted(j *sdk.Job) bool {
	since := j.Eligible
	if j.Acted.After(since) {
		since = j.Acted // the job was running until then
	}
	return d.isUrgent(j) && d.snapshot.Time.Sub(since) > time.Duration(d.settings.Patience)
}

// placeJob puts a job on nodes after their room has been taken for the job.
func (d *decision) placeJob(j *sdk.Job, shares []sdk.Share, reason string) {
	d.addIntent(sdk.Intent{Verb: sdk.Place, Job: j.ID, Where: d.snapshot.Spots(shares), Reason: reason})
}

func (d *decision) addIntent(i sdk.Intent) {
	d.intents = append(d.intents, i)
	d.named[i.Job] = true
}

// saveState returns the state for a later restoreState.
func (d *decision) saveState() decisionSnapshot {
	return decisionSnapshot{room: d.room.Clone(), kept: maps.Clone(d.kept), intents: len(d.intents)}
}

// restoreState forgets the intents since the state was saved, and their effects.
func (d *decision) restoreState(s decisionSnapshot) {
	for _, i := range d.intents[s.intents:] {
		delete(d.named, i.Job)
		if v := d.victims.byLeader[i.Job]; v != nil {
			v.gone = false
		}
	}
	d.room, d.kept, d.intents = s.room, s.kept, d.intents[:s.intents]
}
