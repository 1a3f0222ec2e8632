// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

// Progress says how far a run had come when Slurm ended it. A run that Slurm ends before its batch script was started,
// or restored, has done no work, so its exit status has no meaning. The job is requeued.
type Progress int

// How far a run can have come.
const (
	Ran        Progress = iota // its batch script ran
	Unrestored                 // its batch script was to be restored and was not
	Unstarted                  // its batch script was to be started and was not
)

// StatesToRequeue returns the states of Slurm in which the job is requeued although Slurm takes
// the job to be over. released: the run was captured for a requeue, and Slurm may have taken the
// end of the wardens for the end of the job (a slurmctld that died at that moment may not know of
// the requeue). A time limit before the script runs ends the task that still asks to be admitted,
// so that proxyd gets no signal; the job is requeued as after any time limit.
func StatesToRequeue(released bool, had Progress, next NextRun, onTimeLimit string) []string {
	var states []string
	switch {
	case next == IsRequeued:
		return []string{stateFailed}
	case released:
		return []string{"COMPLETED", stateFailed, "NODE_FAIL"}
	case had == Ran:
		return nil
	case had == Unrestored:
		states = []string{stateFailed, "NODE_FAIL"}
	}
	if onTimeLimit != "end" {
		states = append(states, StateTimeout)
	}
	return states
}

// StateTimeout is the state of a job that Slurm has ended at its time limit.
const StateTimeout = "TIMEOUT"

// stateFailed is the state of a job that has ended with an exit code or by a signal.
const stateFailed = "FAILED"
