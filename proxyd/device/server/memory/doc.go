// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package memory carries out the calls about memory: allocations, addresses and physical memory, pools, memory that the
// program has pinned, copies and fills.
package memory
