// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

// hold keeps a job that waits from starting.
var hold = kind{
	past: "held", waits: true,
	steps: func(Args) []step { return []step{checkJob, announce, holdStep, report} },
}
