// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"fmt"
	"syscall"
)

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
// "Anew" is as plain Slurm begins a run: the script from its first line, with the files as the run before has left
// them. Files that a job has saved by itself count more than an older checkpoint.

// RunEnd describes a run that is over.
type RunEnd struct {
	Released          bool               // captured, and then its programs were killed by this software
	ScriptEnded       bool               // its batch script ended in its capsule
	Status            syscall.WaitStatus // of the batch script, if that has ended
	Terminated        bool               // its programs were sent SIGTERM, because they could not be captured
	GivenUp           bool               // the job could not be restored
	NodeLost          bool
	RequeuedItself    bool // the job asked Slurm for its requeue, and the program that asked ended
	ResumedOwnRequeue bool // the job resumed from a checkpoint that follows such a requeue, because the program that asked went on
}

// NextRun says how the next run of a job begins.
type NextRun int

// How a run begins.
const (
	Resumes    NextRun = iota // from the newest checkpoint, if there is any
	BeginsAnew                // if Slurm makes a next run
	IsRequeued                // Slurm is asked for a next run, which begins anew
)

// String says for people how the run begins.
func (n NextRun) String() string {
	return [...]string{"resumes", "begins anew", "is requeued, and begins anew"}[n]
}

// Next decides how the next run begins.
func (e RunEnd) Next() NextRun {
	switch {
	case e.Released || e.GivenUp:
		return Resumes
	case e.RequeuedItself:
		return BeginsAnew
	case !e.ScriptEnded || e.Terminated || e.NodeLost:
		return Resumes
	case e.isScriptKilled(): // at the end of KillWait, or for want of memory
		return Resumes
	case e.ResumedOwnRequeue && e.Status != 0:
		// The script failed after it had asked for a requeue. Plain Slurm has requeued the job by then, with any status.
		return IsRequeued
	}
	return BeginsAnew
}

func (e RunEnd) isScriptKilled() bool {
	return e.ScriptEnded && e.Status.Signaled() && e.Status.Signal() == syscall.SIGKILL
}

// IsCut tells whether neither the job nor this software has ended the run: its batch script was killed, or has not ended.
func (e RunEnd) IsCut() bool {
	return !e.Released && !e.GivenUp && !e.Terminated && !e.RequeuedItself && (!e.ScriptEnded || e.isScriptKilled())
}

// DescribeOwnRequeue says for people how a run has ended that asked for its requeue, if the next run begins anew for that; ""
// of any other run. The user of such a job may expect that it resumes, as a job does that goes on after its request.
func (e RunEnd) DescribeOwnRequeue() string {
	if !e.RequeuedItself || e.Next() != BeginsAnew {
		return ""
	}
	how := ""
	switch {
	case e.ScriptEnded && e.Status.Exited():
		how = fmt.Sprintf("by itself (exit %d) ", e.Status.ExitStatus())
	case e.ScriptEnded && e.Status.Signaled():
		how = fmt.Sprintf("by a signal (%s) ", e.Status.Signal())
	}
	return how + "after it had asked for its requeue: the next run begins anew"
}
