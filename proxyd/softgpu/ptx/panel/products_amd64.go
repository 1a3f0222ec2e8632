// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package panel

import "golang.org/x/sys/cpu"

// Available says that this processor has the instructions of products_amd64.s. Available is a variable so that tests can
// compare with products element by element.
var Available = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// addProductsF32 adds to sums, 8 rows of 8 elements of f32 with the first of a row stride elements behind the first of
// the row before, the product of a and b: element i of each k of a, times element j of the same k of b, is added to
// element j of row i, k by k, each time rounded once. a and b have 8 elements for each k.
//
//go:noescape
func addProductsF32(sums *uint32, stride int, a, b *uint32, k int)

// addProductsS32 is addProductsF32 for elements of s32. Sums wrap around.
//
//go:noescape
func addProductsS32(sums *uint32, stride int, a, b *uint32, k int)
