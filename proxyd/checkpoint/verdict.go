// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "github.com/singularity-slurm/singularity-slurm/proxyd/slurm"

// verdict says what a SIGTERM from Slurm is to lead to.
type verdict int

const (
	// forwardSignal: a cancel, or a signal that somebody sent. The program gets it, as without us.
	forwardSignal verdict = iota
	// requeued: Slurm takes the nodes away and will run the job again by itself.
	requeued
	// preempted: something preempts the job, which has time left; it is requeued as soon as
	// the checkpoint is there.
	preempted
	// timeLimit: the time limit. The job is over for Slurm; it is requeued afterwards.
	timeLimit
)

func (v verdict) String() string {
	return [...]string{"passed on", "requeue", "preemption", "time limit"}[v]
}

// decideVerdict decides from what squeue says of the job, as soon as the signal came, and the
// number of restarts that this run began with. Read on Slurm 22.05, 24.11 and 26.05:
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
// A requeue counts in Restarts before the first signal is sent.
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

// describeVerdict is what people are told of a verdict. A preemption without GraceTime is a requeue of
// which Slurm says who made it, if it is one that does.
func describeVerdict(v verdict, j *slurm.Job) string {
	if v == requeued && j.Preempted != "" {
		return preempted.String()
	}
	return v.String()
}
