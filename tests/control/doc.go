// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package control shows what preemptd does on a real cluster: one scenario a test, on software GPUs, with jobs
// whose results are compared bit for bit with those of a run that nothing disturbed. It needs root, a built
// minicluster, and the build tag "control".
package control
