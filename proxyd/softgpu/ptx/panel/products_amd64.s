// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Sums are in Y0 to Y7, a row in each. Y9 has the elements of b for a k.

// PRODUCTS loads the sums, and the places of what is multiplied.
#define PRODUCTS \
	MOVQ    sums+0(FP), DI      \
	MOVQ    stride+8(FP), DX    \
	MOVQ    a+16(FP), SI        \
	MOVQ    b+24(FP), BX        \
	MOVQ    k+32(FP), CX        \
	SHLQ    $2, DX              \
	LEAQ    (DX)(DX*2), R8      \
	LEAQ    (DI)(DX*4), R9      \
	VMOVUPS (DI), Y0            \
	VMOVUPS (DI)(DX*1), Y1      \
	VMOVUPS (DI)(DX*2), Y2      \
	VMOVUPS (DI)(R8*1), Y3      \
	VMOVUPS (R9), Y4            \
	VMOVUPS (R9)(DX*1), Y5      \
	VMOVUPS (R9)(DX*2), Y6      \
	VMOVUPS (R9)(R8*1), Y7

// STORE stores the sums.
#define STORE \
	VMOVUPS Y0, (DI)       \
	VMOVUPS Y1, (DI)(DX*1) \
	VMOVUPS Y2, (DI)(DX*2) \
	VMOVUPS Y3, (DI)(R8*1) \
	VMOVUPS Y4, (R9)       \
	VMOVUPS Y5, (R9)(DX*1) \
	VMOVUPS Y6, (R9)(DX*2) \
	VMOVUPS Y7, (R9)(R8*1) \
	VZEROUPPER             \
	RET

// F32 and S32 add to a row of sums.
#define F32(row, sums, T) \
	VBROADCASTSS (row*4)(SI), T \
	VFMADD231PS  Y9, T, sums

#define S32(row, sums, T) \
	VPBROADCASTD (row*4)(SI), T \
	VPMULLD      Y9, T, T       \
	VPADDD       T, sums, sums

#define EACH_ROW(ADD) \
	VMOVUPS (BX), Y9 \
	ADD(0, Y0, Y10)  \
	ADD(1, Y1, Y11)  \
	ADD(2, Y2, Y12)  \
	ADD(3, Y3, Y13)  \
	ADD(4, Y4, Y10)  \
	ADD(5, Y5, Y11)  \
	ADD(6, Y6, Y12)  \
	ADD(7, Y7, Y13)  \
	ADDQ $32, SI     \
	ADDQ $32, BX     \
	DECQ CX

DATA quiet<>+0(SB)/4, $0x7fffffff
GLOBL quiet<>(SB), RODATA|NOPTR, $4

// CANON makes any NaN of a row of sums the canonical one, which is in Y15.
#define CANON(sums) \
	VCMPPS    $3, sums, sums, Y8 \
	VBLENDVPS Y8, Y15, sums, sums

// func addProductsF32(sums *uint32, stride int, a, b *uint32, k int)
TEXT ·addProductsF32(SB), NOSPLIT, $0-40
	PRODUCTS

next:
	EACH_ROW(F32)
	JNZ          next
	VBROADCASTSS quiet<>(SB), Y15
	CANON(Y0)
	CANON(Y1)
	CANON(Y2)
	CANON(Y3)
	CANON(Y4)
	CANON(Y5)
	CANON(Y6)
	CANON(Y7)
	STORE

// func addProductsS32(sums *uint32, stride int, a, b *uint32, k int)
TEXT ·addProductsS32(SB), NOSPLIT, $0-40
	PRODUCTS

next:
	EACH_ROW(S32)
	JNZ next
	STORE
