// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package amd64 encodes instructions of x86-64 processors: the vector instructions of AVX-512 over 512 bits, the
// instructions of their mask registers, and the few scalar instructions that hold them together. The package knows no
// PTX and runs no code: an Assembler collects bytes.
//
//	buffer.go   the Assembler, labels and jumps
//	scalar.go   instructions of general registers
//	mask.go     instructions of mask registers (VEX prefix)
//	vector.go   instructions of vector registers (EVEX prefix)
//	table.go    the vector instructions: opcodes, and how their displacement is scaled
//
// The package has only the instructions that package native needs. All jumps have displacements of 32 bits.
package amd64
