// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package splice decides which operations of the ranks that share a device run once for all of them, and
// which run for each rank. It is a state machine without bytes, clocks and goroutines: the operations that
// ranks ask for go in through Step, and Effects come out, in the order in which they are to be carried out.
// So tests can try every interleaving.
//
//	op.go       operations, events and effects
//	group.go    the ranks of a device, their queues of operations, and Step
//	block.go    the blocks of memory, and for which ranks each is common memory
//	results.go  the other way, for the software GPU: the results of operations that have run are taken
//
// No device server uses Group yet. What follows is about Group.
//
// # What is common
//
// The ranks of a group have the same addresses. For each block of memory and each rank that has it, the
// rank's view of the block is either the group's common memory or memory of the rank's own. All ranks read
// the common memory, and only operations that run once write to it. A rank with an operation of its own that is about to
// write first gets memory of its own (Unshare).
//
// # When an operation runs once
//
// An operation runs once if and only if it is the next operation of each rank of the group, with an equal
// record and equal operands, and all memory that it can read is common to all ranks. The memory that it
// writes becomes common memory. All ranks have asked for the operation before it runs, so the group never
// guesses and never undoes work. A rank with a next operation that may run once waits for the other ranks (Park).
// The wait ends when its time is over (TimeOut) or when the next operation of another rank is different; then
// the rank runs the operation on memory of its own.
//
// # What must always hold
//
// L(r, b) is the content that block b would have for rank r if r had a device of its own and had carried out
// the same operations.
//
//	view       r's view of a block that it has holds L(r, b)
//	order      each rank's operations are carried out once each, in the rank's order
//	common     no operation of a single rank writes to common memory
//	visible    a read returns the bytes after all operations that the program asked for before the read
//	end        a rank waits for other ranks only until its time is over; only a collective waits without an end
package splice
