// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// pieces are the parts of the image, in the order of kernels.S.
var pieces = []string{"head", "math", "elements", "adam", "matrix", "norm", "rows", "columns"}

// bench is the kernels with memory to run on.
type bench struct {
	t    *testing.T
	p    *ptx.Program
	mem  memory.Memory
	next uint64
	own  map[uint64][]byte
}

func bootMachine(t *testing.T) *bench {
	t.Helper()
	var text bytes.Buffer
	for _, name := range pieces {
		b, err := os.ReadFile("src/ptx/" + name + ".ptx")
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	m, err := ptx.Parse("kernels", text.String())
	if err != nil {
		t.Fatal(err)
	}
	p, err := ptx.Link(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Place(1 << 36); err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, p: p, next: 1 << 40, own: map[uint64][]byte{}}
}

// placeFloats places numbers in the device's memory.
func (b *bench) placeFloats(v []float64) uint64 {
	raw := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(float32(x)))
	}
	return b.placeBytes(raw)
}

func (b *bench) placeWords(v []uint32) uint64 {
	raw := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(raw[4*i:], x)
	}
	return b.placeBytes(raw)
}

func (b *bench) placeBytes(raw []byte) uint64 {
	b.t.Helper()
	at := b.next
	b.next += 1 << 30
	own := make([]byte, max(64, len(raw))) // Go aligns large memory well enough to be mapped
	raw = own[:copy(own, raw)]
	if err := b.mem.Map(at, own, false); err != nil {
		b.t.Fatal(err)
	}
	b.own[at] = raw
	return at
}

// readFloats returns the floats at an address.
func (b *bench) readFloats(at uint64) []float64 {
	raw := b.own[at]
	v := make([]float64, len(raw)/4)
	for i := range v {
		v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return v
}

// launchKernel runs a kernel; arguments are uint64 for pointers, int for u32 and float64 for f32.
func (b *bench) launchKernel(kernel string, grid, block ptx.Dim3, args ...any) {
	b.t.Helper()
	k, err := b.p.Kernel(kernel)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(args) != len(k.Params) {
		b.t.Fatalf("%s takes %d parameters, not %d", kernel, len(k.Params), len(args))
	}
	params := make([]byte, k.ParamSize)
	for i, a := range args {
		at := params[k.Params[i].Offset:]
		switch v := a.(type) {
		case uint64:
			binary.LittleEndian.PutUint64(at, v)
		case int:
			binary.LittleEndian.PutUint32(at, uint32(v))
		case float64:
			binary.LittleEndian.PutUint32(at, math.Float32bits(float32(v)))
		}
	}
	err = k.Launch(context.Background(), ptx.Config{Grid: grid, Block: block, Params: params, Memory: &b.mem, Workers: 1})
	if err != nil {
		b.t.Fatal(err)
	}
}

// launchOver launches a kernel for n threads, perRow for rows.
func (b *bench) launchOver(kernel string, n int, args ...any) {
	b.t.Helper()
	b.launchKernel(kernel, ptx.Dim3{X: uint32(n+127) / 128, Y: 1, Z: 1}, ptx.Dim3{X: 128, Y: 1, Z: 1}, args...)
}

func (b *bench) perRow(kernel string, rows int, args ...any) {
	b.t.Helper()
	b.launchKernel(kernel, ptx.Dim3{X: uint32(rows+3) / 4, Y: 1, Z: 1}, ptx.Dim3{X: 32, Y: 4, Z: 1}, args...)
}

// randomNumbers are n of them from -1 to 1, as float32 has them.
func randomNumbers(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(float32(2*r.Float64() - 1))
	}
	return v
}

// checkNear compares a kernel's result with the right one.
func checkNear(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, not %d", what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= tolerance*(1+math.Abs(want[i]))) {
			t.Fatalf("%s[%d] = %g, want %g", what, i, got[i], want[i])
		}
	}
}

// slopeOf is the gradient of f at x by central differences.
func slopeOf(f func([]float64) float64, x []float64) []float64 {
	const h = 1e-5
	g := make([]float64, len(x))
	for i := range x {
		old := x[i]
		x[i] = old + h
		up := f(x)
		x[i] = old - h
		g[i] = (up - f(x)) / (2 * h)
		x[i] = old
	}
	return g
}

// weightedSum is the function of which a gradient kernel computes the gradient: the outputs weighted by dy.
func weightedSum(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func seededRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
