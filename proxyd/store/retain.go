// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"slices"
	"time"
)

// Retention has the rules for the checkpoints of a job to be kept. The newest of a job that is not over always stays.
type Retention struct {
	Count int           // keep the newest Count of each job; 0: all
	Age   time.Duration // delete older checkpoints; 0: no limit
	// Protect is the number of the newest checkpoints of each job that stay, at any age, also when the job is over.
	Protect int
	// Ended tells whether a job is over. Of such a job all checkpoints older than Age are
	// deleted, also the newest, except those that Protect keeps. nil: no job is over.
	Ended func(JobID) bool
	// Needs tells whether a checkpoint of a job that is not over is the Base of a checkpoint that
	// is not written yet. Such a checkpoint stays, and is one of Count. nil: there is no such checkpoint.
	Needs func(ID) bool
}

// Expired returns the checkpoints that r does not keep at the time now, in the order of their
// IDs. Numbers decide which checkpoint is newer, not clocks. An unreadable checkpoint neither
// counts nor expires: the key may be wrong.
func (r Retention) Expired(now time.Time, all []Summary) []ID {
	jobs := make(map[JobID][]Summary)
	for _, s := range all {
		if s.Err == nil {
			jobs[s.ID.JobID] = append(jobs[s.ID.JobID], s)
		}
	}
	var expired []ID
	for job, list := range jobs {
		ended := r.Ended != nil && r.Ended(job)
		slices.SortFunc(list, func(a, b Summary) int { return cmp.Compare(b.ID.Number, a.ID.Number) })
		for i, s := range list {
			tooMany := r.Count > 0 && i >= r.Count
			tooOld := (r.Age > 0 || ended) && now.Sub(s.Created) > r.Age
			isKept := i < r.Protect || i == 0 && !ended || r.isNeeded(s.ID)
			if (tooMany || tooOld) && !isKept {
				expired = append(expired, s.ID)
			}
		}
	}
	slices.SortFunc(expired, compareIDs)
	return expired
}

// isNeeded tells whether a checkpoint stays at any age.
func (r Retention) isNeeded(id ID) bool {
	return r.Needs != nil && r.Needs(id) && (r.Ended == nil || !r.Ended(id.JobID))
}

// compareIDs sorts by job, then number.
func compareIDs(a, b ID) int {
	return cmp.Or(
		cmp.Compare(a.Cluster, b.Cluster),
		cmp.Compare(a.Job, b.Job),
		cmp.Compare(a.ArrayTask, b.ArrayTask),
		cmp.Compare(a.Component, b.Component),
		cmp.Compare(a.Number, b.Number),
	)
}
