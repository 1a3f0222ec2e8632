// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package control tests preemptd on a real cluster. Each test is a scenario on software GPUs, and compares
// the results of its jobs bit for bit with the results of an undisturbed run. The tests need root, a built
// minicluster, and the build tag "control".
package control
