// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Functions that the generated loops call, and the operations on predicates, frames and carries.

type integer interface {
	~uint16 | ~uint32 | ~uint64 | ~int16 | ~int32 | ~int64
}

// quotient is a/b; division by zero gives all ones, as the hardware does.
func quotient[T integer](a, b T) T {
	if b == 0 {
		return ^T(0)
	}
	return a / b
}

// remainder is a%b; that of a division by zero is a.
func remainder[T integer](a, b T) T {
	if b == 0 {
		return a
	}
	return a % b
}

func mulHiu(a, b uint64) uint64 {
	hi, _ := bits.Mul64(a, b)
	return hi
}

func mulHis(a, b int64) int64 {
	hi, _ := bits.Mul64(uint64(a), uint64(b))
	return int64(hi) - a>>63&b - b>>63&a
}

func clampS32(v int64) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }

func pickValue[T integer](a, b T, p bool) T {
	if p {
		return a
	}
	return b
}

// lop3 is any function of three inputs, as a table of its values.
func lop3[T uint16 | uint32 | uint64](a, b, c T, table uint8) T {
	switch table {
	case 0x96:
		return a ^ b ^ c
	case 0x80:
		return a & b & c
	case 0xfe:
		return a | b | c
	case 0xf8:
		return a | b&c
	case 0xea:
		return a&b | c
	case 0xca:
		return a&b | ^a&c
	case 0xe8:
		return a&b | b&c | a&c
	}
	var r T
	for i := range 8 {
		if table>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^x
		}
		if i&2 == 0 {
			y = ^y
		}
		if i&1 == 0 {
			z = ^z
		}
		r |= x & y & z
	}
	return r
}

// bfeU32, and the functions for the other types, carry out bfe: n bits from pos on are extracted. Both numbers are
// taken modulo 256. In the signed forms bits beyond the value are copies of its sign.
func bfeU32(a, pos, n uint32) uint32 {
	pos, n = pos&255, n&255
	if n >= 32 {
		return a >> pos
	}
	return a >> pos & (1<<n - 1)
}

func bfeU64(a uint64, pos, n uint32) uint64 {
	pos, n = pos&255, n&255
	if n >= 64 {
		return a >> pos
	}
	return a >> pos & (1<<n - 1)
}

func bfeS32(a int32, pos, n uint32) int32 {
	return int32(bfeS(int64(a), pos&255, n&255, 31))
}

func bfeS64(a int64, pos, n uint32) int64 { return bfeS(a, pos&255, n&255, 63) }

func bfeS(a int64, pos, n, msb uint32) int64 {
	if n == 0 {
		return 0
	}
	v := a >> min(pos, 63)
	if top := min(pos+n-1, msb); top >= pos && n < 64 {
		width := top - pos + 1
		return v << (64 - width) >> (64 - width)
	}
	if pos > msb {
		return a >> 63
	}
	return v
}

// bfi inserts the low n bits of a into b at pos.
func bfi(a, b uint64, pos, n, width uint32) uint64 {
	pos, n = pos&255, n&255
	if pos >= width {
		return b
	}
	mask := types.SizeMask(width / 8)
	if n < 64 {
		mask &= (1<<n - 1) << pos
	} else {
		mask &= math.MaxUint64 << pos
	}
	return b&^mask | a<<pos&mask
}

// prmt picks bytes of b:a by the nibbles of c; a nibble's top bit replicates the sign.
func prmt(a, b, c uint32) uint32 {
	v := uint64(b)<<32 | uint64(a)
	var r uint32
	for i := range 4 {
		sel := c >> (4 * i) & 15
		byt := uint8(v >> (8 * (sel & 7)))
		if sel&8 != 0 {
			byt = uint8(int8(byt) >> 7)
		}
		r |= uint32(byt) << (8 * i)
	}
	return r
}

// prmtMode is prmt with a mode: c chooses among four byte selections.
func prmtMode(mode string, a, b, c uint32) uint32 {
	table := map[string][4]uint32{
		"f4e": {0x3210, 0x4321, 0x5432, 0x6543}, "b4e": {0x5670, 0x6701, 0x7012, 0x0123},
		"rc8": {0x0000, 0x1111, 0x2222, 0x3333}, "ecl": {0x3210, 0x3211, 0x3222, 0x3333},
		"ecr": {0x0000, 0x1110, 0x2210, 0x3210}, "rc16": {0x1010, 0x3232, 0x1010, 0x3232},
	}
	return prmt(a, b, table[mode][c&3])
}

// truncS32 and truncU32 convert an integral number, or cut a number to one; NaN becomes 0.
func truncS32(f float64) int32 {
	switch {
	case f != f:
		return 0
	case f >= math.MaxInt32:
		return math.MaxInt32
	case f <= math.MinInt32:
		return math.MinInt32
	}
	return int32(f)
}

// truncS32F64 is truncS32 for a number of type f64: NaN becomes the lowest integer.
func truncS32F64(f float64) int32 {
	if f != f {
		return math.MinInt32
	}
	return truncS32(f)
}

func truncU32(f float64) uint32 {
	switch {
	case f >= math.MaxUint32:
		return math.MaxUint32
	case f > 0:
		return uint32(f)
	}
	return 0
}

// minNum and maxNum give the number when an operand is a NaN, and order the zeros.
func minNum(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b:
		return a
	}
	return min(a, b)
}

func maxNum(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b:
		return a
	}
	return max(a, b)
}

// clampToUnit limits a number to 0 to 1; NaN becomes 0.
func clampToUnit(a float32) float32 {
	switch {
	case a > 1:
		return 1
	case a > 0:
		return a
	}
	return 0
}

func minNum32(a, b float32) float32 {
	switch {
	case a < b:
		return a
	case b < a:
		return b
	}
	return float32(minNum(float64(a), float64(b)))
}

func maxNum32(a, b float32) float32 {
	switch {
	case a > b:
		return a
	case b > a:
		return b
	}
	return float32(maxNum(float64(a), float64(b)))
}

// opLanes computes ext.f lane by lane.
func opLanes(w *warp, in *inst, m uint32) {
	x := in.ext
	f, o := x.f, x.opnds
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		var a, b, c uint64
		a = w.readLane(o[1], in.a, i)
		if o[2] != 0 {
			b = w.readLane(o[2], in.b, i)
		}
		if o[3] != 0 {
			c = w.readLane(o[3], in.c, i)
		}
		w.setLane(o[0], in.d, i, f(a, b, c))
	}
}

func opMovPred(w *warp, in *inst, m uint32) { w.setBits(in.d, m, w.pred(in.a)) }

// opLogicPred is and, or, xor of predicates, by imm.
func opLogicPred(w *warp, in *inst, m uint32) {
	a, b := w.pred(in.a), w.pred(in.b)
	switch in.imm {
	case 1:
		a &= b
	case 2:
		a |= b
	default:
		a ^= b
	}
	w.setBits(in.d, m, a)
}

// opFrame gives the address of the frame's local memory plus imm.
func opFrame(w *warp, in *inst, m uint32) {
	d, v := w.u32(in.d), w.cur.frame.local+uint32(in.imm)
	for ; m != 0; m &= m - 1 {
		d[bits.TrailingZeros32(m)&31] = v
	}
}

func emitFlagMove(l *lowerer, d, s ref) {
	l.emitMicro(opMovPred, shape{d: defPred, a: usePred}, d, 0, s, 0, 0).key = "mov.pred"
}

func emitSpin(l *lowerer) { l.emitMicro(opSpin, shape{}, 0, 0, 0, 0, 0).key = "spin" }

// flagLogic has the names of opLogicPred's operations, by imm.
var flagLogic = map[uint64]string{1: "and.pred", 2: "or.pred", 3: "xor.pred"}

func emitFlagLogic(l *lowerer, op uint64, d, a, b ref) {
	m := l.emitMicro(opLogicPred, shape{d: defPred, a: usePred, b: usePred}, d, 0, a, b, 0)
	m.imm, m.key = op, flagLogic[op]
}

// opSpin notes that memory is read which other threads may change.
func opSpin(w *warp, _ *inst, _ uint32) { w.spinning = true }

// opCarry32 and opCarry64 are a+b, a-b and a*b+c with carry in and out in predicate e.
// imm: bit 0 subtract, bit 1 carry in, bit 2 carry out. A subtraction adds the complement:
// its carry is the inverse of a borrow.
func opCarry32(w *warp, in *inst, m uint32) {
	d, a, b := w.u32(in.d), w.u32(in.a), w.u32(in.b)
	cc := w.pred(in.e)
	out := uint32(0)
	for left := m; left != 0; left &= left - 1 {
		i := bits.TrailingZeros32(left) & 31
		carry := uint32(0)
		if in.imm&2 != 0 {
			carry = cc >> i & 1
		}
		if in.imm&1 != 0 {
			if in.imm&2 == 0 {
				carry = 1
			}
			d[i], carry = bits.Add32(a[i], ^b[i], carry)
		} else {
			d[i], carry = bits.Add32(a[i], b[i], carry)
		}
		out |= carry << i
	}
	if in.imm&4 != 0 {
		w.setBits(in.e, m, out)
	}
}

func opCarry64(w *warp, in *inst, m uint32) {
	d, a, b := w.u64(in.d), w.u64(in.a), w.u64(in.b)
	cc := w.pred(in.e)
	out := uint32(0)
	for left := m; left != 0; left &= left - 1 {
		i := bits.TrailingZeros32(left) & 31
		carry := uint64(0)
		if in.imm&2 != 0 {
			carry = uint64(cc >> i & 1)
		}
		if in.imm&1 != 0 {
			if in.imm&2 == 0 {
				carry = 1
			}
			d[i], carry = bits.Add64(a[i], ^b[i], carry)
		} else {
			d[i], carry = bits.Add64(a[i], b[i], carry)
		}
		out |= uint32(carry) << i
	}
	if in.imm&4 != 0 {
		w.setBits(in.e, m, out)
	}
}
