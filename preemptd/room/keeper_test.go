// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package room_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/room"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// site is a cluster on which job 2 waits for n1, and a Keeper.
type site struct {
	*testing.T
	srv    *slurmresttest.Server
	keeper *room.Keeper
	log    bytes.Buffer
	moment room.Moment
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, srv: slurmresttest.Start(t, slurmresttest.Options{})}
	s.srv.AddNode(slurmrest.Node{Name: "n1", GRES: "gpu:4", CPUs: 8, Partitions: []string{"main"}})
	s.srv.AddJob(slurmrest.Job{ID: 2, User: "alice", Partition: "main", Reason: "QOSMaxGRESPerUser"})
	s.moment = room.Moment{Time: time.Now(), Longest: time.Minute, Nodes: []slurmrest.Node{{Name: "n1", State: slurmrest.NodeState{Base: "MIXED"}}}}
	s.restartKeeper(s.srv.Client(t))
	return s
}

// restartKeeper begins anew, as another preemptd does.
func (s *site) restartKeeper(slurm room.Slurm) {
	s.keeper = &room.Keeper{Slurm: slurm, Log: slog.New(slog.NewTextHandler(&s.log, nil))}
}

// checkTick runs a tick after some time, while jobs leave n1 for job 2 or not, and checks the rooms that Slurm shows.
func (s *site) checkTick(later time.Duration, making bool, want string) {
	s.Helper()
	s.moment.Time = s.moment.Time.Add(later)
	s.moment.Making = room.NodesByJob{}
	if making {
		s.moment.Making[2] = []string{"n1"}
	}
	j, _ := s.srv.Job(2)
	s.moment.Jobs = []slurmrest.Job{j}
	s.keeper.Keep(s.Context(), s.moment)
	var got []string
	for _, r := range s.srv.Reservations() {
		got = append(got, r.Name+" "+r.Nodes+" "+r.Users+" "+strings.Join(r.Flags, ","))
	}
	if j, _ := s.srv.Job(2); j.Reservation != "" {
		got = append(got, "job in "+j.Reservation)
	}
	if text := strings.Join(got, "; "); text != want {
		s.Errorf("%q, want %q", text, want)
	}
	kept := s.keeper.Kept()
	if wanted := map[int64][]string{2: {"n1"}}; want != "" && !reflect.DeepEqual(kept, wanted) || want == "" && len(kept) > 0 {
		s.Errorf("kept: %v", kept)
	}
}

const isKept = "preemptd:room:2 n1 alice IGNORE_JOBS,FLEX,NO_HOLD_JOBS_AFTER_END,OVERLAP; job in preemptd:room:2"

// TestStarts: room is kept until the job has started.
func TestStarts(t *testing.T) {
	s := newSite(t)
	s.checkTick(0, false, "")
	s.checkTick(0, true, isKept)
	s.checkTick(time.Hour, true, isKept) // a long checkpoint
	s.checkTick(30*time.Second, false, isKept)
	s.srv.StartJob(2, "n1")
	s.checkTick(time.Second, false, "")
	s.checkTick(time.Second, true, "") // other jobs are leaving still
	if s.log.Len() > 0 {
		t.Errorf("Keep logged %s, want no line", &s.log)
	}
}

// TestGivenUp: a job that does not start does not keep the nodes from other jobs, and the reason is logged.
func TestGivenUp(t *testing.T) {
	s := newSite(t)
	s.checkTick(0, true, isKept)
	s.checkTick(61*time.Second, false, "")
	s.checkTick(time.Second, false, "")
	if said := s.log.String(); strings.Count(said, "room is given up") != 1 || !strings.Contains(said, "it has not started there within 1m0s: QOSMaxGRESPerUser") {
		t.Errorf("Keep logged %s, want one line that room is given up", said)
	}
}

// TestSuccessor: another preemptd keeps a found room for as long as a new room, or ends that room.
func TestSuccessor(t *testing.T) {
	s := newSite(t)
	s.checkTick(0, true, isKept)
	s.restartKeeper(s.srv.Client(t))
	s.checkTick(time.Hour, false, isKept)
	s.checkTick(61*time.Second, false, "")
	s.checkTick(0, true, isKept)
	s.restartKeeper(s.srv.Client(t))
	s.moment.Longest = 0 // room is turned off
	s.checkTick(0, false, "")
	s.checkTick(0, true, "")
}

// TestNodeDown: a node that fails is not kept.
func TestNodeDown(t *testing.T) {
	s := newSite(t)
	s.checkTick(0, true, isKept)
	s.moment.Nodes[0].State.Base = "DOWN"
	s.checkTick(time.Second, true, "")
	s.moment.Nodes[0].State.Base = "IDLE"
	s.checkTick(time.Second, true, isKept)
}

// refusing is Slurm that refuses reservations, as for a preemptd that is no operator.
type refusing struct{ *slurmrest.Client }

var errRefused = errors.New("access denied")

func (refusing) CreateReservation(context.Context, slurmrest.NewReservation) error { return errRefused }

// TestRefused: a reservation that Slurm refuses is logged once, and the job is left alone.
func TestRefused(t *testing.T) {
	s := newSite(t)
	s.restartKeeper(refusing{s.srv.Client(t)})
	s.checkTick(0, true, "")
	s.checkTick(time.Second, true, "")
	if said := s.log.String(); strings.Count(said, "room is not kept") != 1 || !strings.Contains(said, errRefused.Error()) {
		t.Errorf("Keep logged %s, want one line of the refusal", said)
	}
}

// losing is a Slurm that loses its answers to the first requests, after the requests are carried out or before.
type losing struct {
	*slurmrest.Client
	after bool
	lost  *int
}

var errLost = errors.New("lost")

func (l losing) loses(do func() error) error {
	*l.lost--
	if *l.lost == 0 {
		if l.after {
			_ = do()
		}
		return errLost
	}
	return do()
}

func (l losing) CreateReservation(ctx context.Context, r slurmrest.NewReservation) error {
	return l.loses(func() error { return l.Client.CreateReservation(ctx, r) })
}

func (l losing) DeleteReservation(ctx context.Context, name string) error {
	return l.loses(func() error { return l.Client.DeleteReservation(ctx, name) })
}

func (l losing) Update(ctx context.Context, ref slurmrest.Ref, edit slurmrest.JobUpdate) error {
	return l.loses(func() error { return l.Client.Update(ctx, ref, edit) })
}

// TestKilled: preemptd is killed before or after each request: its successor does the rest.
func TestKilled(t *testing.T) {
	for request := 1; request <= 4; request++ { // create, attach; detach, remove
		for _, after := range []bool{false, true} {
			s := newSite(t)
			lost := request
			s.restartKeeper(losing{s.srv.Client(t), after, &lost})
			s.moment.Making = room.NodesByJob{2: {"n1"}}
			j, _ := s.srv.Job(2)
			s.moment.Jobs = []slurmrest.Job{j}
			s.keeper.Keep(t.Context(), s.moment)
			if request <= 2 {
				s.restartKeeper(s.srv.Client(t))
				s.checkTick(0, true, isKept)
			}
			s.srv.StartJob(2, "n1")
			j, _ = s.srv.Job(2)
			s.moment.Jobs = []slurmrest.Job{j}
			s.keeper.Keep(t.Context(), s.moment)
			s.restartKeeper(s.srv.Client(t))
			s.checkTick(0, false, "")
			if lost > 0 {
				t.Errorf("request %d was not made", request)
			}
		}
	}
}
