// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package summary adds up a job's runs: how long the job ran and waited, how long its checkpoints took, and how much
// work was saved and lost.
//
//	runs := summary.ParseRuns(output of sacct)
//	totals := summary.AddRuns(runs, time.Now())
//	work := summary.CountWork(time line of the nodes, runs)
//
// The package has no clock, no network and no files.
package summary

import (
	"maps"
	"time"
)

// Event is a line of the time line that nodes write of a job.
type Event struct {
	At         time.Time
	What       string
	Checkpoint int           // from which a run resumes, 0: anew; that was made; that was restored
	Took       time.Duration // of a checkpoint
	AfterEnd   bool          // of a start: the run before had ended by itself
}

// The kinds of events that are counted. proxyd writes these texts, and never changes them.
const (
	eventStarted    = "started"
	eventCheckpoint = "checkpoint"
	eventFailed     = "no checkpoint"
	eventLeft       = "left"
	eventEnded      = "ended"
	eventRequeued   = "to be run again"
	eventRestored   = "restored"
)

// Work is the sum of a job's work and checkpoints. Work is the time in which the job's programs ran: from the start
// of a run, or from the end of its restore, until the run's end, without the time of captures. Each moment of work is
// counted once:
//
//	Worked = Saved + Lost + Anew + Ended + the work of the newest run since its start or restore
//
// and so each of them is at most the time that the job ran.
type Work struct {
	Made      int           // checkpoints
	Failed    int           // attempts that made no checkpoint
	Longest   time.Duration // the longest checkpoint
	Capturing time.Duration // all of them together
	Restoring time.Duration // from the starts of runs until their programs went on
	Worked    time.Duration // in all
	Saved     time.Duration // work of earlier runs that the newest run did not have to do again
	Lost      time.Duration // work after the checkpoints from which the next runs went on: done again
	Anew      time.Duration // work of runs after which the job began anew: done again
	Ended     time.Duration // work of runs that ended by themselves, after which the job began anew with what they had saved
	// LateEnd: a run that was done again ended without an event, as with its node, and is counted until Slurm noticed:
	// Lost and Anew are the most that it can be.
	LateEnd bool
}

// UsefulShare is which part of the time that a job ran was work that was not done again, between 0 and 1; 0 of no time.
func (w Work) UsefulShare(ran time.Duration) float64 {
	if ran <= 0 {
		return 0
	}
	return min(1, (w.Worked-w.Lost-w.Anew).Seconds()/ran.Seconds())
}

// CountWork adds up a time line, which is in order. A run that ended without an event, as with its node, ends when
// Slurm says; a run that goes on ends for the sum after the time that Slurm has counted so far.
func CountWork(events []Event, runs []Run) Work {
	c := workCounter{kept: map[int]time.Duration{}, runs: runs}
	for _, e := range events {
		c.countEvent(e)
	}
	var last time.Time
	for _, r := range runs { // the newest may wait
		if end := endOf(r); end.After(last) {
			last = end
		}
	}
	if len(runs) > 0 {
		c.stopWork(c.runEnd(last))
	}
	return c.work
}

// endOf returns when a run ended, or until when Slurm has counted the run.
func endOf(r Run) time.Time {
	if r.Ended.IsZero() && !r.Began.IsZero() {
		return r.Began.Add(r.Elapsed)
	}
	return r.Ended
}

// workCounter is a job in the middle of its time line.
type workCounter struct {
	work Work
	runs []Run
	kept map[int]time.Duration // progress in each checkpoint

	progress time.Duration // until since
	working  bool
	since    time.Time
	starting time.Time // of the run that is being restored
}

func (c *workCounter) countEvent(e Event) {
	switch e.What {
	case eventStarted:
		c.startRun(e)
	case eventCheckpoint:
		c.countCheckpoint(e)
	case eventFailed:
		c.work.Failed++
	case eventRestored:
		c.resumeRun(e)
	case eventLeft: // no work was done after the checkpoint
		c.working = false
	case eventEnded, eventRequeued:
		c.stopWork(e.At)
	}
}

func (c *workCounter) startRun(e Event) {
	c.work.LateEnd = c.work.LateEnd || c.working
	c.stopWork(c.runEnd(e.At))
	if e.Checkpoint > 0 {
		c.starting = e.At
		return
	}
	if e.AfterEnd {
		c.work.Ended += c.progress
	} else {
		c.work.Anew += c.progress
	}
	c.work.Saved = 0 // it is counted with the rest of the progress
	clear(c.kept)
	c.progress, c.working, c.since = 0, true, e.At
}

// runEnd returns when the run ended that worked before a time.
func (c *workCounter) runEnd(before time.Time) time.Time {
	end := c.since
	for _, r := range c.runs {
		// The clocks of slurmctld and of the nodes may differ by a second.
		if at := endOf(r); at.After(end) && !at.After(before.Add(time.Second)) {
			end = at
		}
	}
	return end
}

func (c *workCounter) stopWork(at time.Time) {
	if c.working {
		c.addWork(at)
	}
	c.working = false
}

// addWork counts the work until a time.
func (c *workCounter) addWork(until time.Time) {
	worked := max(until.Sub(c.since), 0)
	c.progress += worked
	c.work.Worked += worked
}

// countCheckpoint counts a checkpoint.
func (c *workCounter) countCheckpoint(e Event) {
	c.work.Made++
	c.work.Capturing += e.Took
	c.work.Longest = max(c.work.Longest, e.Took)
	if c.working {
		c.addWork(e.At.Add(-e.Took))
		c.since = e.At
	}
	c.kept[e.Checkpoint] = c.progress
}

// resumeRun counts a restore.
func (c *workCounter) resumeRun(e Event) {
	if !c.starting.IsZero() {
		c.work.Restoring += max(e.At.Sub(c.starting), 0)
	}
	if kept, known := c.kept[e.Checkpoint]; known {
		c.work.Saved = kept // with the work saved before, which the checkpoint has as well
		c.work.Lost += max(c.progress-kept, 0)
		c.progress = kept
		maps.DeleteFunc(c.kept, func(other int, _ time.Duration) bool { return other > e.Checkpoint }) // their work is lost
	}
	c.starting, c.working, c.since = time.Time{}, true, e.At
}
