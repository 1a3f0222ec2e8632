// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package plan tries what policies want before anything is done. The package applies a list of
// intents to a snapshot, one after the other, each on what the intents before leave, and rejects
// each that breaks an invariant, by name (invariant.go has them all). What is left is safe to carry
// out, in its order.
//
// Plan is arithmetic: no clock, no I/O, no goroutine. The same snapshot and intents give the same
// plan.
package plan
