// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package gemm

// listMultipliers lists what multiplies on this processor: nothing.
func listMultipliers() []*multiplier { return nil }
