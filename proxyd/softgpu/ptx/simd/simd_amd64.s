// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Lane loops of full warps, eight lanes at a time. Each does what the Go loop of the same
// operation in package ptx does, bit for bit; simd_test.go of that package compares them.

DATA nan<>+0(SB)/4, $0x7fffffff
GLOBL nan<>(SB), RODATA|NOPTR, $4

// CANON stores Y1 with the canonical NaN for any NaN.
#define CANON(off) \
	VCMPPS    $3, Y1, Y1, Y2      \
	VBLENDVPS Y2, Y15, Y1, Y1     \
	VMOVUPS   Y1, off(DI)

#define FMA(off) \
	VMOVUPS     off(SI), Y0         \
	VMOVUPS     off(CX), Y1         \
	VFMADD231PS off(DX), Y0, Y1     \
	CANON(off)

#define FLOAT(OP, off) \
	VMOVUPS off(SI), Y0     \
	OP      off(DX), Y0, Y1 \
	CANON(off)

#define WORD(OP, off) \
	VMOVDQU off(SI), Y0     \
	OP      off(DX), Y0, Y1 \
	VMOVDQU Y1, off(DI)

#define ARGS \
	MOVQ d+0(FP), DI \
	MOVQ a+8(FP), SI \
	MOVQ b+16(FP), DX

// func FmaF32(d, a, b, c *[32]float32)
TEXT ·FmaF32(SB), NOSPLIT, $0-32
	ARGS
	MOVQ         c+24(FP), CX
	VBROADCASTSS nan<>(SB), Y15
	FMA(0)
	FMA(32)
	FMA(64)
	FMA(96)
	VZEROUPPER
	RET

// func AddF32(d, a, b *[32]float32)
TEXT ·AddF32(SB), NOSPLIT, $0-24
	ARGS
	VBROADCASTSS nan<>(SB), Y15
	FLOAT(VADDPS, 0)
	FLOAT(VADDPS, 32)
	FLOAT(VADDPS, 64)
	FLOAT(VADDPS, 96)
	VZEROUPPER
	RET

// func SubF32(d, a, b *[32]float32)
TEXT ·SubF32(SB), NOSPLIT, $0-24
	ARGS
	VBROADCASTSS nan<>(SB), Y15
	FLOAT(VSUBPS, 0)
	FLOAT(VSUBPS, 32)
	FLOAT(VSUBPS, 64)
	FLOAT(VSUBPS, 96)
	VZEROUPPER
	RET

// func MulF32(d, a, b *[32]float32)
TEXT ·MulF32(SB), NOSPLIT, $0-24
	ARGS
	VBROADCASTSS nan<>(SB), Y15
	FLOAT(VMULPS, 0)
	FLOAT(VMULPS, 32)
	FLOAT(VMULPS, 64)
	FLOAT(VMULPS, 96)
	VZEROUPPER
	RET

// func AddU32(d, a, b *[32]uint32)
TEXT ·AddU32(SB), NOSPLIT, $0-24
	ARGS
	WORD(VPADDD, 0)
	WORD(VPADDD, 32)
	WORD(VPADDD, 64)
	WORD(VPADDD, 96)
	VZEROUPPER
	RET

// func MulLoU32(d, a, b *[32]uint32)
TEXT ·MulLoU32(SB), NOSPLIT, $0-24
	ARGS
	WORD(VPMULLD, 0)
	WORD(VPMULLD, 32)
	WORD(VPMULLD, 64)
	WORD(VPMULLD, 96)
	VZEROUPPER
	RET

// func AndU32(d, a, b *[32]uint32)
TEXT ·AndU32(SB), NOSPLIT, $0-24
	ARGS
	WORD(VPAND, 0)
	WORD(VPAND, 32)
	WORD(VPAND, 64)
	WORD(VPAND, 96)
	VZEROUPPER
	RET

// func AddU64(d, a, b *[32]uint64)
TEXT ·AddU64(SB), NOSPLIT, $0-24
	ARGS
	WORD(VPADDQ, 0)
	WORD(VPADDQ, 32)
	WORD(VPADDQ, 64)
	WORD(VPADDQ, 96)
	WORD(VPADDQ, 128)
	WORD(VPADDQ, 160)
	WORD(VPADDQ, 192)
	WORD(VPADDQ, 224)
	VZEROUPPER
	RET

// func MulWideS32(d *[32]uint64, a, b *[32]uint32)
TEXT ·MulWideS32(SB), NOSPLIT, $0-24
	ARGS
	XORQ AX, AX

wide:
	VPMOVSXDQ (SI)(AX*1), Y0
	VPMOVSXDQ (DX)(AX*1), Y1
	VPMULDQ   Y1, Y0, Y2
	VMOVDQU   Y2, (DI)(AX*2)
	ADDQ      $16, AX
	CMPQ      AX, $128
	JB        wide
	VZEROUPPER
	RET

// func MulWideU32(d *[32]uint64, a, b *[32]uint32)
TEXT ·MulWideU32(SB), NOSPLIT, $0-24
	ARGS
	XORQ AX, AX

wide:
	VPMOVZXDQ (SI)(AX*1), Y0
	VPMOVZXDQ (DX)(AX*1), Y1
	VPMULUDQ  Y1, Y0, Y2
	VMOVDQU   Y2, (DI)(AX*2)
	ADDQ      $16, AX
	CMPQ      AX, $128
	JB        wide
	VZEROUPPER
	RET
