// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package fraction

import (
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Counter holds the events of jobs. A Counter is not safe for concurrent use.
type Counter struct {
	window time.Duration
	jobs   map[sdk.JobID][]Event // in order, no two the same
}

// New makes a Counter that counts over a window.
func New(window time.Duration) *Counter {
	return &Counter{window: window, jobs: map[sdk.JobID][]Event{}}
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

// Add adds events. An event that is there already has no effect.
func (c *Counter) Add(events ...Event) {
	for _, e := range events {
		e.At = time.UnixMilli(e.At.UnixMilli()).UTC()
		of := c.jobs[e.Job]
		i, found := slices.BinarySearchFunc(of, e, func(a, b Event) int { return a.isBefore(&b) })
		if !found {
			c.jobs[e.Job] = slices.Insert(of, i, e)
		}
	}
}

// Job counts a job over the window that ends now.
func (c *Counter) Job(id sdk.JobID, now time.Time) Count {
	var n Count
	c.eachPart(c.jobs[id], now, func(e *Event, ms int64) { n.addEvent(e, ms) })
	return n
}

// Accounts counts all accounts over the window that ends now. Their Counted is the sum over
// their jobs.
func (c *Counter) Accounts(now time.Time) map[string]Count {
	accounts := map[string]Count{}
	for _, events := range c.jobs {
		c.eachPart(events, now, func(e *Event, ms int64) {
			n := accounts[e.Account]
			n.addEvent(e, ms)
			accounts[e.Account] = n
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
func (c *Counter) eachPart(events []Event, now time.Time, f func(e *Event, ms int64)) {
	to := now.UnixMilli()
	from := to - c.window.Milliseconds()
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
func (c *Counter) Forget(now time.Time) {
	from := now.UnixMilli() - c.window.Milliseconds()
	for id, events := range c.jobs {
		first := 0
		for first+1 < len(events) && events[first+1].At.UnixMilli() <= from {
			first++
		}
		if last := events[len(events)-1]; first == len(events)-1 && last.State == Ended && last.At.UnixMilli() <= from {
			delete(c.jobs, id)
			continue
		}
		c.jobs[id] = slices.Delete(events, 0, first)
	}
}

// Events returns the events of the Counter, by job and in order: added to another Counter, these events make the same
// counts.
func (c *Counter) Events() []Event {
	var all []Event
	for _, events := range c.jobs {
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
