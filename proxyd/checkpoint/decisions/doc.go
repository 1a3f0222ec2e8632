// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package decisions decides about a run of a job from values alone: package checkpoint asks Slurm and acts.
//
//	verdict.go   the meaning of a SIGTERM of Slurm
//	outcome.go   whether a job runs on after a checkpoint; later requests may change that
//	next_run.go  how the next run of a job begins
//	requeue.go   in which states of Slurm a job that seems to be over is requeued
package decisions
