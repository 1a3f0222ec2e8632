// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/gputime"
)

const (
	maxDays  = 31   // that are remembered
	maxUsers = 1000 // that are counted by name; the rest are counted together
	// otherUsers stands for users beyond maxUsers; Slurm's users have no such name.
	otherUsers = "(other)"
)

// usefulness keeps GPU time by day.
type usefulness struct {
	days  []gputime.Day // oldest first
	users map[string]bool
}

// addTime counts GPU time of a job.
func (u *usefulness) addTime(at time.Time, j *sdk.Job, t gputime.Time) {
	name := at.Local().Format(time.DateOnly)
	if n := len(u.days); n == 0 || u.days[n-1].Date != name {
		u.days = append(u.days, gputime.Day{Date: name, Users: map[string]gputime.Time{}})
		u.days = u.days[max(0, len(u.days)-maxDays):]
	}
	day := &u.days[len(u.days)-1]
	day.Tiers[j.Tier] = day.Tiers[j.Tier].Add(t)
	user := u.userName(j.User)
	day.Users[user] = day.Users[user].Add(t)
}

// userName is the name under which a user is counted.
func (u *usefulness) userName(name string) string {
	if u.users == nil {
		u.users = map[string]bool{}
	}
	if !u.users[name] && len(u.users) >= maxUsers {
		return otherUsers
	}
	u.users[name] = true
	return name
}

// UsefulDays returns the GPU time of the last days on which jobs held GPUs, newest first, as far as this preemptd has
// seen them.
func (m *Metrics) UsefulDays() []gputime.Day {
	m.mu.Lock()
	defer m.mu.Unlock()
	days := slices.Clone(m.useful.days)
	for i := range days {
		days[i].Users = maps.Clone(days[i].Users)
	}
	slices.Reverse(days)
	return days
}

// countTime counts GPU time of a job, held or lost, for Prometheus and for the days. Caller holds m.mu.
func (m *Metrics) countTime(at time.Time, j *sdk.Job, t gputime.Time) {
	m.useful.addTime(at, j, t)
	user := m.useful.userName(j.User)
	m.held.WithLabelValues(j.Tier.String()).Add(t.Held)
	m.userHeld.WithLabelValues(user).Add(t.Held)
	m.userLost.WithLabelValues(user).Add(t.Lost)
}
