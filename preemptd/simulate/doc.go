// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package simulate plays a trace of jobs on a cluster in virtual time. Policies are asked, and
// their intents tried by package plan, as by preemptd; between decisions a scheduler like
// Slurm's starts jobs: by priority and age, with backfill behind the first job that has no room.
//
//	trace ─► queue ─► scheduler ─► running ─► done
//	           ▲                      │
//	           └── dump ◄── plan ◄── policies, asked at intervals with a snapshot
//
// While no job waits and no event comes, policies are asked every five minutes only.
//
// Simplifications: the cost of ranks sharing a GPU comes from a model (slicing.go); backfill counts GPUs and not on
// which nodes they are; nodes are all alike, do not fail, and have CPUs and memory for all. Time is in milliseconds
// and work in GPU-milliseconds, so that no time is rounded and the same trace gives the same result.
package simulate
