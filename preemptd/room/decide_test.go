// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package room

import (
	"fmt"
	"strings"
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// waitingJob and runningJob return job 7, in a reservation.
func waitingJob(in string) slurmrest.Job {
	return slurmrest.Job{ID: 7, User: "alice", State: slurmrest.State{Base: slurmrest.Pending}, Reservation: in}
}

func runningJob(in string) slurmrest.Job {
	j := waitingJob(in)
	j.State.Base = slurmrest.Running
	return j
}

func TestChanges(t *testing.T) {
	held, array, cancelled := waitingJob(""), waitingJob(""), waitingJob("preemptd:room:7")
	held.Held = true
	array.Array.Tasks = "2-5"
	cancelled.State.Base = slurmrest.Cancelled
	rest := waitingJob("preemptd:room:7") // of an array: a started task has left its number behind
	rest.ID = 8
	for name, c := range map[string]struct {
		wanted string // nodes of job 7
		room   string // of the job
		jobs   []slurmrest.Job
		acting bool
		want   string
	}{
		"nothing":                        {jobs: []slurmrest.Job{waitingJob("")}},
		"a new room":                     {wanted: "n1", jobs: []slurmrest.Job{waitingJob("")}, want: "create n1, attach"},
		"killed before it was put in":    {wanted: "n1", room: "n1", jobs: []slurmrest.Job{waitingJob("")}, want: "attach"},
		"all is done":                    {wanted: "n1", room: "n1", jobs: []slurmrest.Job{waitingJob("preemptd:room:7")}},
		"fewer nodes":                    {wanted: "n1", room: "n[1-2]", jobs: []slurmrest.Job{waitingJob("preemptd:room:7")}},
		"another node":                   {wanted: "n2", room: "n1", jobs: []slurmrest.Job{waitingJob("preemptd:room:7")}, want: "detach, remove"},
		"it has started":                 {wanted: "n1", room: "n1", jobs: []slurmrest.Job{runningJob("preemptd:room:7")}, want: "detach, remove"},
		"it has started elsewhere":       {wanted: "n1", room: "n1", jobs: []slurmrest.Job{runningJob("")}, want: "remove"},
		"it was cancelled":               {wanted: "n1", room: "n1", jobs: []slurmrest.Job{cancelled}, want: "remove"},
		"it is forgotten":                {wanted: "n1", room: "n1", want: "remove"},
		"given up":                       {room: "n1", jobs: []slurmrest.Job{waitingJob("preemptd:room:7")}, want: "detach, remove"},
		"killed before it was deleted":   {room: "n1", jobs: []slurmrest.Job{waitingJob("")}, want: "remove"},
		"Slurm has ended it":             {jobs: []slurmrest.Job{waitingJob("preemptd:room:7")}, want: "detach"},
		"a person holds it":              {wanted: "n1", jobs: []slurmrest.Job{held}},
		"an action holds it":             {wanted: "n1", jobs: []slurmrest.Job{held}, acting: true, want: "create n1, attach"},
		"its user has a reservation":     {wanted: "n1", jobs: []slurmrest.Job{waitingJob("physics")}},
		"a node is down":                 {wanted: "n1,n3", room: "n[1-3]", jobs: []slurmrest.Job{waitingJob("preemptd:room:7")}, want: "detach, remove"},
		"tasks of an array":              {wanted: "n1", jobs: []slurmrest.Job{array}},
		"the rest of an array is inside": {wanted: "n1", room: "n1", jobs: []slurmrest.Job{waitingJob("preemptd:room:7"), rest}, want: "detach job 8"},
	} {
		t.Run(name, func(t *testing.T) {
			v := view{wanted: NodesByJob{}, jobs: c.jobs, acting: map[int64]bool{7: c.acting}, up: map[string]bool{"n1": true, "n2": true}}
			if c.wanted != "" {
				v.wanted[7] = strings.Split(c.wanted, ",")
			}
			if c.room != "" {
				v.rooms = []slurmrest.Reservation{{Name: "preemptd:room:7", Nodes: c.room}}
			}
			var all []string
			for _, made := range v.listChanges() {
				text := strings.TrimSpace(made.verb.String() + " " + strings.Join(made.nodes, ","))
				if made.job != 7 {
					text += fmt.Sprintf(" job %d", made.job)
				}
				all = append(all, text)
			}
			if got := strings.Join(all, ", "); got != c.want {
				t.Errorf("changes = %q, want %q", got, c.want)
			}
		})
	}
}

// TestTwoRooms: two rooms can be on a node only if Slurm keeps the jobs out of other reservations all the same.
func TestTwoRooms(t *testing.T) {
	other := waitingJob("")
	other.ID = 8
	for name, c := range map[string]struct {
		overlaps bool
		rooms    []slurmrest.Reservation
		want     string
	}{
		"one after the other": {false, nil, "create 7, attach 7"},
		"one is there":        {false, []slurmrest.Reservation{{Name: "preemptd:room:7", Nodes: "n1"}}, "attach 7"},
		"side by side":        {true, nil, "create 7, create 8, attach 7, attach 8"},
	} {
		t.Run(name, func(t *testing.T) {
			v := view{
				wanted: NodesByJob{7: {"n1"}, 8: {"n1"}}, jobs: []slurmrest.Job{waitingJob(""), other},
				up: map[string]bool{"n1": true}, rooms: c.rooms, overlaps: c.overlaps,
			}
			var all []string
			for _, made := range v.listChanges() {
				all = append(all, fmt.Sprint(made.verb, " ", made.job))
			}
			if got := strings.Join(all, ", "); got != c.want {
				t.Errorf("changes = %q, want %q", got, c.want)
			}
		})
	}
}

func TestJobOf(t *testing.T) {
	for name, want := range map[string]int64{"preemptd:room:12": 12, "preemptd:works:ctl:00000000": 0, "preemptd:room:": 0, "preemptd:room:x": 0, "": 0} {
		if job, ours := JobOf(name); job != want || ours != (want != 0) {
			t.Errorf("JobOf(%q) = %d, %v", name, job, ours)
		}
	}
}
