// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "github.com/singularity-slurm/singularity-slurm/proxyd/slurm"

// verdict says what Slurm intends by a SIGTERM.
type verdict int

const (
	// forwardSignal: a cancel, or a signal that a person sent. The program gets the signal, as
	// without --singularity.
	forwardSignal verdict = iota
	// requeued: Slurm takes the nodes away and runs the job again by itself.
	requeued
	// preempted: the job is preempted with grace time. After the checkpoint this daemon requeues
	// the job.
	preempted
	// timeLimit: Slurm ends the job at its time limit. After the end this daemon requeues the
	// job.
	timeLimit
)

func (v verdict) String() string {
	return [...]string{"passed on", "requeue", "preemption", "time limit"}[v]
}

// decideVerdict decides what the SIGTERM means, from what squeue shows of the job just after the
// signal, and from the number of restarts at the start of this run. Observed on Slurm 22.05,
// 24.11
// and 26.05:
//
//	                          State        Reason      Restarts  PreemptTime
//	scancel                   COMPLETING   None        same
//	scancel --signal=TERM     RUNNING                  same      N/A
//	requeue, requeuehold      COMPLETING               + 1
//	preemption                COMPLETING               + 1         set (26.05)
//	preemption, GraceTime     RUNNING                  same      set
//	node down                 PENDING                  + 1
//	time limit                COMPLETING   TimeLimit   same
//
// Slurm increments Restarts at a requeue before it sends the first signal.
func decideVerdict(j *slurm.Job, restarts int, onTimeLimit string) verdict {
	switch {
	case j.Restarts > restarts:
		return requeued
	case j.Runs() && j.Preempted != "":
		return preempted
	case j.Runs():
		return forwardSignal
	case j.Reason == "TimeLimit" && j.Requeue && onTimeLimit != "end":
		return timeLimit
	}
	return forwardSignal
}

// describeVerdict describes a verdict for people. A preemption without GraceTime is a requeue in
// which newer releases of Slurm show the preemption.
func describeVerdict(v verdict, j *slurm.Job) string {
	if v == requeued && j.Preempted != "" {
		return preempted.String()
	}
	return v.String()
}
