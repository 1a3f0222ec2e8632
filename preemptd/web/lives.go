// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// jobHistories are the states of jobs over time, as far as seen since this preemptd began to work.
type jobHistories struct {
	jobs map[sdk.JobID]*jobHistory
}

// jobHistory is the states of a job over time.
type jobHistory struct {
	id                sdk.JobID
	label, name, user string
	tier              sdk.Tier
	spans             []stateSpan
	ended             time.Time // zero: the job is there
	seen              time.Time // last
}

// stateSpan is a time in which a job's state was the same.
type stateSpan struct {
	from, to time.Time // to is zero while the span lasts
	state    sdk.JobState
	gpus     int
}

const (
	// remembered is for how long spans are kept: older spans are dropped.
	remembered = 24 * time.Hour
	// Bounds of the memory.
	maxLives = 100_000
	maxSpans = 500 // of a job
)

// recordStates notes the present states of all jobs.
func (l *jobHistories) recordStates(s *sdk.Snapshot) {
	if l.jobs == nil {
		l.jobs = make(map[sdk.JobID]*jobHistory, len(s.Jobs))
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		one := l.jobs[j.ID]
		if one == nil {
			if len(l.jobs) >= maxLives {
				continue
			}
			one = &jobHistory{id: j.ID}
			l.jobs[j.ID] = one
		}
		one.label, one.name, one.user, one.tier = j.Label, j.Name, j.User, j.Tier
		one.ended, one.seen = time.Time{}, s.Time
		one.recordState(j, s.Time)
	}
	for id, one := range l.jobs {
		if one.ended.IsZero() && !one.seen.Equal(s.Time) {
			one.ended = s.Time
			one.endSpan(s.Time)
		}
		if one.forgetBefore(s.Time.Add(-remembered)) {
			delete(l.jobs, id)
		}
	}
}

// recordState begins a new span if the job's state has changed: at the time that Slurm names, else now.
func (l *jobHistory) recordState(j *sdk.Job, now time.Time) {
	next := stateSpan{from: now, state: j.State}
	if j.Holds() {
		next.gpus = j.GPUs
	}
	began := time.Time{}
	switch j.State {
	case sdk.Running:
		began = j.Started
	case sdk.Waiting:
		began = j.Eligible
	}
	if n := len(l.spans); n > 0 {
		was := l.spans[n-1]
		if was.to.IsZero() && was.state == next.state && was.gpus == next.gpus {
			return
		}
		if began.After(was.from) && began.Before(now) {
			next.from = began
		}
	} else if !began.IsZero() && began.Before(now) {
		next.from = began
	}
	l.endSpan(next.from)
	l.spans = append(l.spans, next)
	if over := len(l.spans) - maxSpans; over > 0 {
		l.spans = slices.Delete(l.spans, 0, over)
	}
}

func (l *jobHistory) endSpan(at time.Time) {
	if n := len(l.spans); n > 0 && l.spans[n-1].to.IsZero() {
		l.spans[n-1].to = at
	}
}

// forgetBefore drops spans that had ended before, and reports whether no span is left.
func (l *jobHistory) forgetBefore(before time.Time) bool {
	l.spans = slices.DeleteFunc(l.spans, func(p stateSpan) bool { return !p.to.IsZero() && p.to.Before(before) })
	return len(l.spans) == 0
}

// livesWithin returns the lives with a span in the time since from: those with GPUs first, then higher tiers, then
// newer jobs. Only lives with text in their label, name or user.
func (l *jobHistories) livesWithin(from time.Time, text string) []*jobHistory {
	var all []*jobHistory
	for _, one := range l.jobs {
		if !one.ended.IsZero() && one.ended.Before(from) || !one.matchesText(text) {
			continue
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *jobHistory) int {
		return cmp.Or(cmp.Compare(a.sortRank(), b.sortRank()), cmp.Compare(b.tier, a.tier), cmp.Compare(b.id, a.id))
	})
	return all
}

func (l *jobHistory) matchesText(text string) bool {
	return text == "" || strings.Contains(l.label, text) || strings.Contains(l.name, text) || strings.Contains(l.user, text)
}

// sortRank is 0 for jobs that hold GPUs, 1 for other jobs that are there, 2 for jobs that have ended.
func (l *jobHistory) sortRank() int {
	switch n := len(l.spans); {
	case !l.ended.IsZero():
		return 2
	case n > 0 && l.spans[n-1].gpus > 0:
		return 0
	}
	return 1
}
