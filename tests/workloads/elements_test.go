// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"math"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
)

// uniform is fill_uniform on the host; data.c has the same.
func uniform(seed, i uint32) float64 {
	x := i*0x9e3779b1 + seed
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	x ^= x >> 16
	return float64(x>>8)/(1<<23) - 1
}

func TestFillUniform(t *testing.T) {
	b := boot(t)
	p := b.floats(make([]float64, 1000))
	b.over("fill_uniform", 1000, p, 1000, 7, 1.0, 0.0)
	want := make([]float64, 1000)
	sum := 0.0
	for i := range want {
		want[i] = uniform(7, uint32(i))
		sum += want[i]
	}
	near(t, "p", b.read(p), want, 0)
	if math.Abs(sum) > 60 {
		t.Errorf("the random numbers are not uniform: their sum is %g", sum)
	}
	b.over("fill_uniform", 1000, p, 1000, 7, 0.5, 3.0)
	for i := range want {
		want[i] = 3 + want[i]/2
	}
	near(t, "p", b.read(p), want, 1e-7)
}

func gelu(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// each applies a function to all of x.
func each(f func(float64) float64, x []float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = f(x[i])
	}
	return y
}

func TestElements(t *testing.T) {
	r := seeded()
	const n = 1500
	b := boot(t)
	x, z, dy := numbers(r, n), numbers(r, n), numbers(r, n)
	for i := range x {
		x[i] = float64(float32(x[i] * 6))
	}
	x[0], x[1], x[2] = 50, -50, 0
	px, pz, pdy, py := b.floats(x), b.floats(z), b.floats(dy), b.floats(make([]float64, n))

	b.over("gelu", n, py, px, n)
	near(t, "gelu", b.read(py), each(gelu, x), 1e-6)
	b.over("relu", n, py, px, n)
	near(t, "relu", b.read(py), each(func(x float64) float64 { return max(x, 0) }, x), 0)
	b.over("sum_of", n, py, px, pz, n)
	sum := make([]float64, n)
	for i := range sum {
		sum[i] = float64(float32(x[i]) + float32(z[i]))
	}
	near(t, "sum", b.read(py), sum, 0)
	b.over("tanh_of_sum", n, py, px, pz, n)
	near(t, "tanh", b.read(py), each(math.Tanh, sum), 1e-6)
	b.over("mix", n, pz, px, n, 0.5, -2.0)
	mixed := make([]float64, n)
	for i := range mixed {
		mixed[i] = z[i]/2 - 2*x[i]
	}
	near(t, "mix", b.read(pz), mixed, 1e-6)

	for _, c := range []struct {
		name string
		f    func(float64) float64
	}{{"gelu", gelu}, {"relu", func(x float64) float64 { return max(x, 0) }}} {
		at := append([]float64{}, x...)
		want := make([]float64, n)
		for i := range at {
			want[i] = dy[i] * (c.f(at[i]+1e-5) - c.f(at[i]-1e-5)) / 2e-5
		}
		b.over(c.name+"_gradient", n, py, pdy, px, n)
		got := b.read(py)
		got[2], want[2] = 0, 0 // relu has no slope at 0
		near(t, c.name+"_gradient", got, want, 1e-5)
	}
}

func TestBias(t *testing.T) {
	r := seeded()
	b := boot(t)
	y, bias := numbers(r, 7*13), numbers(r, 13)
	py, pb := b.floats(y), b.floats(bias)
	b.over("add_bias", 7*13, py, pb, 7*13, 13)
	want := make([]float64, len(y))
	sums := make([]float64, 13)
	for i := range y {
		want[i] = float64(float32(y[i]) + float32(bias[i%13]))
		sums[i%13] += want[i]
	}
	near(t, "y", b.read(py), want, 0)
	b.over("sum_rows", 13, pb, py, 7, 13, 2.0)
	for i := range sums {
		sums[i] += 2 * bias[i]
	}
	near(t, "the sum of rows", b.read(pb), sums, 1e-6)
}

func TestAdam(t *testing.T) {
	r := seeded()
	b := boot(t)
	const n, b1, b2, eps, rate, share = 300, 0.9, 0.99, 1e-8, 0.01, 0.25
	p, m, v := numbers(r, n), make([]float64, n), make([]float64, n)
	pp, pm, pv := b.floats(p), b.floats(m), b.floats(v)
	for step := 1.0; step <= 3; step++ {
		g := numbers(r, n)
		c1, c2 := 1/(1-math.Pow(b1, step)), 1/(1-math.Pow(b2, step))
		b.over("adam", n, pp, b.floats(g), pm, pv, n, rate, b1, b2, eps, c1, c2, share)
		for i := range g {
			d := g[i] * share
			m[i] = b1*m[i] + (1-b1)*d
			v[i] = b2*v[i] + (1-b2)*d*d
			p[i] -= rate * m[i] * c1 / (math.Sqrt(v[i]*c2) + eps)
		}
		near(t, "p", b.read(pp), p, 1e-5)
	}
	near(t, "m", b.read(pm), m, 1e-5)
	near(t, "v", b.read(pv), v, 1e-5)
}

func TestTotal(t *testing.T) {
	b := boot(t)
	for _, n := range []int{1, 255, 256, 1000} {
		x := numbers(seeded(), n)
		want := 0.0
		for _, v := range x {
			want += v
		}
		out := b.floats([]float64{0})
		b.launch("total", ptx.Dim3{X: 1, Y: 1, Z: 1}, ptx.Dim3{X: 256, Y: 1, Z: 1}, out, b.floats(x), n)
		near(t, "the total", b.read(out), []float64{want}, 1e-5)
	}
}

// TestFunctions: the functions in math.ptx are as good as float32 allows.
func TestFunctions(t *testing.T) {
	b := boot(t)
	// The cross entropy of a row (0, x) with column 0 is log(1 + exp(x)).
	n := 2000
	x, target := make([]float64, 2*n), make([]uint32, n)
	want := make([]float64, n)
	for i := range n {
		x[2*i+1] = float64(float32(40*float64(i)/float64(n) - 20))
		want[i] = math.Log1p(math.Exp(x[2*i+1]))
	}
	loss := b.floats(make([]float64, n))
	b.perRow("cross_entropy", n, loss, uint64(0), b.floats(x), b.words(target), n, 2, 1.0)
	near(t, "log(1 + exp(x))", b.read(loss), want, 3e-7)
}
