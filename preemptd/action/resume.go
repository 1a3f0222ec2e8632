// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

// resume starts a parked job at once: on the nodes that are named, or where the job asked to be.
var resume = kind{
	participle: "resumed", arguments: []string{"nodes", "avoid", "gpus"}, mustWait: true, releasesHold: true,
	target: placeAndSize,
	steps:  func(Args) []step { return []step{checkJob, draft, edit, releaseStep, report} },
}
