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
