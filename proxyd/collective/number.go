// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import "math"

// combiner sets dst = a ∘ b, element by element. The three have the same length; dst may
// be a or b, and else shares no memory with them.
type combiner func(dst, a, b []byte)

// combiners is ∘ for each type and reduction. Avg and PreMulSum add.
var combiners = [types][reductions]combiner{
	Int8:       integerRow[int8](),
	Uint8:      integerRow[uint8](),
	Int32:      integerRow[int32](),
	Uint32:     integerRow[uint32](),
	Int64:      integerRow[int64](),
	Uint64:     integerRow[uint64](),
	Float16:    halfRow(sumFloat16, &float16),
	Float32:    floatRow[float32](),
	Float64:    floatRow[float64](),
	BFloat16:   halfRow(sumBFloat16, &bfloat16),
	Float8E4M3: quarterRow(&e4m3),
	Float8E5M2: quarterRow(&e5m2),
}

func makeRow(sum, prod, most, least combiner) [reductions]combiner {
	return [reductions]combiner{Sum: sum, Prod: prod, Max: most, Min: least, Avg: sum, PreMulSum: sum}
}

func integerRow[T int8 | uint8 | int32 | uint32 | int64 | uint64]() [reductions]combiner {
	return makeRow(
		typedCombiner(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = a[i] + b[i]
			}
		}),
		typedCombiner(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = a[i] * b[i]
			}
		}),
		typedCombiner(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = max(a[i], b[i])
			}
		}),
		typedCombiner(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = min(a[i], b[i])
			}
		}),
	)
}

// isNaN is true for a number that does not equal itself.
func isNaN[T float32 | float64](x T) bool {
	return x != x //nolint:gocritic // that is the definition
}

// notANumber is the only NaN that a computation gives: sign clear, all other bits set.
func notANumber[T float32 | float64]() T {
	var z T
	if _, ok := any(z).(float32); ok {
		return any(math.Float32frombits(math.MaxInt32)).(T)
	}
	return any(math.Float64frombits(math.MaxInt64)).(T)
}

func floatRow[T float32 | float64]() [reductions]combiner {
	nan := notANumber[T]()
	return makeRow(
		typedCombiner(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				s := a[i] + b[i]
				if isNaN(s) {
					s = nan
				}
				dst[i] = s
			}
		}),
		typedCombiner(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				p := a[i] * b[i]
				if isNaN(p) {
					p = nan
				}
				dst[i] = p
			}
		}),
		typedCombiner(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = largerNumber(a[i], b[i], nan)
			}
		}),
		typedCombiner(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = smallerNumber(a[i], b[i], nan)
			}
		}),
	)
}

// largerNumber is the maximum: a number wins against a NaN, +0 against -0, for two NaN the result
// is nan.
func largerNumber[T float32 | float64](x, y, nan T) T {
	switch {
	case x > y:
		return x
	case y > x:
		return y
	case x == y:
		if math.Signbit(float64(x)) {
			return y
		}
		return x
	case !isNaN(x):
		return x
	case !isNaN(y):
		return y
	}
	return nan
}

// smallerNumber is the minimum: a number wins against a NaN, -0 against +0, for two NaN the result
// is nan.
func smallerNumber[T float32 | float64](x, y, nan T) T {
	switch {
	case x < y:
		return x
	case y < x:
		return y
	case x == y:
		if math.Signbit(float64(x)) {
			return x
		}
		return y
	case !isNaN(x):
		return x
	case !isNaN(y):
		return y
	}
	return nan
}
