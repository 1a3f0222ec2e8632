// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// A run that Slurm ends before its batch script was started, or restored, has done nothing, and its
// exit status means nothing. The job is requeued.

// progress says how far a run had come when Slurm ended it.
type progress int

const (
	ran        progress = iota // its batch script ran
	unrestored                 // its batch script was to be restored and was not
	unstarted                  // its batch script was to be started and was not
)

// statesToRequeue returns the states of Slurm in which the job is requeued although Slurm takes
// the job to be over. released: the run was captured for a requeue, and Slurm may have taken the
// end of the wardens for the end of the job (a slurmctld that died at that moment may not know of
// the requeue). A time limit before the script runs ends the task that still asks for its place,
// so that proxyd gets no signal; the job is requeued as after any time limit.
func statesToRequeue(released bool, had progress, next decisions.NextRun, onTimeLimit string) []string {
	var states []string
	switch {
	case next == decisions.IsRequeued:
		return []string{"FAILED"}
	case released:
		return []string{"COMPLETED", "FAILED", "NODE_FAIL"}
	case had == ran:
		return nil
	case had == unrestored:
		states = []string{"FAILED", "NODE_FAIL"}
	}
	if onTimeLimit != "end" {
		states = append(states, stateTimeout)
	}
	return states
}

// stateTimeout is the state of a job that Slurm has ended at its time limit.
const stateTimeout = "TIMEOUT"

// settleUnstartedRun handles a run that ended before a task of it had its place on this node. asked:
// a task has asked for one, and was not answered. If this node is the run's first, the run ended
// before its restore, or before its start.
func (e jobEnds) settleUnstartedRun(ctx context.Context, id uint32, asked bool) {
	c := e.c
	rec, err := c.records.Load(id)
	if err == nil && rec == nil && !asked {
		return
	}
	var s *slurm.Job
	if err == nil {
		s, err = c.Slurm.Show(ctx, jobName(id))
	}
	had := unrestored
	if rec == nil {
		had = unstarted
	}
	if err == nil && s.BatchHost == c.Node && !c.jobs.hasRunEnded(id, s.Restarts) && (s.Restarts > 0 || rec == nil && s.Requeue) {
		err = e.settleEndedRun(ctx, id, s.Restarts, statesToRequeue(false, had, decisions.Resumes, c.OnTimeLimit))
	}
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		c.Log.Warn("clean up after a run that never began", "job", id, "error", err)
	}
}

// progressOf says how far the run has come. Before its batch script is restored the job itself has
// done nothing in the run, and its exit status means nothing: Slurm ends such a run for a node
// that died a moment ago.
func (e runEnding) progressOf(snap runs.Snapshot) progress {
	j := e.j
	j.mu.Lock()
	defer j.mu.Unlock()
	lc := j.capsules[0]
	switch {
	case snap.Record == nil || snap.HasBeen(runs.GivenUp):
		return ran
	case lc == nil && snap.Point != nil:
		return unrestored
	case lc == nil:
		return unstarted
	case slices.Contains(lc.note.ProgramsToRestore, records.BatchProgram):
		return unrestored
	case lc.note.RunEnv == nil: // read when the script starts
		return unstarted
	}
	return ran
}

// maxUnrestoredRuns bounds the runs in a row that end before their restore is complete. After
// that the job is held for a person.
const maxUnrestoredRuns = 3

// requeueUnrestored requeues a job that Slurm takes to be over, or holds it after
// maxUnrestoredRuns. A run that ended before its record was made is counted by Slurm.
func (e jobEnds) requeueUnrestored(ctx context.Context, id uint32, s *slurm.Job) error {
	c := e.c
	rec, err := c.records.Load(id)
	if err != nil {
		return err
	}
	times := s.Restarts + 1
	if rec != nil {
		rec.UnrestoredRuns++
		times = rec.UnrestoredRuns
		if err := c.records.Save(rec); err != nil {
			return err
		}
	}
	switch {
	case times > maxUnrestoredRuns:
		err = c.comments().Write(ctx, s.String(), reports.Held+fmt.Sprintf("%d runs in a row ended before the job was restored", times))
		return errors.Join(err, c.Slurm.RequeueHold(ctx, s.String()))
	case s.State == stateTimeout && c.OnTimeLimit == "hold":
		return c.Slurm.RequeueHold(ctx, s.String())
	}
	return c.Slurm.Requeue(ctx, s.String())
}
