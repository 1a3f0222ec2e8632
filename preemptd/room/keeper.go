// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Slurm is the part of a client of Slurm that a Keeper uses, as an operator. *slurmrest.Client is a Slurm.
type Slurm interface {
	Reservations(ctx context.Context) ([]slurmrest.Reservation, error)
	KeepsReservationsApart(ctx context.Context) (bool, error)
	CreateReservation(ctx context.Context, r slurmrest.NewReservation) error
	DeleteReservation(ctx context.Context, name string) error
	Update(ctx context.Context, job slurmrest.Ref, edit slurmrest.JobUpdate) error
}

// Keeper makes and deletes the reservations. A Keeper is used by a single goroutine.
type Keeper struct {
	Slurm Slurm
	Log   *slog.Logger

	looked bool // at the rooms of another preemptd
	rooms  map[int64]*keptRoom
	failed map[int64]string // why a room could not be kept, as it was logged
}

// keptRoom is the room of a job.
type keptRoom struct {
	nodes  []string
	needed time.Time // when jobs were leaving the nodes last
	there  bool      // Slurm has the reservation
}

// Moment is the input of a Keeper at each tick.
type Moment struct {
	Time time.Time
	// Making is for which jobs other jobs are leaving nodes, and the nodes.
	Making NodesByJob
	// Acting are the jobs that have an action of their own, which may hold them.
	Acting map[int64]bool
	Jobs   []slurmrest.Job
	Nodes  []slurmrest.Node
	// Longest is how long a room is kept after the last job has left; 0: no room is kept.
	Longest time.Duration
}

// Kept returns the nodes that are kept, by job.
func (k *Keeper) Kept() map[int64][]string {
	all := make(map[int64][]string, len(k.rooms))
	for job, r := range k.rooms {
		if r.there {
			all[job] = r.nodes
		}
	}
	return all
}

// Keep makes Slurm's reservations as they are to be. A change that fails is logged, and tried again at the next call:
// room that is not kept goes to any job to which Slurm gives it.
func (k *Keeper) Keep(ctx context.Context, m Moment) {
	if k.looked && len(k.rooms) == 0 && len(m.Making) == 0 && !anyJobInRoom(m.Jobs) {
		clear(k.failed)
		return
	}
	all, err := k.Slurm.Reservations(ctx)
	overlaps := false
	if err == nil {
		overlaps, err = k.Slurm.KeepsReservationsApart(ctx)
	}
	if err != nil {
		k.Log.Warn("room is not kept", "error", err)
		return
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r slurmrest.Reservation) bool { _, ours := JobOf(r.Name); return !ours })
	v := &view{wanted: k.wantedRooms(m, all), jobs: m.Jobs, acting: m.Acting, up: nodesUp(m.Nodes), rooms: all, overlaps: overlaps}
	for job, r := range k.rooms {
		r.there = slices.ContainsFunc(all, func(r slurmrest.Reservation) bool { return r.Name == NameFor(job) })
	}
	refused := map[int64]bool{}
	for _, c := range v.listChanges() {
		if c.verb == attach && refused[c.job] {
			continue
		}
		if err := k.applyChange(ctx, m.Time, c, overlaps); err != nil {
			refused[c.job] = true
			k.logFailure(ctx, c.job, err)
			continue
		}
		if r := k.rooms[c.job]; r != nil && (c.verb == create || c.verb == remove) {
			r.there = c.verb == create
		}
	}
}

func anyJobInRoom(jobs []slurmrest.Job) bool {
	return slices.ContainsFunc(jobs, func(j slurmrest.Job) bool { _, ours := JobOf(j.Reservation); return ours && !j.State.Finished() })
}

// nodesUp are the nodes on which jobs can start.
func nodesUp(nodes []slurmrest.Node) map[string]bool {
	up := make(map[string]bool, len(nodes))
	for i := range nodes {
		s := nodes[i].State
		up[nodes[i].Name] = s.Base != "DOWN" && s.Base != "ERROR" && !s.Draining() && !slices.Contains(s.Flags, "NOT_RESPONDING")
	}
	return up
}

// wantedRooms are the rooms that are being made, and the rooms in which a job has had no time to start. Rooms of
// another preemptd count as needed until now.
func (k *Keeper) wantedRooms(m Moment, all []slurmrest.Reservation) NodesByJob {
	if k.rooms == nil {
		k.rooms, k.failed = map[int64]*keptRoom{}, map[int64]string{}
	}
	for i := range all {
		job, _ := JobOf(all[i].Name)
		if !k.looked {
			k.rooms[job] = &keptRoom{nodes: slurmrest.HostsOrNone(all[i].Nodes), needed: m.Time}
		}
	}
	k.looked = true
	for job, nodes := range m.Making {
		k.rooms[job] = &keptRoom{nodes: nodes, needed: m.Time}
	}
	wanted := NodesByJob{}
	for job, r := range k.rooms {
		at := slices.IndexFunc(m.Jobs, func(j slurmrest.Job) bool { return j.ID == job })
		waits := at >= 0 && m.Jobs[at].State.Base == slurmrest.Pending
		if waits && m.Time.Sub(r.needed) < m.Longest {
			wanted[job] = r.nodes
			continue
		}
		if waits && r.there && m.Longest > 0 {
			k.Log.Warn("room is given up", "job", job, "nodes", r.nodes, "reason", fmt.Sprintf("it has not started there within %v: %s", m.Longest, m.Jobs[at].Reason))
		}
		delete(k.rooms, job)
	}
	maps.DeleteFunc(k.failed, func(job int64, _ string) bool { return k.rooms[job] == nil })
	return wanted
}

// applyChange has Slurm make a change.
func (k *Keeper) applyChange(ctx context.Context, now time.Time, c change, overlaps bool) error {
	var err error
	name := NameFor(c.job)
	switch c.verb {
	case detach:
		name = ""
		fallthrough
	case attach:
		err = k.Slurm.Update(ctx, slurmrest.JobID(c.job), slurmrest.JobUpdate{Reservation: &name})
	case remove:
		err = k.Slurm.DeleteReservation(ctx, name)
		if errors.Is(err, slurmrest.ErrNoReservation) {
			err = nil
		}
	case create:
		flags := []string{"IGNORE_JOBS", "FLEX", "NO_HOLD_JOBS_AFTER_END"}
		if overlaps {
			flags = append(flags, "OVERLAP")
		}
		err = k.Slurm.CreateReservation(ctx, slurmrest.NewReservation{
			Name: name, Start: now, Duration: reservationLife, Nodes: c.nodes, Users: []string{c.user}, Flags: flags,
			Comment: fmt.Sprintf("preemptd makes room for job %d. It ends when the job starts.", c.job),
		})
	}
	if err == nil {
		k.Log.Debug("room", "job", c.job, "change", c.verb.String(), "nodes", c.nodes)
	}
	return err
}

// logFailure logs a failure once.
func (k *Keeper) logFailure(ctx context.Context, job int64, err error) {
	if text := err.Error(); k.failed[job] != text && ctx.Err() == nil {
		k.failed[job] = text
		k.Log.Warn("room is not kept", "job", job, "error", err)
	}
}
