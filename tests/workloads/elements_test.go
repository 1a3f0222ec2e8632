// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"math"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
)

// uniformNumber is fill_uniform on the host; data.c has the same.
func uniformNumber(seed, i uint32) float64 {
	x := i*0x9e3779b1 + seed
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	x ^= x >> 16
	return float64(x>>8)/(1<<23) - 1
}

func TestFillUniform(t *testing.T) {
	b := bootMachine(t)
	p := b.placeFloats(make([]float64, 1000))
	b.launchOver("fill_uniform", 1000, p, 1000, 7, 1.0, 0.0)
	want := make([]float64, 1000)
	sum := 0.0
	for i := range want {
		want[i] = uniformNumber(7, uint32(i))
		sum += want[i]
	}
	checkNear(t, "p", b.readFloats(p), want, 0)
	if math.Abs(sum) > 60 {
		t.Errorf("the random numbers are not uniform: their sum is %g", sum)
	}
	b.launchOver("fill_uniform", 1000, p, 1000, 7, 0.5, 3.0)
	for i := range want {
		want[i] = 3 + want[i]/2
	}
	checkNear(t, "p", b.readFloats(p), want, 1e-7)
}

func geluOf(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// applyToEach applies a function to all of x.
func applyToEach(f func(float64) float64, x []float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = f(x[i])
	}
	return y
}

func TestElements(t *testing.T) {
	r := seededRandom()
	const n = 1500
	b := bootMachine(t)
	x, z, dy := randomNumbers(r, n), randomNumbers(r, n), randomNumbers(r, n)
	for i := range x {
		x[i] = float64(float32(x[i] * 6))
	}
	x[0], x[1], x[2] = 50, -50, 0
	px, pz, pdy, py := b.placeFloats(x), b.placeFloats(z), b.placeFloats(dy), b.placeFloats(make([]float64, n))

	b.launchOver("gelu", n, py, px, n)
	checkNear(t, "gelu", b.readFloats(py), applyToEach(geluOf, x), 1e-6)
	b.launchOver("relu", n, py, px, n)
	checkNear(t, "relu", b.readFloats(py), applyToEach(func(x float64) float64 { return max(x, 0) }, x), 0)
	b.launchOver("sum_of", n, py, px, pz, n)
	sum := make([]float64, n)
	for i := range sum {
		sum[i] = float64(float32(x[i]) + float32(z[i]))
	}
	checkNear(t, "sum", b.readFloats(py), sum, 0)
	b.launchOver("tanh_of_sum", n, py, px, pz, n)
	checkNear(t, "tanh", b.readFloats(py), applyToEach(math.Tanh, sum), 1e-6)
	b.launchOver("mix", n, pz, px, n, 0.5, -2.0)
	mixed := make([]float64, n)
	for i := range mixed {
		mixed[i] = z[i]/2 - 2*x[i]
	}
	checkNear(t, "mix", b.readFloats(pz), mixed, 1e-6)

	for _, c := range []struct {
		name string
		f    func(float64) float64
	}{{"gelu", geluOf}, {"relu", func(x float64) float64 { return max(x, 0) }}} {
		at := append([]float64{}, x...)
		want := make([]float64, n)
		for i := range at {
			want[i] = dy[i] * (c.f(at[i]+1e-5) - c.f(at[i]-1e-5)) / 2e-5
		}
		b.launchOver(c.name+"_gradient", n, py, pdy, px, n)
		got := b.readFloats(py)
		got[2], want[2] = 0, 0 // relu has no slope at 0
		checkNear(t, c.name+"_gradient", got, want, 1e-5)
	}
}

func TestBias(t *testing.T) {
	r := seededRandom()
	b := bootMachine(t)
	y, bias := randomNumbers(r, 7*13), randomNumbers(r, 13)
	py, pb := b.placeFloats(y), b.placeFloats(bias)
	b.launchOver("add_bias", 7*13, py, pb, 7*13, 13)
	want := make([]float64, len(y))
	sums := make([]float64, 13)
	for i := range y {
		want[i] = float64(float32(y[i]) + float32(bias[i%13]))
		sums[i%13] += want[i]
	}
	checkNear(t, "y", b.readFloats(py), want, 0)
	b.launchOver("sum_rows", 13, pb, py, 7, 13, 2.0)
	for i := range sums {
		sums[i] += 2 * bias[i]
	}
	checkNear(t, "the sum of rows", b.readFloats(pb), sums, 1e-6)
}

func TestAdam(t *testing.T) {
	r := seededRandom()
	b := bootMachine(t)
	const n, b1, b2, eps, rate, share = 300, 0.9, 0.99, 1e-8, 0.01, 0.25
	p, m, v := randomNumbers(r, n), make([]float64, n), make([]float64, n)
	pp, pm, pv := b.placeFloats(p), b.placeFloats(m), b.placeFloats(v)
	for step := 1.0; step <= 3; step++ {
		g := randomNumbers(r, n)
		c1, c2 := 1/(1-math.Pow(b1, step)), 1/(1-math.Pow(b2, step))
		b.launchOver("adam", n, pp, b.placeFloats(g), pm, pv, n, rate, b1, b2, eps, c1, c2, share)
		for i := range g {
			d := g[i] * share
			m[i] = b1*m[i] + (1-b1)*d
			v[i] = b2*v[i] + (1-b2)*d*d
			p[i] -= rate * m[i] * c1 / (math.Sqrt(v[i]*c2) + eps)
		}
		checkNear(t, "p", b.readFloats(pp), p, 1e-5)
	}
	checkNear(t, "m", b.readFloats(pm), m, 1e-5)
	checkNear(t, "v", b.readFloats(pv), v, 1e-5)
}

func TestTotal(t *testing.T) {
	b := bootMachine(t)
	for _, n := range []int{1, 255, 256, 1000} {
		x := randomNumbers(seededRandom(), n)
		want := 0.0
		for _, v := range x {
			want += v
		}
		out := b.placeFloats([]float64{0})
		b.launchKernel("total", ptx.Dim3{X: 1, Y: 1, Z: 1}, ptx.Dim3{X: 256, Y: 1, Z: 1}, out, b.placeFloats(x), n)
		checkNear(t, "the total", b.readFloats(out), []float64{want}, 1e-5)
	}
}

// TestFunctions: the functions in math.ptx are as good as float32 allows.
func TestFunctions(t *testing.T) {
	b := bootMachine(t)
	// The cross entropy of a row (0, x) with column 0 is log(1 + exp(x)).
	n := 2000
	x, target := make([]float64, 2*n), make([]uint32, n)
	want := make([]float64, n)
	for i := range n {
		x[2*i+1] = float64(float32(40*float64(i)/float64(n) - 20))
		want[i] = math.Log1p(math.Exp(x[2*i+1]))
	}
	loss := b.placeFloats(make([]float64, n))
	b.perRow("cross_entropy", n, loss, uint64(0), b.placeFloats(x), b.placeWords(target), n, 2, 1.0)
	checkNear(t, "log(1 + exp(x))", b.readFloats(loss), want, 3e-7)
}
