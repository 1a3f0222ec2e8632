// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/gputime"
)

// TestUsefulDays: the GPU time that jobs held and lost is counted by day, tier and user, and the same in Prometheus.
func TestUsefulDays(t *testing.T) {
	m := New(Options{})
	of := func(user string, j sdk.Job) sdk.Job { j.User = user; return j }
	look := func(at int, jobs ...sdk.Job) {
		m.Decided(&sdk.Snapshot{Time: timeAt(at), Nodes: make([]sdk.Node, 2), Jobs: jobs}, 0)
	}
	const day = 24 * 60 * 60
	look(0, of("alice", runningJob(sdk.Running, 0, 0)))
	look(100, of("alice", runningJob(sdk.Running, 0, 0)))
	look(110, of("alice", runningJob(sdk.Leaving, 0, 0)))
	look(120, of("alice", runningJob(sdk.Leaving, 0, 0)))
	look(day, of("bob", runningJob(sdk.Running, 0, day))) // after a pause without looks
	look(day+50, of("bob", runningJob(sdk.Running, 0, day)))
	days := m.UsefulDays()
	today := func(at int) string { return timeAt(at).Local().Format(time.DateOnly) }
	if len(days) != 2 || days[0].Date != today(day) || days[1].Date != today(0) {
		t.Fatalf("UsefulDays = %+v, want two days", days)
	}
	if got, want := days[1].Tiers[sdk.Basic], (gputime.Time{Held: 480, Lost: 40}); got != want || days[1].Users["alice"] != want {
		t.Errorf("the first day: %+v, of alice %+v; want %+v", got, days[1].Users["alice"], want)
	}
	if got, want := days[0].Users["bob"], (gputime.Time{Held: 200}); got != want || days[0].Tiers[sdk.Premium] != (gputime.Time{}) {
		t.Errorf("the second day: %+v", days[0])
	}
	for name, got := range map[string]float64{
		"held":       testutil.ToFloat64(m.held.WithLabelValues("basic")) - 680,
		"held alice": testutil.ToFloat64(m.userHeld.WithLabelValues("alice")) - 480,
		"lost alice": testutil.ToFloat64(m.userLost.WithLabelValues("alice")) - 40,
	} {
		if got != 0 {
			t.Errorf("%s differs by %v", name, got)
		}
	}
}

// TestUsefulBounds: neither days nor names of users grow for ever.
func TestUsefulBounds(t *testing.T) {
	var u usefulness
	for i := range maxUsers + 10 {
		u.addTime(noon, &sdk.Job{User: fmt.Sprint(i)}, gputime.Time{Held: 1})
	}
	if day := u.days[0]; len(day.Users) != maxUsers+1 || day.Users[otherUsers].Held != 10 {
		t.Errorf("%d users, %v of others", len(day.Users), day.Users[otherUsers])
	}
	for i := range 2 * maxDays {
		u.addTime(noon.AddDate(0, 0, i), &sdk.Job{User: "1"}, gputime.Time{Held: 1})
	}
	if len(u.days) != maxDays {
		t.Errorf("%d days are kept, want maxDays", len(u.days))
	}
}
