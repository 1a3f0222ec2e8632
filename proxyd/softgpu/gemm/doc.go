// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package gemm computes matrix products for software GPUs by vector instructions of the processor.
//
// The text gemm.ptx defines the products: two kernels in PTX, which any GPU could run. The shim launches them where a
// program calls cuBLAS, if the user has chosen products of this kind. Such a launch is like any launch: ordered in its
// stream, a node of a captured graph, saved while queued, stopped between blocks, spliced. The software GPU knows the
// text, and calls Run in the place of the kernel. Run leaves the same bits as the PTX: each element is the sum over
// ascending k by fused multiply-adds, so the result depends neither on the number of cores nor on the width of the
// processor's vectors. Launches that Run does not take (an operand in several ranges of memory, or in none) are left to
// the PTX, which also reports the faults.
//
// A block of the grid is a tile of 128 rows and 96 columns. Run copies the rows of op(A) and the columns of op(B) of a tile
// into panels of 128 bytes (or 12 columns) for each k, and multiplies panel by panel. The workers of a
// launch share the panels of op(B). Package gemm needs AVX2 with FMA.
package gemm
