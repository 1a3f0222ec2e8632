// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// ListInfo is information about a list as a whole.
type ListInfo struct {
	// Changed is false when no job changed since the time asked about; then the list has no
	// records. Otherwise it has all jobs: Slurm sends no deltas.
	Changed bool
	// Next is the time to ask about in the next call. No change after this list is missed; some may
	// be reported once more.
	Next time.Time
	// Count is the number of records.
	Count int
}

// EachJob lists all jobs, and hands each to yield as soon as the job is read; the list as a whole
// is never in memory. yield may keep the Job. An error from yield ends the list and is returned
// unchanged.
//
// since is ListInfo.Next of an earlier list, or zero for all. A list without changes is not an
// error: see ListInfo.
//
// When an error is returned after some jobs were handed on, the list is not whole.
func (c *Client) EachJob(ctx context.Context, since time.Time, yield func(*Job) error) (ListInfo, error) {
	var info ListInfo
	var dated bool // the server says when its list was made
	started := c.cfg.Now()
	a, err := c.requestWithRetries(ctx, operation{
		build: func(p *peer) (*call, error) {
			call := getCall(p, "", "jobs", "")
			if !since.IsZero() {
				call.query = url.Values{"update_time": {p.formatSince(since)}}
			}
			return call, nil
		},
		fields: func(p *peer) table[answer] {
			dated = p.listAbilities().lastUpdate
			return recordsField("jobs", p.jobTable(), func(j *Job) error {
				info.Count++
				return yield(j)
			})
		},
		begun: func() bool { return info.Count > 0 },
	})
	switch {
	case errors.Is(err, ErrNoChange): // v0.0.38
		info.Next = c.nextSince(a, started)
		return info, nil
	case err != nil:
		return info, err
	}
	// From v0.0.40 on, "no change" is an empty list without a time.
	info.Changed = !dated || since.IsZero() || info.Count > 0 || !a.LastUpdate.IsZero()
	info.Next = c.nextSince(a, started)
	return info, nil
}

// nextSince is the time to ask about next, so that no change is missed. A server that reports when its
// list was made is asked about that time: slurmctld answers "no change" only if that is more than a
// second after the last change. v0.0.38 does not report a time: then the time is our own clock before
// the request, less Config.ClockSkew.
func (c *Client) nextSince(a answer, started time.Time) time.Time {
	if !a.LastUpdate.IsZero() {
		return a.LastUpdate
	}
	return started.Add(-c.cfg.ClockSkew).Truncate(time.Second)
}

// ListJobs is EachJob into a slice.
func (c *Client) ListJobs(ctx context.Context, since time.Time) ([]Job, ListInfo, error) {
	var all []Job
	info, err := c.EachJob(ctx, since, func(j *Job) error {
		all = append(all, *j)
		return nil
	})
	if err != nil {
		return nil, info, err
	}
	return all, info, nil
}

// JobRecords returns every record that Slurm has under a reference's id: of an array or a task of
// an array, all tasks; of a heterogeneous job or a component, all components. The error is
// ErrInvalidJobID if there is no record.
func (c *Client) JobRecords(ctx context.Context, ref Ref) ([]Job, error) {
	all, _, err := c.jobRecords(ctx, ref)
	return all, err
}

// jobRecords is JobRecords with slurmctld's time, or ours if the server does not tell the time.
func (c *Client) jobRecords(ctx context.Context, ref Ref) ([]Job, time.Time, error) {
	if err := ref.checkID(); err != nil {
		return nil, time.Time{}, err
	}
	subject := "job " + ref.String()
	var all []Job
	a, err := c.requestWithRetries(ctx, operation{
		// Not "12_3": 22.05 does not find a task that has no record of its own.
		build: func(p *peer) (*call, error) { return getCall(p, subject, "job", JobID(ref.ID).String()), nil },
		fields: func(p *peer) table[answer] {
			all = nil
			return recordsField("jobs", p.jobTable(), collectInto(&all))
		},
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(all) == 0 {
		return nil, time.Time{}, fmt.Errorf("%s: no record: %w", subject, ErrInvalidJobID)
	}
	if a.LastUpdate.IsZero() {
		a.LastUpdate = c.cfg.Now()
	}
	return all, a.LastUpdate, nil
}

// collectInto returns a function that appends each record to all.
func collectInto[T any](all *[]T) func(*T) error {
	return func(t *T) error {
		*all = append(*all, *t)
		return nil
	}
}

// Job returns the only record that ref names. A task that has not started has no record of its own:
// then the result is the record of all tasks that have not started (Array.Task is unset). The error
// is ErrInvalidJobID if there is no record.
func (c *Client) Job(ctx context.Context, ref Ref) (Job, error) {
	all, err := c.JobRecords(ctx, ref)
	if err != nil {
		return Job{}, err
	}
	for _, match := range []func(*Job) bool{ref.namesJob, ref.mayName} {
		for i := range all {
			if match(&all[i]) {
				return all[i], nil
			}
		}
	}
	// ref is an array's or a heterogeneous job's own id, and no record has this id.
	if ref.kind == 0 && (all[0].Array.JobID == ref.ID || all[0].Het.JobID == ref.ID) {
		return all[0], nil
	}
	return Job{}, fmt.Errorf("job %s: not among its %d records: %w", ref, len(all), ErrInvalidJobID)
}
