// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package gpus says which GPUs the capsules of a job have in a run: the GPUs that Slurm has given to the job, and the
// GPUs that other jobs lend it. The package only computes: package checkpoint asks Slurm, and tells the device servers.
//
//	grant.go  the GPUs of a node, distributed over the capsules there
//	lease.go  the leases of a capsule, and the devices that stand for their GPUs
package gpus
