// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package plan tries the intents of policies before any action. The package applies a list of intents to a snapshot,
// one after the other, each on the cluster as the intents before leave it, and rejects each that breaks an invariant,
// by name (invariant.go has them all). The remaining intents are safe to carry out, in their order.
//
// Plan is arithmetic: no clock, no I/O, no goroutine. The same snapshot and intents give the same
// plan.
package plan
