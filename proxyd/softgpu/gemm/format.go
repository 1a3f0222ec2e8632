// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

import "math"

// decodeHalf converts f16 to f32, exactly.
func decodeHalf(h uint16) float32 {
	b := uint32(h&0x7fff) << 13
	if h&0x7c00 == 0x7c00 {
		b |= 0x7f800000
	} else {
		b = math.Float32bits(math.Float32frombits(b) * 0x1p112)
	}
	return math.Float32frombits(b | uint32(h&0x8000)<<16)
}

// decodeBrain converts bf16 to f32, exactly.
func decodeBrain(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// smallNaN is the NaN of f16 and bf16 on software GPUs.
const smallNaN = 0x7fff

// encodeHalf is cvt.rn.f16.f32.
func encodeHalf(v float32) uint16 {
	b := math.Float32bits(v)
	sign, b := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return smallNaN
	case b >= 0x477ff000: // rounds to infinity
		return sign | 0x7c00
	case b < 0x38800000: // subnormal: the sum has the subnormal's unit in its last place, and rounds as wanted
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-112<<23)>>13)
}

// encodeBrain is cvt.rn.bf16.f32.
func encodeBrain(v float32) uint16 {
	b := math.Float32bits(v)
	if b&0x7fffffff > 0x7f800000 {
		return smallNaN
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
