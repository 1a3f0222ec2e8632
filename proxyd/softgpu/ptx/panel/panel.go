// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package panel multiplies small matrices of 32-bit elements, as a warp does by mma and wmma, in the vector instructions
// of the processor. A matrix A is cut into panels of 8 rows, and a matrix B into panels of 8 columns. For each k in turn,
// a panel has the 8 elements of its rows or columns.
package panel

import (
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
)

// Width is how many rows or columns a panel has.
const Width = 8

// Product is a product of matrices, A·B, that is added to sums. Its memory is used again by the next product.
type Product struct {
	A, B []uint32 // the panels, one behind the other
	Sums []uint32 // row by row

	m, n, k int
	before  []uint32
}

// SetShape sets how many rows A, columns B, and of each both have: A, B and Sums get their lengths, and any content.
func (p *Product) SetShape(m, n, k int) {
	p.m, p.n, p.k = m, n, k
	p.A, p.B, p.Sums = resizeSlice(p.A, m*k), resizeSlice(p.B, n*k), resizeSlice(p.Sums, m*n)
}

func resizeSlice(b []uint32, n int) []uint32 {
	if cap(b) < n {
		return make([]uint32, n)
	}
	return b[:n]
}

// AddF32 adds the product of f32 matrices to the sums, over ascending k, each time rounded once. NaN becomes 0x7fffffff.
func (p *Product) AddF32() { p.addPanels(addProductsF32) }

// AddS32 adds the product of s32 matrices to the sums, which wrap around.
func (p *Product) AddS32() { p.addPanels(addProductsS32) }

// AddSaturated is AddS32 with sums that end at the limits of s32. The product alone must be within them.
func (p *Product) AddSaturated() {
	p.before = append(p.before[:0], p.Sums...)
	clear(p.Sums)
	p.AddS32()
	for i, v := range p.Sums {
		sum := int64(int32(p.before[i])) + int64(int32(v))
		p.Sums[i] = uint32(min(max(sum, math.MinInt32), math.MaxInt32))
	}
}

func (p *Product) addPanels(add func(sums *uint32, stride int, a, b *uint32, k int)) {
	for i := 0; i < p.m; i += Width {
		for j := 0; j < p.n; j += Width {
			add(&p.Sums[i*p.n+j], p.n, &p.A[i*p.k], &p.B[j*p.k], p.k)
		}
	}
}

// IndexOf is where the element of a row of A, or a column of B, is for column, or row, at of k.
func IndexOf(line, at, k int) int { return (line/Width*k+at)*Width + line%Width }

// SpreadWord writes the elements of a word, of which there are per, to neighbouring places of a row or column.
func SpreadWord(elements []uint32, v uint32, per int) {
	switch per {
	case 1:
		elements[0] = v
	case 2:
		elements[0], elements[Width] = v&0xffff, v>>16
	default:
		width := 32 / per
		for e := range per {
			elements[e*Width] = v & (1<<width - 1)
			v >>= width
		}
	}
}

// WidenF16 makes f32 of f16.
func WidenF16(elements []uint32) {
	for i, v := range elements {
		elements[i] = math.Float32bits(float.F16To32(uint16(v)))
	}
}

// WidenBF16 makes f32 of bf16.
func WidenBF16(elements []uint32) {
	for i, v := range elements {
		elements[i] = v << 16
	}
}

// TruncateTF32 makes f32 of tf32: the hardware does not look at the low bits.
func TruncateTF32(elements []uint32) {
	for i, v := range elements {
		elements[i] = v &^ 0x1fff
	}
}

// ExtendSign makes s32 of whole numbers of so many bits that have a sign.
func ExtendSign(elements []uint32, bits int) {
	shift := 32 - bits
	for i, v := range elements {
		elements[i] = uint32(int32(v<<shift) >> shift)
	}
}
