// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

func runningJob(restarts int64, since time.Time) slurmrest.Job {
	return slurmrest.Job{Restarts: restarts, FailedNode: "n2", State: slurmrest.State{Base: slurmrest.Running}, Nodes: "n[3-4]", StartTime: since}
}

// TestNotice: events of a job by other people are recorded once, and by their kind; preemptd's own are not.
func TestNotice(t *testing.T) {
	s := newSite(t)
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	acting := cluster.BuildParameters{Action: map[int64]string{1: "preempt"}}
	acted := cluster.BuildParameters{Acted: map[int64]time.Time{1: at(60)}}
	for i, step := range []struct {
		job   slurmrest.Job
		known cluster.BuildParameters
	}{
		{slurmrest.Job{Restarts: 1}, cluster.BuildParameters{}}, // met for the first time
		{slurmrest.Job{Restarts: 1}, cluster.BuildParameters{}},
		{slurmrest.Job{Restarts: 2, PreemptTime: at(15)}, cluster.BuildParameters{}},
		{slurmrest.Job{Restarts: 2, PreemptTime: at(15)}, cluster.BuildParameters{}},
		{slurmrest.Job{Restarts: 3, PreemptTime: at(15)}, cluster.BuildParameters{}},
		{slurmrest.Job{Restarts: 3, PreemptTime: at(15)}, acting},
		{slurmrest.Job{Restarts: 4, PreemptTime: at(15)}, acted}, // the action has just ended
		{slurmrest.Job{Restarts: 5, FailedNode: "n2"}, cluster.BuildParameters{}},
		{slurmrest.Job{Restarts: 6, FailedNode: "n2"}, cluster.BuildParameters{}},
		{runningJob(6, at(85)), cluster.BuildParameters{}},
		{slurmrest.Job{Restarts: 7, FailedNode: "n2"}, cluster.BuildParameters{}}, // n3 was started at 95
		{runningJob(7, at(105)), cluster.BuildParameters{}},                       // n3 was started before that
		{slurmrest.Job{Restarts: 8, FailedNode: "n2"}, cluster.BuildParameters{}},
		{runningJob(8, at(90)), cluster.BuildParameters{}}, // a person has slurmd restarted, and requeues the job later
		{slurmrest.Job{Restarts: 9, FailedNode: "n2"}, cluster.BuildParameters{}},
		{runningJob(9, at(145)), cluster.BuildParameters{}},
		{slurmrest.Job{Restarts: 10, FailedNode: "n2"}, cluster.BuildParameters{}}, // n4 is down
	} {
		step.job.ID, step.job.User = 1, "alice"
		seen := cluster.Observation{Time: at(10 * i), Jobs: []slurmrest.Job{step.job}, Nodes: []slurmrest.Node{{Name: "n1"}, {Name: "n3", SlurmdStartTime: at(95)}}}
		if step.job.Restarts == 9 {
			seen.Checkpoints = map[string][]*rpc.Checkpoint{"1": {{Created: timestamppb.New(at(130))}}}
		}
		if step.job.Restarts == 10 {
			seen.Nodes = append(seen.Nodes, slurmrest.Node{Name: "n2", State: slurmrest.NodeState{Base: "DOWN"}}, slurmrest.Node{Name: "n4", State: slurmrest.NodeState{Base: "DOWN"}})
		}
		if err := s.loop.recordForeign(t.Context(), Settings{Interval: time.Second}, seen, step.known); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.journal.Events(t.Context(), 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(all) {
		if e.User != "alice" {
			t.Errorf("the owner of the job is %q in the event %+v, want alice", e.User, e)
		}
		got = append(got, fmt.Sprintf("%d %s %s at %.0f", e.Restarts, e.What, e.Text, e.At.Sub(began).Seconds()))
	}
	want := []string{"2 preempted by Slurm at 15", "3 requeued by Slurm, a person or itself at 40", "5 node failed n2 at 70", "6 requeued by Slurm, a person or itself at 80",
		"7 node failed n3, which was back at once at 100", "8 requeued by Slurm, a person or itself at 120", "9 requeued by Slurm, a person or itself at 140",
		"10 node failed n4 at 160"}
	if !slices.Equal(got, want) {
		t.Errorf("events %q", got)
	}
}

// TestLostWorkRecorded: work that a job has lost with its node is in its history once, with or without an action of
// preemptd's, when the next run has said so. A comment that is there when preemptd starts, or that stays from the run
// before, says no more, and neither does a comment that the user has written in the same run.
func TestLostWorkRecorded(t *testing.T) {
	s := newSite(t)
	const restored = "mine; singularity: restored from checkpoint 3 on n1; at most 10m0s of work are lost"
	const anew = "singularity: begins anew, for there is no checkpoint; 59s of work are lost; checkpoint 1 (interval): why"
	acting := cluster.BuildParameters{Action: map[int64]string{1: "migrate"}}
	began := time.Now()
	for i, step := range []struct {
		restarts int64
		comment  string
		known    cluster.BuildParameters
	}{
		{0, "singularity: restored from checkpoint 1 on n1; 5s of work are lost", cluster.BuildParameters{}}, // met for the first time
		{1, "singularity: restored from checkpoint 1 on n1; 5s of work are lost", acting},
		{2, "singularity: node n1 failed; its next run goes on from checkpoint 3", acting},
		{2, restored, acting},
		{2, restored, acting},
		{3, restored, acting},
		{3, "singularity: checkpoint 4 at 10:00:00 (interval)", acting},
		{4, anew, acting},
		{4, "singularity: any text of the user's; 7s of work are lost", acting},
		{4, "singularity: another one; 8s of work are lost", acting},
		{5, "of work are lost; 5s of work are lost", acting},
	} {
		seen := cluster.Observation{
			Time: began.Add(time.Duration(i) * time.Second),
			Jobs: []slurmrest.Job{{ID: 1, User: "alice", Restarts: step.restarts, Comment: step.comment, State: slurmrest.State{Base: slurmrest.Running}}},
		}
		if err := s.loop.recordForeign(t.Context(), Settings{Interval: time.Second}, seen, step.known); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.journal.Events(t.Context(), 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(all) {
		if e.User != "alice" {
			t.Errorf("the owner of the job is %q in the event %+v, want alice", e.User, e)
		}
		got = append(got, fmt.Sprintf("%d %s %s at %.0f", e.Restarts, e.What, e.Text, e.At.Sub(began).Seconds()))
	}
	want := []string{
		"2 work lost at most 10m0s of work are lost: restored from checkpoint 3 on n1 at 3",
		"4 work lost 59s of work are lost: begins anew, for there is no checkpoint at 7",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
