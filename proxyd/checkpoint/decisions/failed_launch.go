// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// launchFailed is Slurm's reason for its own hold of a job that a node has refused to start. squeue shows it with "_" in
// place of spaces.
const launchFailed = "launch failed requeued held"

// IsHeldForLaunch tells whether a job waits because Slurm itself holds it after a failed launch. A hold of a person's or
// of a program's has another reason.
func IsHeldForLaunch(j *slurm.Job) bool {
	return j.Waits() && strings.ReplaceAll(j.Reason, "_", " ") == launchFailed
}

// failedByExit is Slurm's reason for the end of a job with an exit code.
const failedByExit = "NonZeroExitCode"

// IsEndedForLaunch tells of a job with a script that has not exited: the job is over because a node has refused to start
// its next run. Slurm then gives the job an exit code of its own.
func IsEndedForLaunch(j *slurm.Job) bool { return j.State == stateFailed && j.Reason == failedByExit }
