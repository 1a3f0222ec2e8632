// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/fraction"
)

// fractionCounts are the GPU fractions, over the time that this loop has seen.
type fractionCounts struct {
	counter *fraction.Counter
	over    time.Duration
	last    map[sdk.JobID]fraction.Event
}

// setWindow begins to count over a window; another window begins with the events counted so far.
func (c *fractionCounts) setWindow(w time.Duration) {
	if c.counter != nil && c.over == w {
		return
	}
	fresh := fraction.New(w)
	if c.counter != nil {
		fresh.Add(c.counter.Events()...)
	}
	c.counter, c.over = fresh, w
}

// countJobs counts the present states of jobs, from when they began.
func (c *fractionCounts) countJobs(s *sdk.Snapshot) {
	now := make(map[sdk.JobID]fraction.Event, len(s.Jobs))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := fraction.Event{Job: j.ID, At: s.Time, Run: j.Restarts, State: fractionState(j), Request: j.Request, Account: j.Account}
		if e.State == fraction.Running || e.State == fraction.Stopped {
			e.GPUs = j.GPUs
		}
		was, met := c.last[j.ID]
		if met && was.State == e.State && was.Run == e.Run && was.GPUs == e.GPUs && was.Request == e.Request && was.Account == e.Account {
			now[j.ID] = was
			continue
		}
		switch began := stateBegan(j); {
		case began.IsZero() || began.After(s.Time):
		case !met || began.After(was.At):
			e.At = began
		}
		c.counter.Add(e)
		now[j.ID] = e
	}
	for id, was := range c.last {
		if _, there := now[id]; !there {
			was.At, was.State, was.GPUs = s.Time, fraction.Ended, 0
			c.counter.Add(was)
		}
	}
	c.last = now
}

func stateBegan(j *sdk.Job) time.Time {
	switch j.State {
	case sdk.Running:
		return j.Started
	case sdk.Waiting:
		return j.Eligible
	}
	return time.Time{}
}

func fractionState(j *sdk.Job) fraction.State {
	switch j.State {
	case sdk.Running:
		return fraction.Running
	case sdk.Suspended, sdk.Leaving:
		return fraction.Stopped
	case sdk.Held:
		if j.HeldBy == sdk.HeldByPreemptd {
			return fraction.Waiting
		}
		return fraction.Excused
	case sdk.Deferred:
		return fraction.Excused
	}
	return fraction.Waiting
}

// makeReaders returns how to ask for the fractions up to a time.
func (c *fractionCounts) makeReaders(now time.Time) (job func(sdk.JobID) (float64, time.Duration), account func(string) float64) {
	accounts := c.counter.Accounts(now)
	job = func(id sdk.JobID) (float64, time.Duration) {
		n := c.counter.Job(id, now)
		return n.Fraction(), n.Counted
	}
	return job, func(name string) float64 { return accounts[name].Fraction() }
}

func (c *fractionCounts) forgetOld(now time.Time) { c.counter.Forget(now) }
