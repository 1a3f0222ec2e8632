// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/gputime"
)

// TestUsefulList: shares are of the held time, of all tiers and of the users with the most.
func TestUsefulList(t *testing.T) {
	day := gputime.Day{Date: "2026-11-23", Users: map[string]gputime.Time{}}
	day.Tiers[sdk.Premium], day.Tiers[sdk.Basic] = gputime.Time{Held: 3600, Lost: 360}, gputime.Time{Held: 7200, Lost: 9000}
	for i := range 2 * maxUsefulUsers {
		day.Users[fmt.Sprintf("u%02d", i)] = gputime.Time{Held: float64(i)}
	}
	days := make([]gputime.Day, 2*maxUsefulDays)
	days[0] = day
	got := usefulList(func() []gputime.Day { return days })
	if len(got) != maxUsefulDays {
		t.Fatalf("usefulList has %d days, want maxUsefulDays", len(got))
	}
	first := got[0]
	if first.All.Hours != 3 || fmt.Sprintf("%.3f", first.All.Useful) != "0.133" {
		t.Errorf("the day's share = %+v", first.All)
	}
	if fmt.Sprintf("%+v", first.Tiers) != "[{Name:premium Hours:1 Useful:0.9} {Name:standard Hours:0 Useful:1} {Name:basic Hours:2 Useful:0}]" {
		t.Errorf("shares of tiers = %+v", first.Tiers)
	}
	if len(first.Users) != maxUsefulUsers || first.Users[0].Name != "u19" {
		t.Errorf("shares of users = %+v", first.Users)
	}
	if none := usefulList(nil); none == nil || len(none) != 0 {
		t.Errorf("without tiers and users the list is %v, want an empty list", none)
	}
}
