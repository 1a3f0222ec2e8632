// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// TestSharedPanels: elements are sums by fused multiply-adds in ascending order, where several workers share panels of op(B) in
// several chunks, columns of tiles, and products of a batch.
func TestSharedPanels(t *testing.T) {
	if !Available() {
		t.Skip("SKIP: this processor has no AVX2")
	}
	p := &problem{kernel: Double, m: 300, n: 200, k: 600, batch: 2, alpha: 1, lead: [4]uint32{300, 600, 300, 300}}
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 5 {
		p.fill(r, i, false)
	}
	element := func(i int, z, row, column uint32) float64 {
		at := uint64(z)*p.stride(i) + uint64(column)*uint64(p.lead[i]) + uint64(row)
		return math.Float64frombits(binary.LittleEndian.Uint64(p.operands[i][8*at:]))
	}
	want := make([]float64, 0, p.batch*p.n*p.m) // in the order of the loops below
	for z := range p.batch {
		for column := range p.n {
			for row := range p.m {
				sum := 0.0
				for k := range p.k {
					sum = math.FMA(element(0, z, row, k), element(1, z, k, column), sum)
				}
				want = append(want, sum)
			}
		}
	}
	for _, workers := range []int{1, 2, 7} {
		m, d := p.mapMemory(t)
		done, ok, err := Run(t.Context(), Launch{Kernel: p.kernel, Grid: p.grid(), Params: p.params(), Memory: m, Workers: workers})
		if !ok || err != nil || done != 3*3*2 {
			t.Fatalf("Run: done %d, ok %v, error %v", done, ok, err)
		}
		p.operands[3] = d
		at := 0
		for z := range p.batch {
			for column := range p.n {
				for row := range p.m {
					if got := element(3, z, row, column); got != want[at] {
						t.Fatalf("%d workers: element %d, %d of product %d is %v, want %v", workers, row, column, z, got, want[at])
					}
					at++
				}
			}
		}
	}
}

// TestPanelPool: workers at the same place have the same panels, and panels that no worker uses are given to another place.
func TestPanelPool(t *testing.T) {
	x := &product{m: 4 * tileRows, n: 30, k: chunk + 1}
	pool := newPanelPool[float32](x)
	if pool == nil || pool.chunks != 2 || pool.size != 36*(chunk+1) {
		t.Fatalf("the panel pool is %+v, want 2 chunks of 36 columns", pool)
	}
	first, second := tilePosition{}, tilePosition{member: 1}
	a := pool.switchPanels(nil, first)
	b := pool.switchPanels(nil, tilePosition{row: tileRows})
	if a != b {
		t.Error("two workers in the same columns have panels of their own")
	}
	if b = pool.switchPanels(b, second); a == b {
		t.Error("panels that are in use were given to another place")
	}
	if got := pool.switchPanels(a, second); got != b || len(pool.panels) != 2 {
		t.Errorf("%d panels, want 2, the second for both workers", len(pool.panels))
	}
	if got := pool.switchPanels(b, tilePosition{member: 2}); got != a {
		t.Error("unused panels were not used again")
	}
	for _, alone := range []*product{{m: tileRows, n: 30, k: 9}, {m: 1000, n: 96, k: keptB}} {
		if newPanelPool[float32](alone) != nil {
			t.Errorf("%d x %d x %d: panels are kept that no tile needs again, or that are too large", alone.m, alone.n, alone.k)
		}
	}
}
