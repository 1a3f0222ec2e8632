// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package nvml answers NVML's calls: devices as the program sees them, with the memory that the program may use.
package nvml
