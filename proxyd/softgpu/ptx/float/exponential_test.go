// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package float

import (
	"flag"
	"math"
	"testing"
)

var all = flag.Bool("all", false, "compare all numbers of f32, not one of a thousand")

// TestExponentials: Log2 equals the result of package math, rounded; so does Exp2, except where the result lies in the
// middle between two numbers as far as float64 can tell.
func TestExponentials(t *testing.T) {
	step := uint64(997)
	if *all {
		step = 1
	}
	differ := 0
	for b := uint64(0); b < 1<<32; b += step {
		x := math.Float32frombits(uint32(b))
		got, want := Log2(x), float32(math.Log2(float64(x)))
		if got != want && (got == got || want == want) {
			t.Fatalf("Log2(%g) = %g, should be %g", x, got, want)
		}
		got, exact := Exp2(x), math.Exp2(float64(x))
		want = float32(exact)
		if got == want || got != got && want != want {
			continue
		}
		differ++
		if other := float32(exact * (1 + math.Copysign(1e-15, float64(got)-float64(want)))); got != other {
			t.Fatalf("Exp2(%g) = %g, should be %g", x, got, want)
		}
	}
	t.Logf("Exp2: %d differ", differ)
	for x := -160; x <= 160; x++ {
		if got, want := Exp2(float32(x)), float32(math.Ldexp(1, x)); got != want {
			t.Errorf("Exp2(%d) = %g", x, got)
		}
	}
}
