// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package memory has the memory that a kernel sees: the ranges that the user of package ptx maps, which ranges a launch has
// accessed, and the local memory of threads. The accesses themselves are in package ptx, where each instruction keeps the
// Range of its last access.
package memory
