// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package float

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTrigonometry: sine and cosine equal the results of package math, rounded, but for a few that lie between two numbers.
func TestTrigonometry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	inputs := []float32{
		0, math.Float32frombits(1 << 31), 1, -1, TurnBound, 2 * TurnBound, -3e9, math.MaxFloat32, math.Float32frombits(1), math.Pi, -math.Pi,
		math.Pi / 2, 3 * math.Pi / 4, 710, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	}
	for range 200_000 {
		inputs = append(inputs, math.Float32frombits(r.Uint32()), float32(r.NormFloat64()*10), float32(r.NormFloat64()*TurnBound/2))
	}
	other := 0
	for _, x := range inputs {
		for _, f := range []struct {
			name string
			got  float32
			want float64
		}{{"sin", Sin(x), math.Sin(float64(x))}, {"cos", Cos(x), math.Cos(float64(x))}} {
			want := float32(f.want)
			switch {
			case math.Float32bits(f.got) == math.Float32bits(want), f.got != f.got && want != want:
			case math.Nextafter32(f.got, want) == want:
				other++
			default:
				t.Errorf("%s(%g) is %g, should be %g", f.name, x, f.got, want)
			}
		}
	}
	if other > len(inputs)/100_000+1 {
		t.Errorf("%d of %d results are rounded to the other side", other, 2*len(inputs))
	}
}
