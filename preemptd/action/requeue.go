// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"errors"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
)

// requeue gives a job another QOS, which Slurm allows only to a waiting job: a running job leaves
// its nodes for that, with a checkpoint.
var requeue = kind{
	participle: "requeued", arguments: []string{"qos", "hold"},
	check: func(a Args) error {
		if a.QOS == "" {
			return errors.New("name the QOS")
		}
		return nil
	},
	target: func(a Args, r *jobrequest.Request) error { r.QOS = a.QOS; return nil },
	steps: func(a Args) []step {
		steps := []step{checkJob, announce, checkpoint, park, leaveNodes, draft, edit}
		if !a.Hold {
			steps = append(steps, releaseStep)
		}
		return append(steps, report)
	},
}
