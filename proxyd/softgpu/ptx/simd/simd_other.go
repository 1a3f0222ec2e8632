// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package simd

// Available is false, and the functions are empty: the Go loops take their place.
const Available = false

// FmaF32 is in simd_amd64.s.
func FmaF32(_, _, _, _ *[32]float32) {}

// AddF32 is in simd_amd64.s.
func AddF32(_, _, _ *[32]float32) {}

// SubF32 is in simd_amd64.s.
func SubF32(_, _, _ *[32]float32) {}

// MulF32 is in simd_amd64.s.
func MulF32(_, _, _ *[32]float32) {}

// AddU32 is in simd_amd64.s.
func AddU32(_, _, _ *[32]uint32) {}

// MulLoU32 is in simd_amd64.s.
func MulLoU32(_, _, _ *[32]uint32) {}

// AndU32 is in simd_amd64.s.
func AndU32(_, _, _ *[32]uint32) {}

// AddU64 is in simd_amd64.s.
func AddU64(_, _, _ *[32]uint64) {}

// MulWideS32 is in simd_amd64.s.
func MulWideS32(_ *[32]uint64, _, _ *[32]uint32) {}

// MulWideU32 is in simd_amd64.s.
func MulWideU32(_ *[32]uint64, _, _ *[32]uint32) {}

// Textures is false, and the functions of texture_amd64.s are empty.
const Textures = false

// ScaleCoordinates is in texture_amd64.s.
func ScaleCoordinates(_ *[32]float64, _ *[32]float32, _ float64) {}

// MirrorCoordinates is in texture_amd64.s.
func MirrorCoordinates(_ *[32]float64, _ *[32]float32, _ float64) {}

// FindTexels is in texture_amd64.s.
func FindTexels(_ *[32]uint64, _, _ *[32]float64, _ *Plane) {}

// WeighTexels is in texture_amd64.s.
func WeighTexels(_ *[32]float32, _, _ *[32]float64, _ *Plane) {}
