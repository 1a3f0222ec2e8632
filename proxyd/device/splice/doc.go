// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package splice decides which operations of the ranks that share a device run once for several of them, and which run for each
// rank. It has no bytes, clocks and goroutines. So tests can try every order in which ranks come to their operations.
//
//	results.go   the results of operations that have run are taken by ranks that ask for the same
//	contents.go  which of a rank's memory holds bytes of which the hash is known, until something may write there
//
// # What must always hold
//
// A rank's memory holds what it would hold if the rank had a device of its own and had carried out the same operations. What the
// rank prints, and whatever else an operation does beside writing to memory, happens for each rank. A result stays until each
// rank that takes it has copied it.
//
// model_test.go checks that for programs of some ranks, each with a memory of a few words: all orders of the ranks' steps for short
// programs, and random orders for long ones, in which parts are learned.
package splice
