// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package slurmrest

// underRace: with the race detector, a test of a gigabyte takes ten times as long.
const underRace = true
