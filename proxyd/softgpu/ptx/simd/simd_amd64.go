// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package simd has lane loops for full warps of 32 lanes, in the vector instructions of the
// processor. Each gives the same bits as the loop in Go that takes its place where Available is
// false. Results may be among the operands. NaN results of f32 are 0x7fffffff.
package simd

import "golang.org/x/sys/cpu"

// Available says that this processor has the instructions of simd_amd64.s. Available is a variable so that tests can
// compare both ways.
var Available = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// FmaF32 is d = a*b + c, rounded once.
//
//go:noescape
func FmaF32(d, a, b, c *[32]float32)

// AddF32 is d = a + b.
//
//go:noescape
func AddF32(d, a, b *[32]float32)

// SubF32 is d = a - b.
//
//go:noescape
func SubF32(d, a, b *[32]float32)

// MulF32 is d = a * b.
//
//go:noescape
func MulF32(d, a, b *[32]float32)

// AddU32 is d = a + b.
//
//go:noescape
func AddU32(d, a, b *[32]uint32)

// MulLoU32 is the low half of a * b.
//
//go:noescape
func MulLoU32(d, a, b *[32]uint32)

// AndU32 is d = a & b.
//
//go:noescape
func AndU32(d, a, b *[32]uint32)

// AddU64 is d = a + b.
//
//go:noescape
func AddU64(d, a, b *[32]uint64)

// MulWideS32 is a * b, with sign, all 64 bits.
//
//go:noescape
func MulWideS32(d *[32]uint64, a, b *[32]uint32)

// MulWideU32 is a * b, without sign, all 64 bits.
//
//go:noescape
func MulWideU32(d *[32]uint64, a, b *[32]uint32)
