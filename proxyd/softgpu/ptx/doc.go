// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package ptx parses, checks and runs PTX, warp by warp. The package knows no CUDA: no driver
// handles, streams or contexts. Its user maps memory, places a program's globals and launches
// kernels; of our packages it imports only those below.
//
// The way of a kernel, top to bottom:
//
//	Parse       text → Module: syntax, scopes, signatures            package syntax
//	Link        Modules → Program: names resolved over modules       link.go
//	Place       globals get addresses, initial bytes are returned    link.go
//	Kernel      lowered to micro-operations, once, on first use      lower*.go
//	            then liveness and register assignment                flow.go assign.go
//	            then machine code, if possible, at the first launch  native_unsafe.go
//	Launch      blocks over cores, warps round robin in a block      launch.go block.go warp.go
//
// The packages below, in the order in which they can be read; each imports only those before:
//
//	types       the types, register classes and state spaces of PTX
//	float       floating-point arithmetic: formats, rounding
//	simd        lane loops of full warps in the vector instructions of the processor
//	printf      formats the text that a kernel prints, as C does
//	memory      the memory that a kernel sees: mapped ranges, and the local memory of threads
//	amd64       encodes instructions of the processor
//	native      compiles micro-operations to machine code
//	syntax      lexer, parser, and the tree that the parser makes of a text
//
// # Registers
//
// A virtual register of up to 32 bits is a [32]uint32, of 64 bits a [32]uint64, of a predicate a
// uint32 with a bit per lane. The three kinds live in files of their own, so that lanes of a warp
// which stand in different functions never share a byte. A micro-operation is a function with a
// struct of operands, which loops over the active lanes. Most micro-operations are generated from
// the table in gen/ (alu_*_gen.go).
//
// # Divergence
//
// A warp is a set of fragments: lanes with the same program counter. A branch that not all lanes take splits a
// fragment, and both parts meet again at the branch's post-dominator. If no other lane of the warp can run, because
// lanes wait at a barrier, or if a fragment spins on memory, the lanes that stand at such a meeting point go on without
// the rest: progress is independent, as from sm_70 on.
//
// # Machine code
//
// Pieces of a kernel run as machine code (package native) on processors with AVX-512, over the same registers. Machine
// code has arithmetic, loads, stores, copies, atomic operations on words, shuffles and votes of full warps, and
// branches, and leaves all else to the interpreter. Config.Interpret has all interpreted. The results of a launch do
// not depend on that, nor do the counts of instructions. A launch that counts lane-instructions is interpreted.
//
// # Determinism
//
// A launch's result does not depend on the number of cores. Kernels that could see the order of blocks (atomics with a
// result, floating-point reductions, volatile and synchronising accesses to global memory, printf, malloc) run their
// blocks in ascending order on a single core, and more of them in turn only while all running blocks spin; all other
// kernels use all cores. Within a block warps run in ascending order, a fixed number of instructions at a time. Clocks
// count a warp's executed instructions. A program with blocks that race with plain loads and stores is the only
// exception.
//
// # Arithmetic
//
// Every operation with a rounding mode is exact, then rounded once (package float). NaN results of f32
// are 0x7fffffff, of f16 and bf16 0x7fff. The .approx forms (and div.full) give the
// correctly rounded result as far as float64 arithmetic followed by a single rounding does. Full
// warps use AVX2 and FMA where the processor has them (package simd): the same bits. mma
// accumulates in ascending k, a fused multiply-add rounded to the accumulator's type for each
// element.
//
// # Errors
//
// *SyntaxError and *RefusedError come from Parse, Link and Kernel, *LaunchError before a block runs, *Fault from a
// kernel that ran.
package ptx
