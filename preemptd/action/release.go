// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

// release undoes a hold of any user.
var release = kind{
	participle: "released", mustWait: true, releasesHold: true,
	steps: func(Args) []step { return []step{checkJob, releaseStep, report} },
}
