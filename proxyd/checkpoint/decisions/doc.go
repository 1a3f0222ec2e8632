// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package decisions decides about a run of a job from values, and does nothing: package checkpoint asks Slurm and acts.
//
//	verdict.go   what a SIGTERM of Slurm means
//	outcome.go   what follows a checkpoint, which requests may still change
//	next_run.go  how the next run of a job begins
//	requeue.go   in which states of Slurm a job that seems to be over is requeued
package decisions
