// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

// v0042 nests a job's resources and says whether a controller responds as a boolean. v0042 is the
// newest version that 24.11 serves and the oldest that 26.05 serves.
type v0042 struct{ modernVersion }
