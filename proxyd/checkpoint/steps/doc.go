// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package steps keeps the conductor's view of the steps that the programs of a capsule start by srun. The package
// starts no processes: package srun runs the real srun, and package checkpoint leads.
//
//	sruns.go   the sruns of a capsule, by key
//	layout.go  on which nodes of a run the tasks of a restored step start
//	tasks.go   whether all tasks of the steps are there, so that a checkpoint contains them all
package steps
