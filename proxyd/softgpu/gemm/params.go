// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	_ "embed" // the text
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// Text is the PTX that defines the kernels Single and Double.
//
//go:embed gemm.ptx
var Text string

// The kernels of Text.
const (
	Single = "singularity_gemm_f32"
	Double = "singularity_gemm_f64"
)

// The tile of a block, and its threads.
const (
	tileRows    = 128
	tileColumns = 96
	Threads     = 256
)

// Bits of the parameter flags. The types, two bits each, are behind typesAt, in the order of operands.
const (
	transposedA = 1 << iota
	transposedB
	readsC
	addsBias

	typesAt = 8
)

// elementType is the type of a matrix's elements in memory.
type elementType uint32

const (
	float32s elementType = iota
	float16s
	bfloat16s
	unknownType
	float64s // of the kernel Double, which has no types
)

func (t elementType) elementSize() uint64 {
	switch t {
	case float32s:
		return 4
	case float64s:
		return 8
	}
	return 2
}

// paramSize is the size of the parameters of either kernel: 104 bytes, then alpha and beta.
const (
	alphaAt         = 104
	singleParamSize = alphaAt + 8
	doubleParamSize = alphaAt + 16
)

// matrix is an operand: in memory by columns.
type matrix struct {
	at, stride    uint64 // stride: from product to product of a batch, in elements
	rows, columns uint64
	leading       uint64
	kind          elementType
	turned        bool // the operand is the transposed matrix
}

// product is a launch's parameters.
type product struct {
	a, b, c, d, bias matrix
	m, n, k          uint64
	alpha, beta      float64
	double           bool
	readsC, addsBias bool
}

// parseParams reads a launch's parameters. It reports false for parameters that Run leaves to the PTX.
func parseParams(kernel string, p []byte) (x product, ok bool) {
	x.double = kernel == Double
	if kernel != Single && kernel != Double || len(p) < singleParamSize || x.double && len(p) < doubleParamSize {
		return x, false
	}
	long := func(i int) uint64 { return binary.LittleEndian.Uint64(p[8*i:]) }
	word := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(p[72+4*i:])) }
	flags := binary.LittleEndian.Uint32(p[100:])
	kind := func(i int) elementType {
		t := elementType(flags >> (typesAt + 2*i) & 3)
		if x.double && t == float32s {
			return float64s
		}
		return t
	}
	x.m, x.n, x.k = word(0), word(1), word(2)
	x.a = matrix{at: long(0), stride: long(5), rows: x.m, columns: x.k, leading: word(3), kind: kind(0), turned: flags&transposedA != 0}
	x.b = matrix{at: long(1), stride: long(6), rows: x.k, columns: x.n, leading: word(4), kind: kind(1), turned: flags&transposedB != 0}
	x.c = matrix{at: long(2), stride: long(7), rows: x.m, columns: x.n, leading: word(5), kind: kind(2)}
	x.d = matrix{at: long(3), stride: long(8), rows: x.m, columns: x.n, leading: word(6), kind: kind(2)}
	x.bias = matrix{at: long(4), rows: x.m, columns: 1, kind: kind(3)}
	x.readsC, x.addsBias = flags&readsC != 0, flags&addsBias != 0
	for _, o := range []*matrix{&x.a, &x.b} {
		if o.turned {
			o.rows, o.columns = o.columns, o.rows
		}
	}
	if x.double {
		x.alpha = math.Float64frombits(binary.LittleEndian.Uint64(p[alphaAt:]))
		x.beta = math.Float64frombits(binary.LittleEndian.Uint64(p[alphaAt+8:]))
	} else {
		x.alpha = float64(math.Float32frombits(binary.LittleEndian.Uint32(p[alphaAt:])))
		x.beta = float64(math.Float32frombits(binary.LittleEndian.Uint32(p[alphaAt+4:])))
	}
	for _, o := range x.listOperands() {
		if o.kind == unknownType || x.double != (o.kind == float64s) {
			return x, false
		}
	}
	return x, x.m > 0 && x.n > 0
}

// listOperands returns the matrices that the launch accesses, the written matrix last.
func (x *product) listOperands() []*matrix {
	var out []*matrix
	if x.k > 0 {
		out = append(out, &x.a, &x.b)
	}
	if x.readsC {
		out = append(out, &x.c)
	}
	if x.addsBias {
		out = append(out, &x.bias)
	}
	return append(out, &x.d)
}

// findRange finds the memory of the matrix of the batch's product z; nil if it is not within a range, or not aligned.
func (o *matrix) findRange(m *memory.Memory, z uint64) (*memory.Range, []byte) {
	over, last := bits.Mul64(o.columns-1, o.leading)
	if over != 0 || last > 1<<48 || o.at%o.kind.elementSize() != 0 {
		return nil, nil
	}
	at, size := o.at+z*o.stride*o.kind.elementSize(), (last+o.rows)*o.kind.elementSize()
	r := m.FindRange(at, size)
	if r == nil {
		return nil, nil
	}
	return r, r.Bytes[at-r.Base:][:size:size]
}
