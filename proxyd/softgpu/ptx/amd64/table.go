// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package amd64

// The opcode maps.
const (
	map0F   = 1
	map0F38 = 2
	map0F3A = 3
)

// The prefixes.
const (
	none = 0
	p66  = 1
	pF3  = 2
	pF2  = 3
)

// The vector instructions, by the names that Intel gives them.
var (
	VMOVDQU32 = Op{map0F, pF3, false, 0x6f, 0, 64}
	VMOVDQU64 = Op{map0F, pF3, true, 0x6f, 0, 64}
	// The same as stores.
	VMOVDQU32Store = Op{map0F, pF3, false, 0x7f, 0, 64}
	VMOVDQU64Store = Op{map0F, pF3, true, 0x7f, 0, 64}

	VPADDD  = Op{map0F, p66, false, 0xfe, 0, 0}
	VPADDQ  = Op{map0F, p66, true, 0xd4, 0, 0}
	VPSUBD  = Op{map0F, p66, false, 0xfa, 0, 0}
	VPSUBQ  = Op{map0F, p66, true, 0xfb, 0, 0}
	VPMULLD = Op{map0F38, p66, false, 0x40, 0, 0}
	VPMULLQ = Op{map0F38, p66, true, 0x40, 0, 0}
	// Products of parts of lanes, summed to parts twice as wide: unsigned bytes of x and signed ones of y, and words.
	VPMADDUBSW = Op{map0F38, p66, false, 0x04, 0, 0}
	VPMADDWD   = Op{map0F, p66, false, 0xf5, 0, 0}
	VPMULDQ    = Op{map0F38, p66, true, 0x28, 0, 0}
	VPMULUDQ   = Op{map0F, p66, true, 0xf4, 0, 0}
	VPANDD     = Op{map0F, p66, false, 0xdb, 0, 0}
	VPANDQ     = Op{map0F, p66, true, 0xdb, 0, 0}
	VPORD      = Op{map0F, p66, false, 0xeb, 0, 0}
	VPORQ      = Op{map0F, p66, true, 0xeb, 0, 0}
	VPXORD     = Op{map0F, p66, false, 0xef, 0, 0}
	VPXORQ     = Op{map0F, p66, true, 0xef, 0, 0}
	VPMINUB    = Op{map0F, p66, false, 0xda, 0, 0}
	VPMAXUB    = Op{map0F, p66, false, 0xde, 0, 0}
	VPSUBB     = Op{map0F, p66, false, 0xf8, 0, 0}
	VPMINUD    = Op{map0F38, p66, false, 0x3b, 0, 0}
	VPMINUQ    = Op{map0F38, p66, true, 0x3b, 0, 0}
	VPMINSD    = Op{map0F38, p66, false, 0x39, 0, 0}
	VPMINSQ    = Op{map0F38, p66, true, 0x39, 0, 0}
	VPMAXUD    = Op{map0F38, p66, false, 0x3f, 0, 0}
	VPMAXUQ    = Op{map0F38, p66, true, 0x3f, 0, 0}
	VPMAXSD    = Op{map0F38, p66, false, 0x3d, 0, 0}
	VPMAXSQ    = Op{map0F38, p66, true, 0x3d, 0, 0}
	VPABSD     = Op{map0F38, p66, false, 0x1e, 0, 0}
	VPABSQ     = Op{map0F38, p66, true, 0x1f, 0, 0}
	VPLZCNTD   = Op{map0F38, p66, false, 0x44, 0, 0}

	VPOPCNTD = Op{map0F38, p66, false, 0x55, 0, 0}

	VPTERNLOGD = Op{map0F3A, p66, false, 0x25, 0, 0}
	VPTERNLOGQ = Op{map0F3A, p66, true, 0x25, 0, 0}

	// Shifts of each lane by its own count; counts beyond the width give 0, or copies of the sign.
	VPSLLVD = Op{map0F38, p66, false, 0x47, 0, 0}
	VPSLLVQ = Op{map0F38, p66, true, 0x47, 0, 0}
	VPSRLVD = Op{map0F38, p66, false, 0x45, 0, 0}
	VPSRLVQ = Op{map0F38, p66, true, 0x45, 0, 0}
	VPSRAVD = Op{map0F38, p66, false, 0x46, 0, 0}
	VPSRAVQ = Op{map0F38, p66, true, 0x46, 0, 0}

	// Shifts by a constant.
	VPSLLD = Op{map0F, p66, false, 0x72, 6, 0}
	VPSRLD = Op{map0F, p66, false, 0x72, 2, 0}
	VPSRAD = Op{map0F, p66, false, 0x72, 4, 0}
	VPSLLQ = Op{map0F, p66, true, 0x73, 6, 0}
	VPSRLQ = Op{map0F, p66, true, 0x73, 2, 0}
	VPRORD = Op{map0F, p66, false, 0x72, 0, 0}
	VPRORQ = Op{map0F, p66, true, 0x72, 0, 0}

	// Comparisons; their predicates are below.
	VPCMPD  = Op{map0F3A, p66, false, 0x1f, 0, 0}
	VPCMPQ  = Op{map0F3A, p66, true, 0x1f, 0, 0}
	VPCMPUD = Op{map0F3A, p66, false, 0x1e, 0, 0}
	VPCMPUQ = Op{map0F3A, p66, true, 0x1e, 0, 0}
	VCMPPS  = Op{map0F, none, false, 0xc2, 0, 0}
	VCMPPD  = Op{map0F, p66, true, 0xc2, 0, 0}

	VPTESTMD  = Op{map0F38, p66, false, 0x27, 0, 0}
	VPTESTMQ  = Op{map0F38, p66, true, 0x27, 0, 0}
	VPTESTNMD = Op{map0F38, pF3, false, 0x27, 0, 0}

	VADDPS  = Op{map0F, none, false, 0x58, 0, 0}
	VADDPD  = Op{map0F, p66, true, 0x58, 0, 0}
	VMULPS  = Op{map0F, none, false, 0x59, 0, 0}
	VMULPD  = Op{map0F, p66, true, 0x59, 0, 0}
	VSUBPS  = Op{map0F, none, false, 0x5c, 0, 0}
	VSUBPD  = Op{map0F, p66, true, 0x5c, 0, 0}
	VDIVPS  = Op{map0F, none, false, 0x5e, 0, 0}
	VDIVPD  = Op{map0F, p66, true, 0x5e, 0, 0}
	VMINPS  = Op{map0F, none, false, 0x5d, 0, 0}
	VMINPD  = Op{map0F, p66, true, 0x5d, 0, 0}
	VMAXPS  = Op{map0F, none, false, 0x5f, 0, 0}
	VMAXPD  = Op{map0F, p66, true, 0x5f, 0, 0}
	VSQRTPS = Op{map0F, none, false, 0x51, 0, 0}
	VSQRTPD = Op{map0F, p66, true, 0x51, 0, 0}

	// d = x*y + d
	VFMADD231PS = Op{map0F38, p66, false, 0xb8, 0, 0}
	VFMADD213PD = Op{map0F38, p66, true, 0xa8, 0, 0} // d = d*x + y
	VFMADD231PD = Op{map0F38, p66, true, 0xb8, 0, 0}

	VFNMADD231PD = Op{map0F38, p66, true, 0xbc, 0, 0} // d = d - x*y

	// Conversions.
	VCVTDQ2PS   = Op{map0F, none, false, 0x5b, 0, 0}
	VCVTUDQ2PS  = Op{map0F, pF2, false, 0x7a, 0, 0}
	VCVTQQ2PS   = Op{map0F, none, true, 0x5b, 0, 0} // 8 lanes into the lower half
	VCVTUQQ2PS  = Op{map0F, pF2, true, 0x7a, 0, 0}
	VCVTQQ2PD   = Op{map0F, pF3, true, 0xe6, 0, 0}
	VCVTUQQ2PD  = Op{map0F, pF3, true, 0x7a, 0, 0}
	VCVTDQ2PD   = Op{map0F, pF3, false, 0xe6, 0, 32} // from the lower half
	VCVTUDQ2PD  = Op{map0F, pF3, false, 0x7a, 0, 32}
	VCVTPS2PD   = Op{map0F, none, false, 0x5a, 0, 32}
	VCVTPD2PS   = Op{map0F, p66, true, 0x5a, 0, 0}
	VCVTTPS2DQ  = Op{map0F, pF3, false, 0x5b, 0, 0}
	VCVTTPS2UDQ = Op{map0F, none, false, 0x78, 0, 0}
	VCVTPS2DQ   = Op{map0F, p66, false, 0x5b, 0, 0}
	VCVTTPD2DQ  = Op{map0F, p66, true, 0xe6, 0, 0}
	VCVTTPD2UDQ = Op{map0F, none, true, 0x78, 0, 0}
	VCVTPH2PS   = Op{map0F38, p66, false, 0x13, 0, 32}
	VCVTPS2PH   = Op{map0F3A, p66, false, 0x1d, 0, 32} // NarrowTo

	// Widening, and narrowing without saturation.
	VPMOVZXBD = Op{map0F38, p66, false, 0x31, 0, 16}
	VPMOVSXBD = Op{map0F38, p66, false, 0x21, 0, 16}
	VPMOVZXWD = Op{map0F38, p66, false, 0x33, 0, 32}
	VPMOVSXWD = Op{map0F38, p66, false, 0x23, 0, 32}
	VPMOVZXDQ = Op{map0F38, p66, false, 0x35, 0, 32}
	VPMOVSXDQ = Op{map0F38, p66, false, 0x25, 0, 32}
	VPMOVDB   = Op{map0F38, pF3, false, 0x31, 0, 16}
	VPMOVDW   = Op{map0F38, pF3, false, 0x33, 0, 32}

	// d = y in the lanes of the mask, x in the rest.
	VPBLENDMD = Op{map0F38, p66, false, 0x64, 0, 0}
	VPBLENDMQ = Op{map0F38, p66, true, 0x64, 0, 0}

	VPBROADCASTD    = Op{map0F38, p66, false, 0x58, 0, 4}
	VPBROADCASTQ    = Op{map0F38, p66, true, 0x59, 0, 8}
	VPBROADCASTDReg = Op{map0F38, p66, false, 0x7c, 0, 0}
	VPBROADCASTQReg = Op{map0F38, p66, true, 0x7c, 0, 0}

	VPERMT2D    = Op{map0F38, p66, false, 0x7e, 0, 0}
	VPERMT2Q    = Op{map0F38, p66, true, 0x7e, 0, 0}
	VSHUFI64X2  = Op{map0F3A, p66, true, 0x43, 0, 0}
	VEXTRACTI64 = Op{map0F3A, p66, true, 0x3b, 0, 32} // 256 bits; NarrowTo
	VINSERTI64  = Op{map0F3A, p66, true, 0x3a, 0, 32} // 256 bits
	VPCOMPRESSD = Op{map0F38, p66, false, 0x8b, 0, 4} // NarrowTo
	VPGATHERDD  = Op{map0F38, p66, false, 0x90, 0, 4}
	VPGATHERDQ  = Op{map0F38, p66, true, 0x90, 0, 8}
	VPSCATTERDD = Op{map0F38, p66, false, 0xa0, 0, 4}
	VPSCATTERDQ = Op{map0F38, p66, true, 0xa0, 0, 8}
	VPUNPCKLDQ  = Op{map0F, p66, false, 0x62, 0, 0}
	VPUNPCKHDQ  = Op{map0F, p66, false, 0x6a, 0, 0}
	VPUNPCKLQDQ = Op{map0F, p66, true, 0x6c, 0, 0}
	VPUNPCKHQDQ = Op{map0F, p66, true, 0x6d, 0, 0}
	VSHUFI32X4  = Op{map0F3A, p66, false, 0x43, 0, 0}
	VRNDSCALEPS = Op{map0F3A, p66, false, 0x08, 0, 0}
	VRNDSCALEPD = Op{map0F3A, p66, true, 0x09, 0, 0}
	VSCALEFPD   = Op{map0F38, p66, true, 0x2c, 0, 0} // d = x times 2 to the power of y, rounded down
	VGETEXPPD   = Op{map0F38, p66, true, 0x42, 0, 0} // of numbers that are not 0
	VGETMANTPD  = Op{map0F3A, p66, true, 0x26, 0, 0}
)

// Predicates of integer comparisons.
const (
	EQ  = 0
	LT  = 1
	LE  = 2
	NEQ = 4
	NLT = 5 // at least
	NLE = 6 // more
)

// Predicates of floating-point comparisons, that do not signal.
const (
	EqOQ   = 0x00
	LtOQ   = 0x11
	LeOQ   = 0x12
	UnordQ = 0x03
	NeqUQ  = 0x04
	NltUQ  = 0x15
	NleUQ  = 0x16
	OrdQ   = 0x07
	EqUQ   = 0x08
	NgeUQ  = 0x19
	NgtUQ  = 0x1a
	NeqOQ  = 0x0c
	GeOQ   = 0x1d
	GtOQ   = 0x1e
)
