// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build amd64

package ptx

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/panel"
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

// TestProducts: products of matrices from panels, in the processor's vector instructions, and element by element, have the
// same bits, whatever bits the registers have.
func TestProducts(t *testing.T) {
	if !panel.Available {
		t.Skip("needs AVX2 and FMA")
	}
	for _, o := range []struct {
		instruction string
		a, b, c     int // registers
		bits        int // of an element
	}{
		{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4, 16},
		{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4, 16},
		{"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4, 16},
		{"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 4, 16},
		{"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1, 4, 32},
		{"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4, 32},
		{"mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32", 1, 1, 2, 8},
		{"mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32", 4, 2, 4, 8},
		{"mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.u4.s32", 1, 1, 2, 4},
		{"mma.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32", 4, 2, 4, 4},
		{"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", 8, 8, 8, 16},
		{"wmma.mma.sync.aligned.row.col.m32n8k16.f32.f32", 8, 8, 8, 16},
		{"wmma.mma.sync.aligned.row.col.m8n32k16.f32.f32", 8, 8, 8, 16},
		{"wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32", 4, 4, 8, 16},
		{"wmma.mma.sync.aligned.row.col.m32n8k16.f32.bf16.bf16.f32", 8, 2, 8, 16},
		{"wmma.mma.sync.aligned.row.col.m8n32k16.f32.bf16.bf16.f32", 2, 8, 8, 16},
		{"wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", 4, 4, 8, 32},
		{"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32", 2, 2, 8, 8},
		{"wmma.mma.sync.aligned.row.col.m32n8k16.s32.u8.u8.s32.satfinite", 4, 1, 8, 8},
		{"wmma.mma.sync.aligned.row.col.m8n32k16.s32.s8.s8.s32", 1, 4, 8, 8},
	} {
		t.Run(o.instruction, func(t *testing.T) {
			r := rand.New(rand.NewPCG(8, 9))
			for round := range 40 {
				matrix := func(registers, bits int) [][32]uint64 {
					out := make([][32]uint64, registers)
					for i := range out {
						for lane := range out[i] {
							for e := 0; e < 32; e += bits {
								out[i][lane] |= randomElement(r, bits, round) << e
							}
						}
					}
					return out
				}
				a, b, c := matrix(o.a, o.bits), matrix(o.b, o.bits), matrix(o.c, 32)
				fast := runProduct(t, o.instruction, "b32", a, b, c)
				panel.Available = false
				slow := runProduct(t, o.instruction, "b32", a, b, c)
				panel.Available = true
				if !slices.Equal(fast, slow) {
					t.Fatalf("round %d: from panels %#x\nelement by element %#x", round, fast, slow)
				}
			}
		})
	}
}

// randomElement returns an element of so many bits: any, or in other rounds a moderate floating-point number, so that sums
// are rounded and do not all become infinite.
func randomElement(r *rand.Rand, bits, round int) uint64 {
	v := uint64(r.Uint32()) & sizeMaskBits(bits)
	switch {
	case round%4 == 0:
		return v
	case bits == 16: // from 2^-7 to 2^8 as f16; bf16 has fewer digits and a larger exponent
		return v&0x83ff | uint64(8+r.IntN(16))<<10
	case bits == 32:
		return v&0x807fffff | uint64(119+r.IntN(16))<<23
	}
	return v
}
