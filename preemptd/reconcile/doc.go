// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package reconcile is preemptd's loop, top to bottom (Loop.Tick):
//
//	look (cluster) ─ note foreign changes ─ snapshot ─ decide (policies, each tried by plan) ─ begin (journal) ─ act
//	   ▲                                                                                              │
//	   └───────────────────── the interval, an action that ended, a request of a person ◄──────────────┘
//
// Before the snapshot, a job that waits for nodes which an action gave the job, and which were not its user's wish,
// is given a resume that takes them back (pinned_nodes.go); nodes that a person gave the job, only after the job has
// run there. A resume that fails three times is left, and reported.
//
// Recovery is the same loop: unfinished actions of the journal are done first, including actions of earlier
// processes. A decision without an action that has begun is not remembered: the next tick decides again, on the
// cluster of that time.
package reconcile
