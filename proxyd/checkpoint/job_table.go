// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"maps"
	"slices"
	"sync"
)

// jobTable has this node's state of each job. All methods may be called concurrently.
type jobTable struct {
	mu        sync.Mutex
	byNumber  map[uint32]*job
	endedRuns map[uint32]int // newest run of each job whose capsules this node had and has no more
}

// getOrMake returns the state of a job, and makes the state at the first call.
func (t *jobTable) getOrMake(c *Conductor, id uint32) *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.byNumber[id]
	if j == nil {
		j = newJob(c, id)
		t.addJob(j)
	}
	return j
}

// addJob adds a job. Caller holds t.mu.
func (t *jobTable) addJob(j *job) {
	if t.byNumber == nil {
		t.byNumber = map[uint32]*job{}
	}
	t.byNumber[j.id] = j
}

// findJob returns the state of a job; nil if there is none.
func (t *jobTable) findJob(id uint32) *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byNumber[id]
}

// forgetJob removes the state of a job.
func (t *jobTable) forgetJob(id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byNumber, id)
}

// allJobs returns the states of all jobs.
func (t *jobTable) allJobs() []*job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byNumber))
}

const maxEndedRuns = 10000

// rememberEndedRun notes that this node has no capsules of the run any more. The notes are
// dropped when they become many: hasLostCapsules then answers no, and a checkpoint is tried in
// vain.
func (t *jobTable) rememberEndedRun(id uint32, run int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedRuns == nil || len(t.endedRuns) >= maxEndedRuns {
		t.endedRuns = map[uint32]int{}
	}
	t.endedRuns[id] = run
}

// hasLostCapsules tells whether this node had capsules of the run and has none any more.
func (t *jobTable) hasLostCapsules(id uint32, run int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.endedRuns[id]
	return ok && last == run
}

// hasRunEnded tells whether this node had capsules of the run, or of a later run, and has none
// any more.
func (t *jobTable) hasRunEnded(id uint32, run int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.endedRuns[id]
	return ok && last >= run
}
