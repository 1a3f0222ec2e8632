// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/room"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// withRooms has the loop keep room for jobs.
func (s *site) withRooms() {
	s.settings.KeepRoom = time.Minute
	s.loop.Rooms = &room.Keeper{Slurm: s.srv.Client(s.T), Log: s.loop.Log}
}

// shownRooms are the rooms that Slurm shows.
func (s *site) shownRooms() string {
	var all []string
	for _, r := range s.srv.Reservations() {
		all = append(all, r.Name+" "+r.Nodes)
	}
	return strings.TrimSpace(strings.Join(all, "; ") + " " + s.readJob(premium).Reservation)
}

// TestKeepRoom: before a job gives way to another, its nodes are kept for the other job until that has
// started.
func TestKeepRoom(t *testing.T) {
	for name, nodes := range map[string][]sdk.Spot{
		"where it is placed":    {{Node: "n1", Capsules: 1, GPUs: 4}, {Node: "n2", Capsules: 1, GPUs: 4}},
		"where the victims are": nil,
	} {
		t.Run(name, func(t *testing.T) {
			began := false
			var seen []sdk.Snapshot
			s := newSite(t, chain.NamedPolicy{Name: "tiers", Policy: says(func(s *sdk.Snapshot) ([]sdk.Intent, error) {
				seen = append(seen, *s)
				if began {
					return nil, nil
				}
				began = true
				all := []sdk.Intent{{Verb: sdk.Preempt, Job: basic, For: premium, Reason: "room for job 2"}}
				if nodes != nil {
					all = append(all, sdk.Intent{Verb: sdk.Place, Job: premium, Reason: "its turn", Where: nodes})
				}
				return all, nil
			})})
			s.withRooms()
			const kept = "preemptd:room:2 n1,n2 preemptd:room:2"
			during := ""
			s.proxyd.hold, s.proxyd.asked = make(chan struct{}), func() {
				during = s.shownRooms()
				close(s.proxyd.hold)
			}
			s.runTick()
			if during != kept || s.shownRooms() != kept {
				t.Errorf("while job 1 leaves: %q; when it has left: %q", during, s.shownRooms())
			}
			s.runTick()
			waits, _ := seen[1].Job(premium)
			if len(seen[1].Reservations) != 1 || len(seen[1].Reservations[0].Nodes) != 2 || waits.Reservation != seen[1].Reservations[0].Name {
				t.Errorf("policies see job 2 in %q, and %+v", waits.Reservation, seen[1].Reservations)
			}
			left, _ := seen[1].Job(basic)
			if r := sdk.NewRoom(&seen[1]); r.Forbids(left, 0) == "" || r.Forbids(waits, 0) != "" {
				t.Error("the room on n1 does not forbid n1 to job 1, or forbids it to job 2")
			}
			s.srv.StartJob(premium, "n1", "n2")
			s.runTick()
			if shown := s.shownRooms(); shown != "" {
				t.Errorf("when job 2 runs: %q", shown)
			}
			s.runTick()
			if len(seen[3].Reservations) != 0 {
				t.Errorf("policies see %+v", seen[3].Reservations)
			}
		})
	}
}

// TestRoomOfCancelled: a job that is cancelled while other jobs leave for its sake keeps no room.
func TestRoomOfCancelled(t *testing.T) {
	s := newSite(t, forPremium)
	s.withRooms()
	s.proxyd.hold, s.proxyd.asked = make(chan struct{}), func() {
		s.srv.EndJob(premium, slurmrest.Cancelled, slurmrest.ExitCode{})
		close(s.proxyd.hold)
	}
	s.runTick()
	if shown := s.shownRooms(); !strings.HasPrefix(shown, "preemptd:room:2 ") {
		t.Errorf("rooms %q, want the room of job 2", shown)
	}
	s.settings.Policies = nil
	s.runTick()
	if shown := s.srv.Reservations(); len(shown) > 0 {
		t.Errorf("rooms after the job was cancelled = %+v, want none", shown)
	}
}

// TestNoRoom: room can be turned off.
func TestNoRoom(t *testing.T) {
	s := newSite(t, forPremium)
	s.withRooms()
	s.settings.KeepRoom = 0
	s.runTick()
	if shown := s.shownRooms(); shown != "" || len(s.ended) != 1 {
		t.Errorf("rooms %q and actions %+v, want no room and one action", shown, s.ended)
	}
}
