// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

// resume starts a parked job at once: on the nodes that are named, or where the job asked to be.
var resume = kind{
	past: "resumed", takes: []string{"nodes", "avoid", "gpus"}, waits: true, frees: true,
	target: placeAndSize,
	steps:  func(Args) []step { return []step{checkJob, draft, edit, releaseStep, report} },
}
