// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import "github.com/singularity-slurm/singularity-slurm/proxyd/slurm"

// Verdict is Slurm's intention behind a SIGTERM.
type Verdict int

const (
	// ForwardSignal is for a cancel, or a signal that a person sent. The program gets the signal, as
	// without --singularity.
	ForwardSignal Verdict = iota
	// Requeued means that Slurm takes the nodes away and runs the job again by itself.
	Requeued
	// Preempted means that the job is preempted with grace time. After the checkpoint this daemon
	// requeues the job.
	Preempted
	// TimeLimit means that Slurm ends the job at its time limit. After the end this daemon
	// requeues the job.
	TimeLimit
)

// Departure returns how a job leaves its nodes after a checkpoint that is made because of a SIGTERM with this verdict.
func (v Verdict) Departure() Departure {
	return [...]Departure{ForwardSignal: StaysOnNodes, Requeued: LeavesForRequeue, Preempted: LeavesForPreemption, TimeLimit: LeavesAtTimeLimit}[v]
}

// String returns the reason for people.
func (v Verdict) String() string {
	return [...]string{"passed on", "requeue", "preemption", "time limit"}[v]
}

// DecideVerdict decides the meaning of the SIGTERM, from the job's row in squeue just after the signal, and from the
// number of restarts at the start of this run. Observed on Slurm 22.05, 24.11 and 26.05:
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
func DecideVerdict(j *slurm.Job, restarts int, onTimeLimit string) Verdict {
	switch {
	case j.Restarts > restarts:
		return Requeued
	case j.Runs() && j.Preempted != "":
		return Preempted
	case j.Runs():
		return ForwardSignal
	case j.Reason == "TimeLimit" && j.Requeue && onTimeLimit != "end":
		return TimeLimit
	}
	return ForwardSignal
}

// DescribeVerdict describes a verdict for people. A preemption without GraceTime is a requeue in
// which newer releases of Slurm show the preemption.
func DescribeVerdict(v Verdict, j *slurm.Job) string {
	if v == Requeued && j.Preempted != "" {
		return Preempted.String()
	}
	return v.String()
}
