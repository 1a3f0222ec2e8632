// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics is what preemptd counts, for Prometheus. It is told and looks at nothing
// by itself but the journal's size; who serves Handler, and where, is its main's choice.
//
// No label names a job, a user or a node: there are as many series on a cluster of ten
// thousand nodes as on one of ten. Accounts are the only names that come from users; those
// beyond the largest MaxAccounts are left out, and counted.
package metrics
