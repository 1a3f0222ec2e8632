// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import "errors"

// migrate moves a job to named nodes, or away from named nodes. For a waiting job only the place of
// the start is set. If the job does not start there in time, it may start wherever Slurm has room.
var migrate = kind{
	participle: "migrated", arguments: []string{"nodes", "avoid", "gpus"},
	check: func(a Args) error {
		if len(a.Nodes)+len(a.Avoid) == 0 {
			return errors.New("name nodes to run on, or nodes to avoid")
		}
		return nil
	},
	target: placeAndSize,
	steps:  func(Args) []step { return movingSteps },
}

// movingSteps is the longest journey: a running job is taken off its nodes, edited, started again, and restored.
var movingSteps = []step{checkJob, announce, checkpoint, park, leaveNodes, draft, edit, releaseStep, start, report, restore}
