// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package fraction counts which part of their requests jobs and accounts got: the GPU fraction, over a sliding window.
// The package is arithmetic on records, in whole GPU-milliseconds: the result depends on which events there are, and
// not on when, in which order or how often they were added. So a daemon that starts again adds the events that it
// finds, and has the same numbers.
//
//	fraction = GPUs that computed × time ÷ GPUs asked for × time in which the job could run
//
// A job that waits, stands still for a dump or comes back from a checkpoint loses; a job that its
// owner holds, or that waits for another job, does not. GPUs beyond the request make good for time
// on fewer, but no job gets more than 1.
package fraction
