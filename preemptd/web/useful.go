// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/gputime"
)

// usefulJSON is the share of a day's GPU time that was useful work.
type usefulJSON struct {
	Day   string           `json:"day"`
	All   usefulPartJSON   `json:"all"`
	Tiers []usefulPartJSON `json:"tiers"` // highest first
	Users []usefulPartJSON `json:"users"` // those with the most GPU time first
}

type usefulPartJSON struct {
	Name   string  `json:"name"`
	Hours  float64 `json:"hours"`  // GPU hours that were held
	Useful float64 `json:"useful"` // of these; 1 of no hours
}

const (
	maxUsefulDays  = 7
	maxUsefulUsers = 10 // of a day
)

func shareOf(name string, t gputime.Time) usefulPartJSON {
	s := usefulPartJSON{Name: name, Hours: t.Held / 3600, Useful: 1}
	if t.Held > 0 {
		s.Useful = max(0, 1-t.Lost/t.Held) // work of the day before can be lost today
	}
	return s
}

// usefulList are the days that the page shows, newest first.
func usefulList(days func() []gputime.Day) []usefulJSON {
	all := []usefulJSON{}
	if days == nil {
		return all
	}
	for _, d := range days() {
		if len(all) == maxUsefulDays {
			break
		}
		var sum gputime.Time
		u := usefulJSON{Day: d.Date, Users: []usefulPartJSON{}}
		for i, t := range slices.Backward(d.Tiers[:]) {
			sum = sum.Add(t)
			u.Tiers = append(u.Tiers, shareOf(sdk.Tier(i).String(), t)) //nolint:gosec // there are three
		}
		u.All = shareOf("all", sum)
		for name, t := range d.Users {
			u.Users = append(u.Users, shareOf(name, t))
		}
		slices.SortFunc(u.Users, func(a, b usefulPartJSON) int {
			return cmp.Or(cmp.Compare(b.Hours, a.Hours), cmp.Compare(a.Name, b.Name))
		})
		u.Users = u.Users[:min(len(u.Users), maxUsefulUsers)]
		all = append(all, u)
	}
	return all
}
