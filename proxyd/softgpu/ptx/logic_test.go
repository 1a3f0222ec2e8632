// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/bits"
	"strings"
	"testing"
)

// TestIntegerLogic compares with plain Go, bit by bit where that is plainer.
func TestIntegerLogic(t *testing.T) {
	bit := func(v uint64, i uint64) uint64 {
		if i > 63 {
			return 0
		}
		return v >> i & 1
	}
	cases := []struct {
		op, types string
		f         func(r [3]uint64) uint64
	}{
		{"and.b64 d, a, b;", "b64 b64 b64", func(r [3]uint64) uint64 { return r[0] & r[1] }},
		{"or.b32 d, a, b;", "b32 b32 b32", func(r [3]uint64) uint64 { return uint64(uint32(r[0] | r[1])) }},
		{"xor.b16 d, a, b;", "b16 b16 b16", func(r [3]uint64) uint64 { return uint64(uint16(r[0] ^ r[1])) }},
		{"and.pred d, a, b;", "pred pred pred", func(r [3]uint64) uint64 { return truthOf(uint32(r[0]) != 0 && uint32(r[1]) != 0) }},
		{"xor.pred d, a, !b;", "pred pred pred", func(r [3]uint64) uint64 { return truthOf((uint32(r[0]) != 0) == (uint32(r[1]) != 0)) }},
		{"or.pred d, !a, b;", "pred pred pred", func(r [3]uint64) uint64 { return truthOf(uint32(r[0]) == 0 || uint32(r[1]) != 0) }},
		{"not.b32 d, a;", "b32 b32", func(r [3]uint64) uint64 { return uint64(^uint32(r[0])) }},
		{"not.pred d, a;", "pred pred", func(r [3]uint64) uint64 { return truthOf(uint32(r[0]) == 0) }},
		{"cnot.b16 d, a;", "b16 b16", func(r [3]uint64) uint64 { return truthOf(uint16(r[0]) == 0) }},
		{"shl.b16 d, a, b;", "b16 b16 u32", func(r [3]uint64) uint64 { return uint64(uint16(r[0]) << uint32(r[1])) }},
		{"shl.b32 d, a, b;", "b32 b32 u32", func(r [3]uint64) uint64 { return uint64(uint32(r[0]) << uint32(r[1])) }},
		{"shl.b64 d, a, b;", "b64 b64 u32", func(r [3]uint64) uint64 { return r[0] << uint32(r[1]) }},
		{"shr.u32 d, a, b;", "b32 b32 u32", func(r [3]uint64) uint64 { return uint64(uint32(r[0]) >> uint32(r[1])) }},
		{"shr.s32 d, a, b;", "b32 b32 u32", func(r [3]uint64) uint64 { return uint64(uint32(int32(r[0]) >> uint32(r[1]))) }},
		{"shr.s64 d, a, b;", "b64 b64 u32", func(r [3]uint64) uint64 { return uint64(int64(r[0]) >> uint32(r[1])) }},
		{"shr.s16 d, a, b;", "b16 b16 u32", func(r [3]uint64) uint64 { return uint64(uint16(int16(r[0]) >> uint32(r[1]))) }},
		{"shf.l.wrap.b32 d, a, b, c;", "b32 b32 b32 u32", func(r [3]uint64) uint64 {
			n := r[2] & 31
			return uint64(uint32(r[1])<<n) | uint64(uint32(r[0]))>>(32-n)
		}},
		{"shf.r.clamp.b32 d, a, b, c;", "b32 b32 b32 u32", func(r [3]uint64) uint64 {
			n := min(uint32(r[2]), 32)
			return uint64(uint32((r[1]<<32 | r[0]&0xffffffff) >> n))
		}},
		{"shf.l.clamp.b32 d, a, b, c;", "b32 b32 b32 u32", func(r [3]uint64) uint64 {
			n := min(uint32(r[2]), 32)
			return (r[1]<<32 | r[0]&0xffffffff) << n >> 32
		}},
		{"popc.b32 d, a;", "u32 b32", func(r [3]uint64) uint64 { return uint64(bits.OnesCount32(uint32(r[0]))) }},
		{"popc.b64 d, a;", "u32 b64", func(r [3]uint64) uint64 { return uint64(bits.OnesCount64(r[0])) }},
		{"clz.b32 d, a;", "u32 b32", func(r [3]uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(r[0]))) }},
		{"clz.b64 d, a;", "u32 b64", func(r [3]uint64) uint64 { return uint64(bits.LeadingZeros64(r[0])) }},
		{"brev.b32 d, a;", "b32 b32", func(r [3]uint64) uint64 { return uint64(bits.Reverse32(uint32(r[0]))) }},
		{"brev.b64 d, a;", "b64 b64", func(r [3]uint64) uint64 { return bits.Reverse64(r[0]) }},
		{"bfind.u32 d, a;", "u32 u32", func(r [3]uint64) uint64 { return uint64(uint32(bits.Len32(uint32(r[0])) - 1)) }},
		{"bfind.s64 d, a;", "u32 s64", func(r [3]uint64) uint64 {
			v := r[0]
			if int64(v) < 0 {
				v = ^v
			}
			return uint64(uint32(bits.Len64(v) - 1))
		}},
		{"bfind.shiftamt.s32 d, a;", "u32 s32", func(r [3]uint64) uint64 {
			v := uint32(r[0])
			if int32(v) < 0 {
				v = ^v
			}
			if v == 0 {
				return 0xffffffff
			}
			return uint64(bits.LeadingZeros32(v))
		}},
		{"bfe.u32 d, a, b, c;", "u32 u32 u32 u32", func(r [3]uint64) (v uint64) {
			for i := range min(r[2]&255, 32) {
				v |= bit(uint64(uint32(r[0])), r[1]&255+i) << i
			}
			return v
		}},
		{"bfe.s32 d, a, b, c;", "s32 s32 u32 u32", func(r [3]uint64) uint64 { return uint64(uint32(slowBfe(uint64(uint32(r[0])), r[1]&255, r[2]&255, 32))) }},
		{"bfe.s64 d, a, b, c;", "s64 s64 u32 u32", func(r [3]uint64) uint64 { return slowBfe(r[0], r[1]&255, r[2]&255, 64) }},
		{"bfi.b32 d, a, b, c, 7;", "b32 b32 b32 u32", func(r [3]uint64) uint64 {
			v := r[1] & 0xffffffff
			for i := range uint64(7) {
				if p := r[2]&255 + i; p < 32 {
					v = v&^(1<<p) | bit(r[0], i)<<p
				}
			}
			return v
		}},
		{"bfi.b64 d, a, b, 5, c;", "b64 b64 b64 u32", func(r [3]uint64) uint64 {
			v := r[1]
			for i := range r[2] & 255 {
				if p := 5 + i; p < 64 {
					v = v&^(1<<p) | bit(r[0], i)<<p
				}
			}
			return v
		}},
		{"bmsk.clamp.b32 d, a, b;", "b32 u32 u32", func(r [3]uint64) (v uint64) {
			for i := range uint64(32) {
				if i >= r[0]&0xffffffff && i < r[0]&0xffffffff+r[1]&0xffffffff {
					v |= 1 << i
				}
			}
			return v
		}},
		{"bmsk.wrap.b32 d, a, b;", "b32 u32 u32", func(r [3]uint64) (v uint64) {
			for i := range uint64(32) {
				if i >= r[0]&31 && i < r[0]&31+r[1]&31 {
					v |= 1 << i
				}
			}
			return v
		}},
		{"szext.wrap.s32 d, a, b;", "s32 s32 u32", func(r [3]uint64) uint64 {
			n := r[1] & 31
			if n == 0 {
				return 0
			}
			return uint64(uint32(int32(uint32(r[0])<<(32-n)) >> (32 - n)))
		}},
		{"szext.clamp.u32 d, a, b;", "u32 u32 u32", func(r [3]uint64) uint64 {
			n := min(uint32(r[1]), 32)
			return r[0] & 0xffffffff & (1<<n - 1)
		}},
		{"lop3.b32 d, a, b, c, 0x1b;", "b32 b32 b32 b32", slowLop3(0x1b)},
		{"lop3.b32 d, a, b, c, 0xca;", "b32 b32 b32 b32", slowLop3(0xca)},
		{"lop3.b32 d, a, b, c, 0x96;", "b32 b32 b32 b32", slowLop3(0x96)},
		{"lop3.b32 d, a, b, c, 0xe8;", "b32 b32 b32 b32", slowLop3(0xe8)},
		{"prmt.b32 d, a, b, c;", "b32 b32 b32 b32", func(r [3]uint64) (v uint64) {
			for i := range 4 {
				sel := r[2] >> (4 * i) & 15
				src := r[0]
				if sel&4 != 0 {
					src = r[1]
				}
				x := src >> (8 * (sel & 3)) & 255
				if sel&8 != 0 {
					x = 255 * (x >> 7)
				}
				v |= x << (8 * i)
			}
			return v
		}},
		{"prmt.b32.f4e d, a, b, c;", "b32 b32 b32 b32", func(r [3]uint64) uint64 {
			return uint64(uint32((r[1]<<32 | r[0]&0xffffffff) >> (8 * (r[2] & 3))))
		}},
		{"fns.b32 d, a, 0, 2;", "b32 b32", func(r [3]uint64) uint64 {
			v := uint32(r[0])
			if v &= v - 1; v == 0 {
				return 0xffffffff
			}
			return uint64(bits.TrailingZeros32(v))
		}},
		{"selp.b64 d, a, b, c;", "b64 b64 b64 pred", func(r [3]uint64) uint64 {
			if uint32(r[2]) != 0 {
				return r[0]
			}
			return r[1]
		}},
		{"slct.u32.s32 d, a, b, c;", "u32 u32 u32 s32", func(r [3]uint64) uint64 {
			if int32(r[2]) >= 0 {
				return r[0] & 0xffffffff
			}
			return r[1] & 0xffffffff
		}},
		{"dp4a.s32.u32 d, a, b, c;", "s32 s32 u32 s32", func(r [3]uint64) uint64 {
			s := int32(r[2])
			for i := range 4 {
				s += int32(int8(r[0]>>(8*i))) * int32(uint8(r[1]>>(8*i)))
			}
			return uint64(uint32(s))
		}},
		{"dp2a.hi.s32.s32 d, a, b, c;", "s32 s32 s32 s32", func(r [3]uint64) uint64 {
			s := int32(r[2])
			for i := range 2 {
				s += int32(int16(r[0]>>(16*i))) * int32(int8(r[1]>>(16+8*i)))
			}
			return uint64(uint32(s))
		}},
		{"add.u16x2 d, a, b;", "b32 b32 b32", func(r [3]uint64) uint64 {
			return uint64(uint16(r[0]+r[1])) | uint64(uint16(r[0]>>16+r[1]>>16))<<16
		}},
		{"max.s16x2.relu d, a, b;", "b32 b32 b32", func(r [3]uint64) uint64 {
			h := func(n int) uint64 { return uint64(uint16(max(int16(r[0]>>n), int16(r[1]>>n), 0))) }
			return h(0) | h(16)<<16
		}},
		{"min.u16x2 d, a, b;", "b32 b32 b32", func(r [3]uint64) uint64 {
			h := func(n int) uint64 { return uint64(min(uint16(r[0]>>n), uint16(r[1]>>n))) }
			return h(0) | h(16)<<16
		}},
		{"min.s32.relu d, a, b;", "s32 s32 s32", func(r [3]uint64) uint64 { return uint64(uint32(max(min(int32(r[0]), int32(r[1])), 0))) }},
	}
	rows := operandRows(3, 200)
	for _, c := range cases {
		t.Run(c.op, func(t *testing.T) {
			got := evaluate(t, c.op, strings.Fields(c.types), rows)
			for i, r := range rows {
				if want := c.f(r); got[i] != want {
					t.Fatalf("of %#x: %#x, should be %#x", r, got[i], want)
				}
			}
		})
	}
}

func truthOf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// slowBfe is the signed bfe by its description in the manual.
func slowBfe(a, pos, n, width uint64) (v uint64) {
	sign := uint64(0)
	if n > 0 {
		sign = a >> min(pos+n-1, width-1) & 1
	}
	for i := range width {
		if i < n && pos+i < width {
			v |= a >> (pos + i) & 1 << i
		} else {
			v |= sign << i
		}
	}
	return v
}

func slowLop3(table uint64) func(r [3]uint64) uint64 {
	return func(r [3]uint64) (v uint64) {
		for i := range 32 {
			n := r[0]>>i&1<<2 | r[1]>>i&1<<1 | r[2]>>i&1
			v |= table >> n & 1 << i
		}
		return v
	}
}
