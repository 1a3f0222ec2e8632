// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package reconcile is preemptd's loop, top to bottom (Loop.Tick):
//
//	look (cluster) ─ note what others did ─ snapshot ─ decide (policies, each tried by plan) ─ begin (journal) ─ act
//	   ▲                                                                                              │
//	   └───────────────────── the interval, an action that ended, a request of a person ◄──────────────┘
//
// Recovery is the same loop: actions that the journal has unfinished are done first,
// whoever began them. What is decided and not begun is not remembered: the next tick
// decides again, on what is then.
package reconcile
