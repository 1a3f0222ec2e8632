// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

// preempt has a running job leave its nodes: with a checkpoint, and back into the queue. With
// Hold the job stays there until a resume; else Slurm starts the job again when there is room.
var preempt = kind{
	participle: "preempted", arguments: []string{"hold"}, mustRun: true,
	steps: func(a Args) []step {
		steps := []step{checkJob, announce, checkpoint, park, leaveNodes, draft, edit}
		if !a.Hold {
			steps = append(steps, releaseStep)
		}
		return append(steps, report)
	},
}
