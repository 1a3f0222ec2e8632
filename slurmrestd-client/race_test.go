// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package slurmrest

// underRace: the race detector makes a gigabyte ten times as long.
const underRace = true
