// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import "syscall"

// How a job's next run begins is decided when its run has ended, from how that was:
//
//	the run                                                   the next run, if Slurm makes one
//	was captured and released                                 resumes from that checkpoint
//	was killed before it could be captured                    resumes from the checkpoint before
//	lost a node                                               the same
//	ended by itself: RequeueExit, or Slurm requeued the job   begins anew
//	requeued itself, and the program that asked for it ended  begins anew
//	requeued itself and went on                               was captured: resumes
//	resumed so, and then failed                               is asked for, and begins anew
//
// "Anew" is as plain Slurm begins a run: the script from its first line, with the files as the
// run before has left them. What a job has saved by itself counts more than a checkpoint that is older.

// RunEnd is what is known of a run when it is over.
type RunEnd struct {
	Left     bool               // captured and released: its programs were killed by us
	Ended    bool               // its batch script ended in its capsule
	Status   syscall.WaitStatus // how
	Told     bool               // its programs were told to end: they could not be captured
	GaveUp   bool               // it could not be restored
	NodeLost bool
	Itself   bool // it had itself requeued, and the program that asked for that ended
	Resumed  bool // from a checkpoint of a run that had itself requeued and went on
}

// NextRun says how the next run of a job begins.
type NextRun int

// How a run begins.
const (
	Resumes    NextRun = iota // from the newest checkpoint, if there is any
	BeginsAnew                // if Slurm makes a next run
	IsRequeued                // and Slurm is asked for one
)

// String says for people how the run begins.
func (n NextRun) String() string {
	return [...]string{"resumes", "begins anew", "is requeued, and begins anew"}[n]
}

// Next decides how the next run begins.
func (e RunEnd) Next() NextRun {
	switch {
	case e.Left || e.GaveUp:
		return Resumes
	case e.Itself:
		return BeginsAnew
	case !e.Ended || e.Told || e.NodeLost:
		return Resumes
	case e.Status.Signaled() && e.Status.Signal() == syscall.SIGKILL: // Slurm has lost its patience, or there was no memory
		return Resumes
	case e.Resumed && e.Status != 0:
		// Its handler has ended with the failure that plain Slurm takes no notice of.
		return IsRequeued
	}
	return BeginsAnew
}
