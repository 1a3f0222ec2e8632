// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import "errors"

// place starts a waiting job on named nodes. If the job does not start there in time, the job waits
// as before.
var place = kind{
	participle: "placed", arguments: []string{"nodes", "gpus"}, mustWait: true,
	check: func(a Args) error {
		if len(a.Nodes) == 0 {
			return errors.New("name the nodes")
		}
		return nil
	},
	target: placeAndSize,
	steps:  func(Args) []step { return []step{checkJob, park, draft, edit, releaseStep, start, report} },
}
