// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

// v0042 nests a job's resources and says whether a controller responds as a
// boolean. It is the newest that 24.11 and the oldest that 26.05 serves.
type v0042 struct{ modern }
