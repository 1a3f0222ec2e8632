// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build amd64

package ptx

import (
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/simd"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// TestSimd: the processor's vector instructions and the Go loops give the same bits.
func TestSimd(t *testing.T) {
	if !simd.Available {
		t.Skip("needs AVX2 and FMA")
	}
	ops := []struct {
		op    string
		types []string
		rows  [][3]uint64
	}{
		{"fma.rn.f32 d, a, b, c;", []string{"f32", "f32", "f32", "f32"}, floatOperands(types.F32, 1, 3000)},
		{"add.f32 d, a, b;", []string{"f32", "f32", "f32"}, floatOperands(types.F32, 2, 500)},
		{"sub.f32 d, a, b;", []string{"f32", "f32", "f32"}, floatOperands(types.F32, 3, 500)},
		{"mul.f32 d, a, b;", []string{"f32", "f32", "f32"}, floatOperands(types.F32, 4, 500)},
		{"add.u32 d, a, b;", []string{"u32", "u32", "u32"}, operandRows(5, 100)},
		{"mul.lo.u32 d, a, b;", []string{"u32", "u32", "u32"}, operandRows(6, 100)},
		{"and.b32 d, a, b;", []string{"b32", "b32", "b32"}, operandRows(7, 100)},
		{"add.u64 d, a, b;", []string{"u64", "u64", "u64"}, operandRows(8, 100)},
		{"mul.wide.s32 d, a, b;", []string{"s64", "s32", "s32"}, operandRows(9, 100)},
		{"mul.wide.u32 d, a, b;", []string{"u64", "u32", "u32"}, operandRows(10, 100)},
	}
	for _, o := range ops {
		t.Run(o.op, func(t *testing.T) {
			fast := evaluate(t, o.op, o.types, o.rows)
			simd.Available = false
			defer func() { simd.Available = true }()
			slow := evaluate(t, o.op, o.types, o.rows)
			if !slices.Equal(fast, slow) {
				for i := range fast {
					if fast[i] != slow[i] {
						t.Fatalf("of %#x: vector instructions give %#x, the Go loop %#x", o.rows[i], fast[i], slow[i])
					}
				}
			}
		})
	}
}
