// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// An A panel has 128 bytes for each k, a B panel 12 elements, and the sums 128 bytes for each of 12 columns.

DATA nan32<>+0(SB)/4, $0x7fffffff
GLOBL nan32<>(SB), RODATA|NOPTR, $4
DATA nan64<>+0(SB)/8, $0x7ff8000000000000
GLOBL nan64<>(SB), RODATA|NOPTR, $8

#define MULTIPLY_ARGS \
	MOVQ n+0(FP), CX   \
	MOVQ a+8(FP), SI   \
	MOVQ b+16(FP), DI  \
	MOVQ sums+24(FP), DX

// Column by column: 128 bytes of sums in two registers of 64 bytes.
#define EACH_OF_12(OP) \
	OP(0, 64, 0, Z8, Z9, Z2) \
	OP(128, 192, 1, Z10, Z11, Z3) \
	OP(256, 320, 2, Z12, Z13, Z4) \
	OP(384, 448, 3, Z14, Z15, Z5) \
	OP(512, 576, 4, Z16, Z17, Z6) \
	OP(640, 704, 5, Z18, Z19, Z7) \
	OP(768, 832, 6, Z20, Z21, Z2) \
	OP(896, 960, 7, Z22, Z23, Z3) \
	OP(1024, 1088, 8, Z24, Z25, Z4) \
	OP(1152, 1216, 9, Z26, Z27, Z5) \
	OP(1280, 1344, 10, Z28, Z29, Z6) \
	OP(1408, 1472, 11, Z30, Z31, Z7)

#define LOAD(low, high, column, X, Y, T) \
	VMOVUPS low(DX), X  \
	VMOVUPS high(DX), Y

#define STORE(low, high, column, X, Y, T) \
	VMOVUPS X, low(DX)  \
	VMOVUPS Y, high(DX)

#define ADD512F32(low, high, column, X, Y, T) \
	VBROADCASTSS (column*4)(DI), T \
	VFMADD231PS Z0, T, X \
	VFMADD231PS Z1, T, Y

#define ADD512F64(low, high, column, X, Y, T) \
	VBROADCASTSD (column*8)(DI), T \
	VFMADD231PD Z0, T, X \
	VFMADD231PD Z1, T, Y

// The first column of 6 is in Y4 and Y5. Of the sums of a column, 64 bytes are here.
#define EACH_OF_6(OP) \
	OP(0, 32, 0, Y4, Y5, Y2) \
	OP(128, 160, 1, Y6, Y7, Y3) \
	OP(256, 288, 2, Y8, Y9, Y2) \
	OP(384, 416, 3, Y10, Y11, Y3) \
	OP(512, 544, 4, Y12, Y13, Y2) \
	OP(640, 672, 5, Y14, Y15, Y3)

#define ADD256F32(low, high, column, X, Y, T) \
	VBROADCASTSS (column*4)(DI), T \
	VFMADD231PS Y0, T, X \
	VFMADD231PS Y1, T, Y

#define ADD256F64(low, high, column, X, Y, T) \
	VBROADCASTSD (column*8)(DI), T \
	VFMADD231PD Y0, T, X \
	VFMADD231PD Y1, T, Y

// MULTIPLY is a function that adds n products to the sums. A k of the A panel is in two registers, P and Q, of half bytes
// each; a k of the B panel is of step bytes.
#define MULTIPLY(EACH, ADD, half, step, P, Q) \
	MULTIPLY_ARGS         \
	EACH(LOAD)            \
	TESTQ CX, CX          \
	JZ    done            \
next:                     \
	VMOVUPS (SI), P       \
	VMOVUPS half(SI), Q   \
	EACH(ADD)             \
	ADDQ $128, SI         \
	ADDQ $step, DI        \
	DECQ CX               \
	JNZ  next             \
done:                     \
	EACH(STORE)           \
	VZEROUPPER            \
	RET

// FINISH is a function that makes a column of D, of n elements, from sums, C (old) and bias, which may be none (0). A register
// has per elements. A NaN is the one that the PTX has.
#define FINISH(per, MUL, FMA, ADD, MOVE, COMPARE, BLEND) \
	MOVQ n+0(FP), CX       \
	MOVQ result+8(FP), DI  \
	MOVQ sums+16(FP), SI   \
	MOVQ old+24(FP), DX    \
	MOVQ bias+32(FP), BX   \
	XORQ AX, AX            \
next:                      \
	MUL   (SI)(AX*1), Y8, Y0 \
	TESTQ DX, DX           \
	JZ    added            \
	MOVE  (DX)(AX*1), Y1   \
	FMA   Y1, Y9, Y0       \
added:                     \
	TESTQ BX, BX           \
	JZ    biased           \
	ADD   (BX)(AX*1), Y0, Y0 \
biased:                    \
	COMPARE $3, Y0, Y0, Y2 \
	BLEND Y2, Y10, Y0, Y0  \
	MOVE  Y0, (DI)(AX*1)   \
	ADDQ  $32, AX          \
	SUBQ  $per, CX         \
	JNZ   next             \
	VZEROUPPER             \
	RET

// func multiplyAVX512F32(n int, a, b, sums *float32)
TEXT ·multiplyAVX512F32(SB), NOSPLIT, $0-32
	MULTIPLY(EACH_OF_12, ADD512F32, 64, 48, Z0, Z1)

// func multiplyAVX512F64(n int, a, b, sums *float64)
TEXT ·multiplyAVX512F64(SB), NOSPLIT, $0-32
	MULTIPLY(EACH_OF_12, ADD512F64, 64, 96, Z0, Z1)

// func multiplyAVX2F32(n int, a, b, sums *float32)
TEXT ·multiplyAVX2F32(SB), NOSPLIT, $0-32
	MULTIPLY(EACH_OF_6, ADD256F32, 32, 48, Y0, Y1)

// func multiplyAVX2F64(n int, a, b, sums *float64)
TEXT ·multiplyAVX2F64(SB), NOSPLIT, $0-32
	MULTIPLY(EACH_OF_6, ADD256F64, 32, 96, Y0, Y1)

// func finishAVX2F32(n int, result, sums, old, bias *float32, alpha, beta float32)
TEXT ·finishAVX2F32(SB), NOSPLIT, $0-48
	VBROADCASTSS alpha+40(FP), Y8
	VBROADCASTSS beta+44(FP), Y9
	VBROADCASTSS nan32<>(SB), Y10
	FINISH(8, VMULPS, VFMADD231PS, VADDPS, VMOVUPS, VCMPPS, VBLENDVPS)

// func finishAVX2F64(n int, result, sums, old, bias *float64, alpha, beta float64)
TEXT ·finishAVX2F64(SB), NOSPLIT, $0-56
	VBROADCASTSD alpha+40(FP), Y8
	VBROADCASTSD beta+48(FP), Y9
	VBROADCASTSD nan64<>(SB), Y10
	FINISH(4, VMULPD, VFMADD231PD, VADDPD, VMOVUPD, VCMPPD, VBLENDVPD)
