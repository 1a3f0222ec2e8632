// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

// multiplier multiplies panels by instructions of the processor. All multipliers give the same bits.
//
// multiply adds to the sums of two panels the products of n k, in ascending order, by fused multiply-adds.
//
// finish makes n results of n sums, n being a multiple of 8: alpha*sum, then a fused multiply-add of beta*old if old is not nil,
// then the sum with bias if bias is not nil; and the NaN of software GPUs for any NaN.
type multiplier struct {
	name       string
	multiply32 func(n int, a, b, sums *float32)
	multiply64 func(n int, a, b, sums *float64)
	finish32   func(n int, result, sums, old, bias *float32, alpha, beta float32)
	finish64   func(n int, result, sums, old, bias *float64, alpha, beta float64)
}

var multipliers = listMultipliers()

// Available tells whether this processor has the instructions. If not, products are left to the PTX.
func Available() bool { return len(multipliers) > 0 }

// newestMultiplier is the multiplier with the widest vectors.
func newestMultiplier() *multiplier { return multipliers[len(multipliers)-1] }
