// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Textures for full warps, eight lanes at a time. Each does what package texture does for a lane, bit for bit;
// texture_test.go of package ptx compares them.

DATA numberless<>+0(SB)/4, $0x7fffffff
GLOBL numberless<>(SB), RODATA|NOPTR, $4
DATA half<>+0(SB)/8, $0.5
GLOBL half<>(SB), RODATA|NOPTR, $8
DATA one<>+0(SB)/8, $1.0
GLOBL one<>(SB), RODATA|NOPTR, $8
DATA steps<>+0(SB)/8, $256.0
GLOBL steps<>(SB), RODATA|NOPTR, $8
DATA step<>+0(SB)/8, $0.00390625
GLOBL step<>(SB), RODATA|NOPTR, $8
DATA most<>+0(SB)/8, $1099511627776.0
GLOBL most<>(SB), RODATA|NOPTR, $8
DATA least<>+0(SB)/8, $-1099511627776.0
GLOBL least<>(SB), RODATA|NOPTR, $8
DATA infinite<>+0(SB)/8, $0x7ff0000000000000
GLOBL infinite<>(SB), RODATA|NOPTR, $8

#define FLOOR $9

// func ScaleCoordinates(u *[32]float64, x *[32]float32, scale float64)
TEXT ·ScaleCoordinates(SB), NOSPLIT, $0-24
	MOVQ         u+0(FP), DI
	MOVQ         x+8(FP), SI
	VBROADCASTSD scale+16(FP), Z16
	MOVQ         $4, CX

scale:
	VCVTPS2PD  (SI), Z0
	VCMPPD     $7, Z0, Z0, K1     // is a number
	VMULPD.Z   Z16, Z0, K1, Z0
	VMOVUPD    Z0, (DI)
	ADDQ       $32, SI
	ADDQ       $64, DI
	DECQ       CX
	JNZ        scale
	VZEROUPPER
	RET

// func MirrorCoordinates(u *[32]float64, x *[32]float32, scale float64)
TEXT ·MirrorCoordinates(SB), NOSPLIT, $0-24
	MOVQ         u+0(FP), DI
	MOVQ         x+8(FP), SI
	VBROADCASTSD scale+16(FP), Z16
	VBROADCASTSD half<>(SB), Z17
	VBROADCASTSD one<>(SB), Z18
	VBROADCASTSD infinite<>(SB), Z19
	MOVQ         $4, CX

mirror:
	VCVTPS2PD   (SI), Z0
	VPANDQ      Z19, Z0, Z1
	VPCMPQ      $4, Z19, Z1, K1      // is finite
	VRNDSCALEPD FLOOR, Z0, Z1
	VSUBPD      Z1, Z0, Z2           // frac(x)
	VMULPD      Z17, Z1, Z3
	VRNDSCALEPD FLOOR, Z3, Z4
	VCMPPD      $4, Z4, Z3, K2       // floor(x) is odd
	VSUBPD      Z2, Z18, K2, Z2
	VMULPD.Z    Z16, Z2, K1, Z2
	VMOVUPD     Z2, (DI)
	ADDQ        $32, SI
	ADDQ        $64, DI
	DECQ        CX
	JNZ         mirror
	VZEROUPPER
	RET

// POINT makes Z the number of the texel at the coordinates at SRC, up to the one in LAST.
#define POINT(SRC, LAST, Z) \
	VMOVUPD    SRC, Z        \
	VMAXPD     Z20, Z, Z     \
	VCVTQQ2PD  LAST, Z6      \
	VMINPD     Z6, Z, Z      \
	VCVTTPD2QQ Z, Z

// func FindTexels(offsets *[32]uint64, x, y *[32]float64, p *Plane)
TEXT ·FindTexels(SB), NOSPLIT, $0-32
	MOVQ         offsets+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         y+16(FP), DX
	MOVQ         p+24(FP), AX
	VPBROADCASTQ 8(AX), Z16  // pitch
	VPBROADCASTQ 16(AX), Z17 // the last x
	VPBROADCASTQ 24(AX), Z18 // the last y
	VPBROADCASTQ 32(AX), Z19 // bytes of a texel
	VPXORQ       Z20, Z20, Z20
	MOVQ         $4, CX

find:
	POINT((SI), Z17, Z0)
	POINT((DX), Z18, Z1)
	VPMULLQ    Z19, Z0, Z0
	VPMULLQ    Z16, Z1, Z1
	VPADDQ     Z1, Z0, Z0
	VMOVDQU64  Z0, (DI)
	ADDQ       $64, SI
	ADDQ       $64, DX
	ADDQ       $64, DI
	DECQ       CX
	JNZ        find
	VZEROUPPER
	RET

// PAIR makes LOW and HIGH the numbers of the two texels at the coordinates at SRC, up to the one in LAST, W the weight of
// HIGH, and V that of LOW.
#define PAIR(SRC, LAST, LOW, HIGH, W, V) \
	VMOVUPD     SRC, W         \
	VSUBPD      Z19, W, W      \
	VMINPD      Z23, W, W      \
	VMAXPD      Z24, W, W      \
	VRNDSCALEPD FLOOR, W, V    \
	VSUBPD      V, W, W        \
	VMULPD      Z21, W, W      \
	VADDPD      Z19, W, W      \
	VRNDSCALEPD FLOOR, W, W    \
	VMULPD      Z22, W, W      \
	VCVTTPD2QQ  V, LOW         \
	VPSUBQ      Z26, LOW, HIGH \
	VPMINSQ     LAST, LOW, LOW \
	VPMAXSQ     Z25, LOW, LOW  \
	VPMINSQ     LAST, HIGH, HIGH \
	VPMAXSQ     Z25, HIGH, HIGH \
	VSUBPD      W, Z20, V

// ADDROW adds to Z12 the two texels of a row that ROW is the offset of, the lower of which is in the pair at COL. V and W are
// their weights, of the row's H. K3 and K4 are the lanes in which the lower and the higher texel is the second of the
// pair. What has no weight is left out: it may be infinite.
#define ADDROW(ROW, COL, V, W, H) \
	VPADDQ     COL, ROW, Z13           \
	KXNORW     K0, K0, K2              \
	VPXORQ     Z14, Z14, Z14           \
	VPGATHERQQ (R8)(Z13*1), K2, Z14    \
	VPSRLQ     $32, Z14, Z15           \
	VMOVDQA64  Z14, Z13                \
	VMOVDQA64  Z15, K3, Z13            \
	VMOVDQA64  Z15, K4, Z14            \
	VPMOVQD    Z13, Y13                \
	VPMOVQD    Z14, Y14                \
	VCVTPS2PD  Y13, Z13                \
	VCVTPS2PD  Y14, Z14                \
	VMULPD     H, V, Z15               \
	VCMPPD     $4, Z25, Z15, K1        \
	VMULPD     Z13, Z15, Z15           \
	VADDPD     Z15, Z12, K1, Z12       \
	VMULPD     H, W, Z15               \
	VCMPPD     $4, Z25, Z15, K1        \
	VMULPD     Z14, Z15, Z15           \
	VADDPD     Z15, Z12, K1, Z12

// func WeighTexels(sums *[32]float32, x, y *[32]float64, p *Plane)
TEXT ·WeighTexels(SB), NOSPLIT, $0-32
	MOVQ         sums+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         y+16(FP), DX
	MOVQ         p+24(FP), AX
	MOVQ         (AX), R8
	VPBROADCASTQ 8(AX), Z16  // pitch
	VPBROADCASTQ 16(AX), Z17 // the last x
	VPBROADCASTQ 24(AX), Z18 // the last y
	VBROADCASTSD half<>(SB), Z19
	VBROADCASTSD one<>(SB), Z20
	VBROADCASTSD steps<>(SB), Z21
	VBROADCASTSD step<>(SB), Z22
	VBROADCASTSD most<>(SB), Z23
	VBROADCASTSD least<>(SB), Z24
	VPXORQ       Z25, Z25, Z25
	VPTERNLOGD   $0xff, Z26, Z26, Z26 // -1
	VBROADCASTSS numberless<>(SB), Y27
	MOVQ         $4, CX

weigh:
	PAIR((SI), Z17, Z0, Z1, Z2, Z3)
	PAIR((DX), Z18, Z4, Z5, Z6, Z7)
	VPADDQ     Z26, Z17, Z8
	VPMINSQ    Z8, Z0, Z8  // the first of the pair
	VPCMPQ     $4, Z8, Z0, K3
	VPCMPQ     $4, Z8, Z1, K4
	VPSLLQ     $2, Z8, Z8
	VPMULLQ    Z16, Z4, Z4
	VPMULLQ    Z16, Z5, Z5
	VPXORQ     Z12, Z12, Z12
	ADDROW(Z4, Z8, Z3, Z2, Z7)
	ADDROW(Z5, Z8, Z3, Z2, Z6)
	VCVTPD2PS  Z12, Y12
	VCMPPS     $3, Y12, Y12, K1 // is no number
	VBLENDMPS  Y27, Y12, K1, Y12
	VMOVUPS    Y12, (DI)
	ADDQ       $64, SI
	ADDQ       $64, DX
	ADDQ       $32, DI
	DECQ       CX
	JNZ        weigh
	VZEROUPPER
	RET
