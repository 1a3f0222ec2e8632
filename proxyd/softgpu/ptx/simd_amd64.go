// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "golang.org/x/sys/cpu"

// hasSimd says that this processor has what simd_amd64.s uses. hasSimd is a variable so that tests
// can compare both ways.
var hasSimd = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// Results may be among the operands.

//go:noescape
func simdFmaF32(d, a, b, c *[warpSize]float32)

//go:noescape
func simdAddF32(d, a, b *[warpSize]float32)

//go:noescape
func simdSubF32(d, a, b *[warpSize]float32)

//go:noescape
func simdMulF32(d, a, b *[warpSize]float32)

//go:noescape
func simdAddU32(d, a, b *[warpSize]uint32)

//go:noescape
func simdMulLoU32(d, a, b *[warpSize]uint32)

//go:noescape
func simdAndU32(d, a, b *[warpSize]uint32)

//go:noescape
func simdAddU64(d, a, b *[warpSize]uint64)

//go:noescape
func simdMulWideS32(d *[warpSize]uint64, a, b *[warpSize]uint32)

//go:noescape
func simdMulWideU32(d *[warpSize]uint64, a, b *[warpSize]uint32)
