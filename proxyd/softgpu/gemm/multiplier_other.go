// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package gemm

// listMultipliers returns nil: this processor has no multiplier.
func listMultipliers() []*multiplier { return nil }
