// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

import "golang.org/x/sys/cpu"

// In multiplier_amd64.s. The functions of AVX2 multiply a quarter of the panels of multiplier.multiply: 64 bytes of the
// A panel for each k, and 6 columns.

//go:noescape
func multiplyAVX512F32(n int, a, b, sums *float32)

//go:noescape
func multiplyAVX512F64(n int, a, b, sums *float64)

//go:noescape
func multiplyAVX2F32(n int, a, b, sums *float32)

//go:noescape
func multiplyAVX2F64(n int, a, b, sums *float64)

//go:noescape
func finishAVX2F32(n int, result, sums, old, bias *float32, alpha, beta float32)

//go:noescape
func finishAVX2F64(n int, result, sums, old, bias *float64, alpha, beta float64)

// inQuarters multiplies panels by four calls.
func inQuarters[T element](multiply func(n int, a, b, sums *T)) func(n int, a, b, sums *T) {
	rows := panelBytes / sizeOf[T]()
	return func(n int, a, b, sums *T) {
		for column := 0; column < panelColumns; column += panelColumns / 2 {
			for row := 0; row < rows; row += rows / 2 {
				multiply(n, offset(a, row), offset(b, column), offset(sums, column*rows+row))
			}
		}
	}
}

// listMultipliers lists the multipliers of this processor, wider vectors last.
func listMultipliers() []*multiplier {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return nil
	}
	out := []*multiplier{{"AVX2", inQuarters(multiplyAVX2F32), inQuarters(multiplyAVX2F64), finishAVX2F32, finishAVX2F64}}
	if cpu.X86.HasAVX512F {
		out = append(out, &multiplier{"AVX-512", multiplyAVX512F32, multiplyAVX512F64, finishAVX2F32, finishAVX2F64})
	}
	return out
}
