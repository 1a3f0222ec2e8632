// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package float

import (
	"math"
	"testing"
)

// TestF16To32 compares all numbers of f16 with their definition.
func TestF16To32(t *testing.T) {
	for h := range 1 << 16 {
		sign, exponent, digits := 1-h>>15*2, h>>10&31, h&0x3ff
		want := math.Copysign(math.Ldexp(float64(1024+digits), exponent-25), float64(sign))
		switch {
		case exponent == 31 && digits != 0:
			want = math.NaN()
		case exponent == 31:
			want = math.Inf(sign)
		case exponent == 0:
			want = math.Copysign(math.Ldexp(float64(digits), -24), float64(sign))
		}
		got := F16To32(uint16(h))
		if math.IsNaN(want) {
			if math.Float32bits(got) != math.Float32bits(NaN32) {
				t.Fatalf("F16To32(%#x) = %#x, want the canonical NaN", h, math.Float32bits(got))
			}
			continue
		}
		if math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Fatalf("F16To32(%#x) = %g, want %g", h, got, want)
		}
	}
}
