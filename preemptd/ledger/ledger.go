// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Ledger holds the events of jobs. A Ledger is not safe for concurrent use.
type Ledger struct {
	window time.Duration
	jobs   map[sdk.JobID][]Event // in order, no two the same
}

// New makes a ledger that counts over a window.
func New(window time.Duration) *Ledger {
	return &Ledger{window: window, jobs: map[sdk.JobID][]Event{}}
}

// Count is the requested and the delivered GPU time, in GPU-milliseconds, and for how long there was a request.
type Count struct {
	Asked, Delivered int64
	Counted          time.Duration
}

// Fraction is the GPU fraction: 1 without requested time.
func (c Count) Fraction() float64 {
	if c.Asked == 0 || c.Delivered >= c.Asked {
		return 1
	}
	return float64(c.Delivered) / float64(c.Asked)
}

// Add puts events into the ledger. An event that is there already has no effect.
func (l *Ledger) Add(events ...Event) {
	for _, e := range events {
		e.At = time.UnixMilli(e.At.UnixMilli()).UTC()
		of := l.jobs[e.Job]
		i, found := slices.BinarySearchFunc(of, e, func(a, b Event) int { return a.isBefore(&b) })
		if !found {
			l.jobs[e.Job] = slices.Insert(of, i, e)
		}
	}
}

// Job counts a job over the window that ends now.
func (l *Ledger) Job(id sdk.JobID, now time.Time) Count {
	var c Count
	l.eachPart(l.jobs[id], now, func(e *Event, ms int64) { c.addEvent(e, ms) })
	return c
}

// Accounts counts all accounts over the window that ends now. Their Counted is the sum over
// their jobs.
func (l *Ledger) Accounts(now time.Time) map[string]Count {
	accounts := map[string]Count{}
	for _, events := range l.jobs {
		l.eachPart(events, now, func(e *Event, ms int64) {
			c := accounts[e.Account]
			c.addEvent(e, ms)
			accounts[e.Account] = c
		})
	}
	return accounts
}

func (c *Count) addEvent(e *Event, ms int64) {
	c.Asked += e.askedPerMilli() * ms
	c.Delivered += e.deliveredPerMilli() * ms
	if e.askedPerMilli() > 0 {
		c.Counted += time.Duration(ms) * time.Millisecond
	}
}

// eachPart calls f for every part of a job's life that lies in the window.
func (l *Ledger) eachPart(events []Event, now time.Time, f func(e *Event, ms int64)) {
	to := now.UnixMilli()
	from := to - l.window.Milliseconds()
	for i := range events {
		start, end := events[i].At.UnixMilli(), to
		if i+1 < len(events) {
			end = min(end, events[i+1].At.UnixMilli())
		}
		if ms := end - max(start, from); ms > 0 {
			f(&events[i], ms)
		}
	}
}

// Forget drops events that no window that ends now or later can see.
func (l *Ledger) Forget(now time.Time) {
	from := now.UnixMilli() - l.window.Milliseconds()
	for id, events := range l.jobs {
		first := 0
		for first+1 < len(events) && events[first+1].At.UnixMilli() <= from {
			first++
		}
		if last := events[len(events)-1]; first == len(events)-1 && last.State == Ended && last.At.UnixMilli() <= from {
			delete(l.jobs, id)
			continue
		}
		l.jobs[id] = slices.Delete(events, 0, first)
	}
}

// Events returns the events of the ledger, by job and in order: added to another ledger, these events make the same
// ledger.
func (l *Ledger) Events() []Event {
	var all []Event
	for _, events := range l.jobs {
		all = append(all, events...)
	}
	slices.SortFunc(all, func(a, b Event) int {
		if a.Job != b.Job {
			return int(a.Job - b.Job)
		}
		return a.isBefore(&b)
	})
	return all
}
