// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import "bytes"

// multiplyBy sets dst = a · factor, with a factor of a single element. PreMulSum uses it for each
// rank's contribution.
func multiplyBy(t Type, dst, a, factor []byte) {
	size := t.Size()
	chunk := bytes.Repeat(factor, min(block, len(dst)/size))
	for len(dst) > 0 {
		n := min(len(dst), len(chunk))
		combiners[t][Prod](dst[:n], a[:n], chunk[:n])
		dst, a = dst[n:], a[n:]
	}
}

// divideBy sets dst = dst ÷ n. Avg uses it for the sum. Floats are rounded once, integers
// are cut towards zero.
func divideBy(t Type, dst []byte, n int) {
	switch t {
	case Int8:
		divideIntegers[int8](dst, int64(n))
	case Uint8:
		divideUnsigned[uint8](dst, uint64(n))
	case Int32:
		divideIntegers[int32](dst, int64(n))
	case Uint32:
		divideUnsigned[uint32](dst, uint64(n))
	case Int64:
		divideIntegers[int64](dst, int64(n))
	case Uint64:
		divideUnsigned[uint64](dst, uint64(n))
	case Float16:
		divideHalves(dst, n, &float16)
	case BFloat16:
		divideHalves(dst, n, &bfloat16)
	case Float32:
		forEach(dst, func(x float32) float32 { return normalNumber32(x / float32(n)) })
	case Float64:
		forEach(dst, func(x float64) float64 { return normalNumber64(x / float64(n)) })
	case Float8E4M3:
		forEach(dst, func(c uint8) uint8 { return e4m3.encodeFloat(e4m3.decodeByte(c) / float64(n)) })
	case Float8E5M2:
		forEach(dst, func(c uint8) uint8 { return e5m2.encodeFloat(e5m2.decodeByte(c) / float64(n)) })
	}
}

// divideHalves divides by a communicator's size, which is no more than maxRanks, and so exact in float32. A quotient of a
// 16-bit type by that size is never so near to a tie that float64 would hide the difference.
func divideHalves(dst []byte, n int, f *halfFormat) {
	forEach(dst, func(h uint16) uint16 { return f.encode(narrowFloat(float64(f.decode(h)) / float64(n))) })
}

func divideIntegers[T int8 | int32 | int64](dst []byte, n int64) {
	forEach(dst, func(x T) T { return T(int64(x) / n) })
}

func divideUnsigned[T uint8 | uint32 | uint64](dst []byte, n uint64) {
	forEach(dst, func(x T) T { return T(uint64(x) / n) })
}

// forEach replaces every element by f of that element.
func forEach[T number](dst []byte, f func(T) T) {
	typedCombiner(func(dst, a, _ []T) {
		for i := range dst {
			dst[i] = f(a[i])
		}
	})(dst, dst, dst)
}

func normalNumber32(x float32) float32 {
	if isNaN(x) {
		return notANumber[float32]()
	}
	return x
}

func normalNumber64(x float64) float64 {
	if isNaN(x) {
		return notANumber[float64]()
	}
	return x
}
