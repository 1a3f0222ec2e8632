// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
)

// normalise is layer normalisation on the host; it also returns each row's mean and 1 / its standard deviation.
func normalise(x, gain, shift []float64) (y, mean, spread []float64) {
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
		r := seeded()
		b := boot(t)
		x, gain, shift, dy, before := numbers(r, rows*cols), numbers(r, cols), numbers(r, cols), numbers(r, rows*cols), numbers(r, rows*cols)
		px, pg, ps := b.floats(x), b.floats(gain), b.floats(shift)
		py, pm, pr := b.floats(make([]float64, rows*cols)), b.floats(make([]float64, rows)), b.floats(make([]float64, rows))
		b.perRow("normalise", rows, py, px, pg, ps, pm, pr, rows, cols)
		y, mean, spread := normalise(x, gain, shift)
		near(t, "y", b.read(py), y, 1e-5)
		near(t, "mean", b.read(pm), mean, 1e-5)
		near(t, "spread", b.read(pr), spread, 1e-5)

		pdy, pdx := b.floats(dy), b.floats(before)
		b.perRow("normalise_gradient", rows, pdx, pdy, px, pg, pm, pr, rows, cols, 0.5)
		want := slope(func(x []float64) float64 { y, _, _ := normalise(x, gain, shift); return dot(y, dy) }, x)
		for i := range want {
			want[i] += before[i] / 2
		}
		near(t, "dx", b.read(pdx), want, 1e-4)

		pdg, pds := b.floats(numbers(r, cols)), b.floats(numbers(r, cols))
		b.over("normalise_gain_gradient", cols, pdg, pds, pdy, px, pm, pr, rows, cols, 0.0)
		want = slope(func(g []float64) float64 { y, _, _ := normalise(x, g, shift); return dot(y, dy) }, gain)
		near(t, "the gradient of the gain", b.read(pdg), want, 1e-4)
		want = slope(func(s []float64) float64 { y, _, _ := normalise(x, gain, s); return dot(y, dy) }, shift)
		near(t, "the gradient of the shift", b.read(pds), want, 1e-4)
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
		r := seeded()
		b := boot(t)
		rows := 2 * n
		s, dp := numbers(r, rows*n), numbers(r, rows*n)
		ps, pdp := b.floats(s), b.floats(dp)
		b.perRow("causal_softmax", rows, ps, rows, n, 0.3)
		near(t, "p", b.read(ps), causalSoftmax(s, n, 0.3), 1e-6)
		b.perRow("causal_softmax_gradient", rows, pdp, ps, rows, n, 0.3)
		want := slope(func(s []float64) float64 { return dot(causalSoftmax(s, n, 0.3), dp) }, s)
		near(t, "ds", b.read(pdp), want, 1e-5)
	}
}

func TestCrossEntropy(t *testing.T) {
	for _, cols := range []int{10, 64} {
		const rows = 5
		r := seeded()
		b := boot(t)
		x, target := numbers(r, rows*cols), make([]uint32, rows)
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
		loss, dx, px := b.floats(make([]float64, rows)), b.floats(make([]float64, rows*cols)), b.floats(x)
		b.perRow("cross_entropy", rows, loss, dx, px, b.words(target), rows, cols, 0.25)
		near(t, "the loss", b.read(loss), f(x), 1e-6)
		ones := make([]float64, rows)
		for i := range ones {
			ones[i] = 0.25
		}
		near(t, "dx", b.read(dx), slope(func(x []float64) float64 { return dot(f(x), ones) }, x), 1e-5)

		at := b.words(make([]uint32, rows))
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
	b := boot(t)
	x := make([]float64, 100)
	x[37], x[70] = 1, 1
	at := b.words([]uint32{0})
	b.perRow("largest", 1, at, b.floats(x), 1, 100)
	if got := binary.LittleEndian.Uint32(b.own[at]); got != 37 {
		t.Errorf("column %d, want the first, 37", got)
	}
}

func TestEmbed(t *testing.T) {
	const words, cols, length, batch = 9, 6, 5, 3
	r := seeded()
	b := boot(t)
	table, place, id := numbers(r, words*cols), numbers(r, length*cols), make([]uint32, batch*length)
	for i := range id {
		id[i] = uint32(r.IntN(words))
	}
	n := batch * length * cols
	x, dx := b.floats(make([]float64, n)), numbers(r, n)
	pid := b.words(id)
	b.over("embed", n, x, b.floats(table), b.floats(place), pid, n, cols, length)
	want, dtable := make([]float64, n), make([]float64, words*cols)
	for i := range want {
		tok := i / cols
		want[i] = table[int(id[tok])*cols+i%cols] + place[tok%length*cols+i%cols]
		dtable[int(id[tok])*cols+i%cols] += dx[i]
	}
	near(t, "x", b.read(x), want, 1e-6)
	d := b.floats(numbers(r, words*cols))
	b.over("embed_gradient", words*cols, d, b.floats(dx), pid, words*cols, cols, batch*length)
	near(t, "the gradient of the table", b.read(d), dtable, 1e-6)
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
			r := seeded()
			b := boot(t)
			A, B, C := numbers(r, batch*c.m*c.k), numbers(r, batch*c.k*c.n), numbers(r, batch*c.m*c.n)
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
			pc := b.floats(C)
			b.launch("gemm", ptx.Dim3{X: uint32(c.n+31) / 32, Y: uint32(c.m+31) / 32, Z: batch}, ptx.Dim3{X: 32, Y: 8, Z: 1},
				b.floats(A), b.floats(B), pc, c.m, c.n, c.k, ars, acs, brs, bcs, c.n, heads,
				heads*c.m*c.k, c.m*c.k, heads*c.k*c.n, c.k*c.n, heads*c.m*c.n, c.m*c.n, 2.0, c.keep)
			near(t, "C", b.read(pc), want, 1e-5)
		})
	}
}
