// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// prefix begins the names of our reservations. The job's number follows.
const prefix = "preemptd:room:"

// NameFor is the name of the reservation that keeps room for a job.
func NameFor(job int64) string { return prefix + strconv.FormatInt(job, 10) }

// JobOf returns the job for which a reservation of that name keeps room; false if the reservation
// is not ours.
func JobOf(reservation string) (int64, bool) {
	number, ours := strings.CutPrefix(reservation, prefix)
	job, err := strconv.ParseInt(number, 10, 64)
	return job, ours && err == nil
}

// NodesByJob has the nodes where room is being made, by the job for which it is made.
type NodesByJob map[int64][]string

// view is the state of rooms, jobs and nodes at a moment.
type view struct {
	wanted NodesByJob
	jobs   []slurmrest.Job
	acting map[int64]bool          // jobs with an action, which may hold them
	up     map[string]bool         // nodes
	rooms  []slurmrest.Reservation // ours
	// overlaps: several rooms may be on a node. If not, a room on a node of another is made when
	// that is gone.
	overlaps bool
}

// change is a request to Slurm.
type change struct {
	verb  verb
	job   int64
	nodes []string // of create
	user  string
}

type verb int

// The order in which changes are made: Slurm does not delete a reservation that has a job.
const (
	detach verb = iota // take the job out of its reservation
	remove             // delete the reservation
	create
	attach // put the job into its reservation
)

// listChanges returns the changes after which each job for which room is wanted has its reservation, and no other job
// has.
func (v *view) listChanges() []change {
	var all []change
	has := map[int64]*slurmrest.Reservation{}
	for i := range v.rooms {
		job, _ := JobOf(v.rooms[i].Name)
		has[job] = &v.rooms[i]
	}
	for i := range v.jobs {
		j := &v.jobs[i]
		in, ours := JobOf(j.Reservation)
		wanted := v.wanted[j.ID]
		shall := len(wanted) > 0 && v.canHave(j, wanted)
		own := has[j.ID]
		switch {
		case shall && own == nil && !v.overlaps && v.isTaken(wanted, all):
			// Slurm would refuse the reservation.
		case shall && own == nil:
			all = append(all, change{verb: create, job: j.ID, nodes: wanted, user: j.User}, change{verb: attach, job: j.ID})
		case shall && holdsAll(own, wanted):
			delete(has, j.ID)
			if in != j.ID {
				all = append(all, change{verb: attach, job: j.ID})
			}
		case ours && !j.State.Finished():
			all = append(all, change{verb: detach, job: j.ID})
		}
	}
	for _, job := range slices.Sorted(maps.Keys(has)) {
		all = append(all, change{verb: remove, job: job})
	}
	slices.SortStableFunc(all, func(a, b change) int { return int(a.verb - b.verb) })
	return all
}

// isTaken reports whether another room has one of these nodes, or shall have it.
func (v *view) isTaken(wanted []string, all []change) bool {
	taken := func(n string) bool { return slices.Contains(wanted, n) }
	return slices.ContainsFunc(v.rooms, func(r slurmrest.Reservation) bool { return slices.ContainsFunc(slurmrest.HostsOrNone(r.Nodes), taken) }) ||
		slices.ContainsFunc(all, func(c change) bool { return c.verb == create && slices.ContainsFunc(c.nodes, taken) })
}

// holdsAll reports whether a reservation has all of these nodes.
func holdsAll(r *slurmrest.Reservation, wanted []string) bool {
	nodes := slurmrest.HostsOrNone(r.Nodes)
	return !slices.ContainsFunc(wanted, func(n string) bool { return !slices.Contains(nodes, n) })
}

// canHave reports whether room can be kept for a job on these nodes: as long as the job waits, and
// the nodes are up. Slurm has a single record for all waiting tasks of a job array, and would put all
// of these tasks into the reservation.
func (v *view) canHave(j *slurmrest.Job, nodes []string) bool {
	_, ours := JobOf(j.Reservation)
	if j.State.Base != slurmrest.Pending || j.Array.Tasks != "" || j.Reservation != "" && !ours {
		return false
	}
	if held := j.Held || j.State.Has(slurmrest.RequeueHold); held && !v.acting[j.ID] {
		return false
	}
	for _, n := range nodes {
		if !v.up[n] {
			return false
		}
	}
	return true
}

func (v verb) String() string { return [...]string{"detach", "remove", "create", "attach"}[v] }

// reservationLife is how long a reservation lasts. If the room is wanted for longer, the reservation
// is made again.
const reservationLife = 15 * time.Minute
