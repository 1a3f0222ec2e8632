// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package splice decides which operations of the ranks that share a device run once for several of them, and which run for each
// rank. It has no bytes, clocks and goroutines. So tests can try every order in which ranks come to their operations.
//
//	results.go   a rank takes the result of an operation that another rank has run with the same memory
//	contents.go  the pieces of a rank's memory that have bytes with a known hash, until an operation may write there
//
// # The rules
//
// A rank's memory holds the same bytes as if the rank had a device of its own and had carried out the same operations.
// An operation's effects beside writes to memory, such as printing, happen for each rank. A result stays until each
// rank that takes it has copied it.
//
// model_test.go checks these rules for programs of some ranks, each with a memory of a few words: all orders of the
// ranks' steps for short programs, and random orders for long ones, in which parts are learned.
package splice
