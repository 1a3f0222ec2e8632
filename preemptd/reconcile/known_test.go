// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestNotice: what others do to a job is recorded once, and for what it is; what preemptd
// does is not.
func TestNotice(t *testing.T) {
	s := newSite(t)
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	acting := cluster.Known{Action: map[int64]string{1: "preempt"}}
	acted := cluster.Known{Acted: map[int64]time.Time{1: at(60)}}
	for i, step := range []struct {
		job   slurmrest.Job
		known cluster.Known
	}{
		{slurmrest.Job{Restarts: 1}, cluster.Known{}}, // met for the first time
		{slurmrest.Job{Restarts: 1}, cluster.Known{}},
		{slurmrest.Job{Restarts: 2, PreemptTime: at(15)}, cluster.Known{}},
		{slurmrest.Job{Restarts: 2, PreemptTime: at(15)}, cluster.Known{}},
		{slurmrest.Job{Restarts: 3, PreemptTime: at(15)}, cluster.Known{}},
		{slurmrest.Job{Restarts: 3, PreemptTime: at(15)}, acting},
		{slurmrest.Job{Restarts: 4, PreemptTime: at(15)}, acted}, // the action has just ended
		{slurmrest.Job{Restarts: 5, FailedNode: "n2"}, cluster.Known{}},
		{slurmrest.Job{Restarts: 6, FailedNode: "n2"}, cluster.Known{}},
	} {
		step.job.ID = 1
		if err := s.loop.recordForeign(t.Context(), Settings{Interval: time.Second}, cluster.Seen{Time: at(10 * i), Jobs: []slurmrest.Job{step.job}}, step.known); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.journal.Events(t.Context(), 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(all) {
		got = append(got, fmt.Sprintf("%d %s %s at %.0f", e.Restarts, e.What, e.Text, e.At.Sub(began).Seconds()))
	}
	want := []string{"2 preempted by Slurm at 15", "3 requeued not by preemptd at 40", "5 node failed n2 at 70", "6 requeued not by preemptd at 80"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
