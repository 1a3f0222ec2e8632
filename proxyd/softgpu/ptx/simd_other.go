// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package ptx

// hasSimd is false: the Go loops do all.
const hasSimd = false

func simdFmaF32(_, _, _, _ *[warpSize]float32)                   {}
func simdAddF32(_, _, _ *[warpSize]float32)                      {}
func simdSubF32(_, _, _ *[warpSize]float32)                      {}
func simdMulF32(_, _, _ *[warpSize]float32)                      {}
func simdAddU32(_, _, _ *[warpSize]uint32)                       {}
func simdMulLoU32(_, _, _ *[warpSize]uint32)                     {}
func simdAndU32(_, _, _ *[warpSize]uint32)                       {}
func simdAddU64(_, _, _ *[warpSize]uint64)                       {}
func simdMulWideS32(_ *[warpSize]uint64, _, _ *[warpSize]uint32) {}
func simdMulWideU32(_ *[warpSize]uint64, _, _ *[warpSize]uint32) {}
