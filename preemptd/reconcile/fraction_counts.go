// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/ledger"
)

// fractionCounts are the GPU fractions, over the time that this loop has seen.
type fractionCounts struct {
	ledger *ledger.Ledger
	over   time.Duration
	last   map[sdk.JobID]ledger.Event
}

// setWindow begins to count over a window; another window begins with the events counted so far.
func (c *fractionCounts) setWindow(w time.Duration) {
	if c.ledger != nil && c.over == w {
		return
	}
	fresh := ledger.New(w)
	if c.ledger != nil {
		fresh.Add(c.ledger.Events()...)
	}
	c.ledger, c.over = fresh, w
}

// countJobs counts the present states of jobs, from when they began.
func (c *fractionCounts) countJobs(s *sdk.Snapshot) {
	now := make(map[sdk.JobID]ledger.Event, len(s.Jobs))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := ledger.Event{Job: j.ID, At: s.Time, Run: j.Restarts, State: ledgerState(j), Request: j.Request, Account: j.Account}
		if e.State == ledger.Running || e.State == ledger.Stopped {
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
		c.ledger.Add(e)
		now[j.ID] = e
	}
	for id, was := range c.last {
		if _, there := now[id]; !there {
			was.At, was.State, was.GPUs = s.Time, ledger.Ended, 0
			c.ledger.Add(was)
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

func ledgerState(j *sdk.Job) ledger.State {
	switch j.State {
	case sdk.Running:
		return ledger.Running
	case sdk.Suspended, sdk.Leaving:
		return ledger.Stopped
	case sdk.Held:
		if j.HeldBy == sdk.HeldByPreemptd {
			return ledger.Waiting
		}
		return ledger.Excused
	case sdk.Deferred:
		return ledger.Excused
	}
	return ledger.Waiting
}

// makeReaders returns how to ask for the fractions up to a time.
func (c *fractionCounts) makeReaders(now time.Time) (job func(sdk.JobID) (float64, time.Duration), account func(string) float64) {
	accounts := c.ledger.Accounts(now)
	job = func(id sdk.JobID) (float64, time.Duration) {
		n := c.ledger.Job(id, now)
		return n.Fraction(), n.Counted
	}
	return job, func(name string) float64 { return accounts[name].Fraction() }
}

func (c *fractionCounts) forgetOld(now time.Time) { c.ledger.Forget(now) }
