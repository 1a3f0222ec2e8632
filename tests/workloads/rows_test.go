// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
)

// normaliseRows returns layer normalisation on the host, and also each row's mean and 1 / its standard deviation.
func normaliseRows(x, gain, shift []float64) (y, mean, spread []float64) {
	cols := len(gain)
	rows := len(x) / cols
	y, mean, spread = make([]float64, len(x)), make([]float64, rows), make([]float64, rows)
	for r := range rows {
		row := x[r*cols : (r+1)*cols]
		square := 0.0
		for _, v := range row {
			mean[r] += v / float64(cols)
		}
		for _, v := range row {
			square += (v - mean[r]) * (v - mean[r]) / float64(cols)
		}
		spread[r] = 1 / math.Sqrt(square+1e-5)
		for j, v := range row {
			y[r*cols+j] = (v-mean[r])*spread[r]*gain[j] + shift[j]
		}
	}
	return y, mean, spread
}

func TestNormalise(t *testing.T) {
	for _, cols := range []int{32, 20, 77} {
		const rows = 6
		r := seededRandom()
		b := bootMachine(t)
		x, gain, shift, dy, before := randomNumbers(r, rows*cols), randomNumbers(r, cols), randomNumbers(r, cols), randomNumbers(r, rows*cols), randomNumbers(r, rows*cols)
		px, pg, ps := b.placeFloats(x), b.placeFloats(gain), b.placeFloats(shift)
		py, pm, pr := b.placeFloats(make([]float64, rows*cols)), b.placeFloats(make([]float64, rows)), b.placeFloats(make([]float64, rows))
		b.perRow("normalise", rows, py, px, pg, ps, pm, pr, rows, cols)
		y, mean, spread := normaliseRows(x, gain, shift)
		checkNear(t, "y", b.readFloats(py), y, 1e-5)
		checkNear(t, "mean", b.readFloats(pm), mean, 1e-5)
		checkNear(t, "spread", b.readFloats(pr), spread, 1e-5)

		pdy, pdx := b.placeFloats(dy), b.placeFloats(before)
		b.perRow("normalise_gradient", rows, pdx, pdy, px, pg, pm, pr, rows, cols, 0.5)
		want := slopeOf(func(x []float64) float64 { y, _, _ := normaliseRows(x, gain, shift); return weightedSum(y, dy) }, x)
		for i := range want {
			want[i] += before[i] / 2
		}
		checkNear(t, "dx", b.readFloats(pdx), want, 1e-4)

		pdg, pds := b.placeFloats(randomNumbers(r, cols)), b.placeFloats(randomNumbers(r, cols))
		b.launchOver("normalise_gain_gradient", cols, pdg, pds, pdy, px, pm, pr, rows, cols, 0.0)
		want = slopeOf(func(g []float64) float64 { y, _, _ := normaliseRows(x, g, shift); return weightedSum(y, dy) }, gain)
		checkNear(t, "the gradient of the gain", b.readFloats(pdg), want, 1e-4)
		want = slopeOf(func(s []float64) float64 { y, _, _ := normaliseRows(x, gain, s); return weightedSum(y, dy) }, shift)
		checkNear(t, "the gradient of the shift", b.readFloats(pds), want, 1e-4)
	}
}

func causalSoftmax(s []float64, n int, scale float64) []float64 {
	p := make([]float64, len(s))
	for r := range len(s) / n {
		sum := 0.0
		for j := range r%n + 1 {
			sum += math.Exp(scale * s[r*n+j])
		}
		for j := range r%n + 1 {
			p[r*n+j] = math.Exp(scale*s[r*n+j]) / sum
		}
	}
	return p
}

func TestCausalSoftmax(t *testing.T) {
	for _, n := range []int{5, 32, 40} {
		r := seededRandom()
		b := bootMachine(t)
		rows := 2 * n
		s, dp := randomNumbers(r, rows*n), randomNumbers(r, rows*n)
		ps, pdp := b.placeFloats(s), b.placeFloats(dp)
		b.perRow("causal_softmax", rows, ps, rows, n, 0.3)
		checkNear(t, "p", b.readFloats(ps), causalSoftmax(s, n, 0.3), 1e-6)
		b.perRow("causal_softmax_gradient", rows, pdp, ps, rows, n, 0.3)
		want := slopeOf(func(s []float64) float64 { return weightedSum(causalSoftmax(s, n, 0.3), dp) }, s)
		checkNear(t, "ds", b.readFloats(pdp), want, 1e-5)
	}
}

func TestCrossEntropy(t *testing.T) {
	for _, cols := range []int{10, 64} {
		const rows = 5
		r := seededRandom()
		b := bootMachine(t)
		x, target := randomNumbers(r, rows*cols), make([]uint32, rows)
		for i := range target {
			target[i] = uint32(r.IntN(cols))
		}
		f := func(x []float64) []float64 {
			loss := make([]float64, rows)
			for i := range loss {
				sum := 0.0
				for j := range cols {
					sum += math.Exp(x[i*cols+j])
				}
				loss[i] = math.Log(sum) - x[i*cols+int(target[i])]
			}
			return loss
		}
		loss, dx, px := b.placeFloats(make([]float64, rows)), b.placeFloats(make([]float64, rows*cols)), b.placeFloats(x)
		b.perRow("cross_entropy", rows, loss, dx, px, b.placeWords(target), rows, cols, 0.25)
		checkNear(t, "the loss", b.readFloats(loss), f(x), 1e-6)
		ones := make([]float64, rows)
		for i := range ones {
			ones[i] = 0.25
		}
		checkNear(t, "dx", b.readFloats(dx), slopeOf(func(x []float64) float64 { return weightedSum(f(x), ones) }, x), 1e-5)

		at := b.placeWords(make([]uint32, rows))
		b.perRow("largest", rows, at, px, rows, cols)
		for i := range rows {
			best := 0
			for j := range cols {
				if x[i*cols+j] > x[i*cols+best] {
					best = j
				}
			}
			if got := int(binary.LittleEndian.Uint32(b.own[at][4*i:])); got != best {
				t.Errorf("the largest of row %d is column %d, not %d", i, got, best)
			}
		}
	}
}

func TestLargestOfEqual(t *testing.T) {
	b := bootMachine(t)
	x := make([]float64, 100)
	x[37], x[70] = 1, 1
	at := b.placeWords([]uint32{0})
	b.perRow("largest", 1, at, b.placeFloats(x), 1, 100)
	if got := binary.LittleEndian.Uint32(b.own[at]); got != 37 {
		t.Errorf("column %d, want the first, 37", got)
	}
}

func TestEmbed(t *testing.T) {
	const words, cols, length, batch = 9, 6, 5, 3
	r := seededRandom()
	b := bootMachine(t)
	table, place, id := randomNumbers(r, words*cols), randomNumbers(r, length*cols), make([]uint32, batch*length)
	for i := range id {
		id[i] = uint32(r.IntN(words))
	}
	n := batch * length * cols
	x, dx := b.placeFloats(make([]float64, n)), randomNumbers(r, n)
	pid := b.placeWords(id)
	b.launchOver("embed", n, x, b.placeFloats(table), b.placeFloats(place), pid, n, cols, length)
	want, dtable := make([]float64, n), make([]float64, words*cols)
	for i := range want {
		tok := i / cols
		want[i] = table[int(id[tok])*cols+i%cols] + place[tok%length*cols+i%cols]
		dtable[int(id[tok])*cols+i%cols] += dx[i]
	}
	checkNear(t, "x", b.readFloats(x), want, 1e-6)
	d := b.placeFloats(randomNumbers(r, words*cols))
	b.launchOver("embed_gradient", words*cols, d, b.placeFloats(dx), pid, words*cols, cols, batch*length)
	checkNear(t, "the gradient of the table", b.readFloats(d), dtable, 1e-6)
}

func TestGemm(t *testing.T) {
	for _, c := range []struct {
		name         string
		m, n, k      int
		transA, tran bool
		keep         float64
	}{
		{"one tile", 32, 32, 16, false, false, 0},
		{"small", 3, 5, 7, false, false, 0},
		{"odd", 45, 70, 33, false, false, 0.5},
		{"A transposed", 40, 33, 20, true, false, 0},
		{"B transposed", 17, 40, 50, false, true, 1},
		{"both", 33, 31, 17, true, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const batch, heads = 6, 3
			r := seededRandom()
			b := bootMachine(t)
			A, B, C := randomNumbers(r, batch*c.m*c.k), randomNumbers(r, batch*c.k*c.n), randomNumbers(r, batch*c.m*c.n)
			ars, acs, brs, bcs := c.k, 1, c.n, 1
			if c.transA {
				ars, acs = 1, c.m
			}
			if c.tran {
				brs, bcs = 1, c.k
			}
			want := make([]float64, len(C))
			for z := range batch {
				for i := range c.m {
					for j := range c.n {
						s := 0.0
						for k := range c.k {
							s += A[z*c.m*c.k+i*ars+k*acs] * B[z*c.k*c.n+k*brs+j*bcs]
						}
						at := z*c.m*c.n + i*c.n + j
						want[at] = 2*s + c.keep*C[at]
					}
				}
			}
			pc := b.placeFloats(C)
			b.launchKernel("gemm", ptx.Dim3{X: uint32(c.n+31) / 32, Y: uint32(c.m+31) / 32, Z: batch}, ptx.Dim3{X: 32, Y: 8, Z: 1},
				b.placeFloats(A), b.placeFloats(B), pc, c.m, c.n, c.k, ars, acs, brs, bcs, c.n, heads,
				heads*c.m*c.k, c.m*c.k, heads*c.k*c.n, c.k*c.n, heads*c.m*c.n, c.m*c.n, 2.0, c.keep)
			checkNear(t, "C", b.readFloats(pc), want, 1e-5)
		})
	}
}
