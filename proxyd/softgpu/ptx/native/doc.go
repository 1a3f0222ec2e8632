// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package native compiles the micro-operations of package ptx to machine code: AVX-512, over the 32 lanes of a warp. The
// code works on the same registers in memory as the interpreter, gives the same bits, and counts the same instructions;
// the interpreter stays, as reference and for all that is not compiled.
//
// In the order in which it can be read:
//
//	inst.go           the input: Inst, which package ptx makes
//	code.go           Code: Compile, Run, Resume
//	state_unsafe.go   State, on which code works
//	emit.go           blocks, entries, exits
//	flow.go           entry and exit, branches, meeting points, flags
//	liveness.go       which registers are read after a block
//	cache.go          which registers are kept in vector registers
//	split.go          branches at which lanes part, and where they meet
//	operation.go      the table of operations; ops_*.go fill it
//	memory_unsafe.go  loads and stores: the check that all lanes' elements lie within memory
//	contiguous.go     accesses of full warps to elements that follow each other
//	windows.go        loads of shared memory by a register and several offsets
//	load.go store.go  routines that load and store for 16 lanes
//	atomic.go         atomic operations, lane by lane
//	copy.go           copies from global to shared memory
//	tables.go         vectors of constants
//	text_unsafe.go    executable memory
//	call_amd64.s      from Go into the code
//
// # Compiled and interpreted instructions
//
// Code is entered at an instruction, with the lanes of a fragment, and runs until the first instruction that it does
// not have: an operation that is not in the table, a barrier, a call, an exit, a branch where lanes part that do not
// meet again, a meeting point of lanes that parted before the code was entered, an access that does not lie wholly
// within the memory that its site has used before, a backward branch when the turn is over. The code returns the number
// of that instruction, with all registers in memory, and the interpreter goes on exactly there; after that instruction
// code may be entered again. So faults, the note of the memory that a launch touches, the turns of warps, pauses and
// the end of a launch stay in package ptx.
//
// A function is compiled twice: for warps in which all 32 lanes run, and for the rest. Each register that the latter
// code writes keeps its old value in the lanes that do not run. So do guarded instructions in both. Shuffles and votes
// are in the former alone: there no lane has to be waited for.
//
// # Registers
//
// A Word fills two vector registers, a Long four. V0 to V9 are temporary, V30 and V31 constants, and V10 to V29 are
// slots: they keep registers that a block has read or written. A slot that is newer than memory is written back when it
// is needed for a value that is used earlier, before an instruction of the interpreter, and at the block's end, unless
// no instruction reads it any more. At an exit in the middle of a block the slots are saved, and Go writes them to
// their registers.
//
// A NaN of f32 is 0x7fffffff wherever it can be seen. A result may be another NaN if only arithmetic of f32 in the same
// block reads it: such arithmetic gives the same result for each NaN.
//
// # Go
//
// To Go's scheduler the code is a function that cannot be preempted: without a stack map, so a signal finds no safe
// point. The code is left at the latest after the number of backward branches that its caller allows; a piece without a
// branch is as long as a kernel's text. The code takes no stack but for the return addresses of its own routines,
// leaves R14 and RBP alone, and calls no other function. Memory for code is written first, made executable then, and
// never both.
//
// # Memory
//
// An access knows the range that it used last (memory.Range, or the block's shared or the threads' local memory).
// Machine code turns all lanes' addresses into numbers of elements, in which an address that is not aligned becomes too
// large, and compares the largest with the size of the range: a single comparison for all lanes. Only then elements are
// accessed, 16 lanes at a time: all at once if they follow each other or are the same, else by a gather or a scatter.
// Before that, a full warp's access checks whether the addresses themselves follow each other, or are the same.
//
// Loads of shared memory by the same register, with several offsets, look at the addresses once, for all of them.
//
// # Lanes that part
//
// Lanes that part at a branch and meet again stay in the code: State.Splits is a stack with the interpreter's fragments
// and joins, in its order. At an exit Go makes fragments and joins of the stack's entries.
package native
