// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package splice decides what the ranks that share a device compute once for all of them, and what each of them has to compute for
// itself. It is a state machine without bytes, clocks and goroutines: what ranks ask for goes in through Step, what is to be carried
// out comes out as Effects, in order. So every interleaving can be tried, and the tests do. No device server uses it yet.
//
//	op.go     what a rank asks for; events and effects
//	group.go  the ranks of a device, what each has asked for, and Step
//	block.go  the blocks of memory, and for which ranks each is common memory
//
// # What is common
//
// The ranks of a group have the same addresses. For each block of memory and each rank that has it, the rank's view of the block is either
// the group's common memory or memory of the rank's own. Common memory is read by all and written only by what is
// carried out once for all. A rank that is about to write gets memory of its own first (Unshare).
//
// # When something is carried out once
//
// An operation runs once if and only if each rank of the group has it as its next one, with an equal record and equal operands, and all that it
// can read is common memory of all ranks. What it writes is, or becomes, common memory. It is known that all ranks have asked for it before it
// runs: nothing has to be undone, and nothing is guessed. A rank whose next operation may run once waits for the others (Park) until its time is over
// (TimeOut), or another rank's next operation is a different one; then it runs the operation on memory of its own.
//
// # What must always hold
//
// L(r, b) is what block b would hold for rank r if r had a device of its own and had carried out what it has carried out here.
//
//	view       r's view of a block that it has holds L(r, b)
//	order      each rank's operations are carried out once each, in the rank's order
//	common     no operation of one rank alone writes to common memory
//	visible    what a program reads it reads when all that it has asked for before was carried out
//	end        a rank waits for others only until its time is over, but for a collective, which waits in any case
package splice
