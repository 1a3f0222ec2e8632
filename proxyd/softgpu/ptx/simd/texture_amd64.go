// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simd

import "golang.org/x/sys/cpu"

// Textures says that this processor has the instructions of texture_amd64.s. Textures is a variable so that tests can
// compare both ways.
var Textures = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL

// ScaleCoordinates is u = scale*x, and u = 0 where x is no number.
//
//go:noescape
func ScaleCoordinates(u *[32]float64, x *[32]float32, scale float64)

// MirrorCoordinates is u = scale*frac(x) where floor(x) is even, else scale*(1-frac(x)), and 0 where x is no finite
// number.
//
//go:noescape
func MirrorCoordinates(u *[32]float64, x *[32]float32, scale float64)

// FindTexels are the offsets of the texels that have the coordinates, or are the nearest within the plane.
//
//go:noescape
func FindTexels(offsets *[32]uint64, x, y *[32]float64, p *Plane)

// WeighTexels are sums of the four texels around the coordinates, by their weights, in planes of 32-bit floating
// point; a sum that is no number is 0x7fffffff. There are at least two texels in a row.
//
//go:noescape
func WeighTexels(sums *[32]float32, x, y *[32]float64, p *Plane)
