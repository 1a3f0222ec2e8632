// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster makes an immutable snapshot of Slurm and the nodes' proxyds in each tick.
//
//	slurmrestd ── jobs (incremental), nodes, each tick; partitions, QOS, reservations, now and then ──┐
//	proxyd ── checkpoints of all jobs, now and then; is this job protected? once for each run ────────┼─► Build ─► sdk.Snapshot
//	the caller's BuildParameters: actions under way, parked jobs, requested sizes, GPU fractions ───────────────┘
//
// There is no request for each job and tick. Build is arithmetic, without a clock or I/O; texts of Slurm that make no
// sense are left out rather than passed on.
package cluster
