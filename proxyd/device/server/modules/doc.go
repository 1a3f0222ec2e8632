// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package modules carries out the calls about code: modules, libraries, kernels, the linker, and launches.
package modules
