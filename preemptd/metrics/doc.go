// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics has preemptd's counters, for Prometheus. Its callers tell it of each event; by itself it looks only
// at the journal's size. Where Handler is served is the choice of preemptd's main.
//
// No label names a job, a user or a node: there are as many series on a cluster of ten thousand
// nodes as on a cluster of ten. Accounts are the only names that come from users; accounts beyond
// the largest MaxAccounts are left out, and counted.
package metrics
